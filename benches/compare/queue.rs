//! The cases in which all who wait are to be there before it begins.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::Result;
use crate::arena::{Arena, Contestant};
use crate::load::Load;
use crate::meter;
use crate::servers::Backend;

const PATIENCE: Duration = Duration::from_secs(30);
/// A queue that has not grown for this long has all who will be in it.
const SETTLED: Duration = Duration::from_secs(3);
/// Of packets in [`LULL`], when those who queue have done so: pings come in between.
const QUIET: f64 = 10.0;
const LULL: Duration = Duration::from_millis(300);

impl Arena {
    /// One round, which needs all who wait to be there.
    pub(crate) async fn with_a_queue(&self, contestant: &mut Contestant<'_>) -> Result<()> {
        self.open(contestant, 1).await?;
        let process_id = contestant.participant.process.process_id();
        match contestant.load {
            Load::Park { waiters } => {
                let memory = || process_id.and_then(meter::resident_memory);
                let before = memory();
                contestant.participant.process.run(0).await?;
                self.wait_for_queue(&contestant.path, waiters + 1).await?;
                let growth = memory().zip(before).map(|(after, before)| after.saturating_sub(before));
                contestant.gathered.bytes_per_waiter = growth.map(|bytes| bytes as f64 / waiters as f64);
            }
            Load::HandOver { waiters, .. } => {
                self.wait_for_queue(&contestant.path, waiters + 1).await?;
                self.turn(contestant, 0, true).await?;
            }
            Load::Succession { candidates, .. } => {
                self.wait_for_queue(&contestant.path, candidates).await?;
                self.turn(contestant, 0, true).await?;
            }
            Load::Timed { .. } | Load::Contend { .. } | Load::Count { .. } => {}
        }
        contestant.participant.process.close().await
    }

    async fn wait_for_queue(&self, path: &str, contenders: usize) -> Result<()> {
        let mut longest = 0;
        let mut grown = Instant::now();
        while longest < contenders && grown.elapsed() < SETTLED {
            sleep(Duration::from_millis(50)).await;
            let length = self.zookeeper.queue_length(path).await?;
            if length > longest {
                longest = length;
                grown = Instant::now();
            }
        }
        self.wait_for_quiet().await
    }

    /// Those who queue have still to look whom they wait for.
    async fn wait_for_quiet(&self) -> Result<()> {
        let zookeeper = Backend::ZooKeeper(&self.zookeeper);
        let started = Instant::now();
        loop {
            let before = zookeeper.packets().await?;
            sleep(LULL).await;
            let packets = zookeeper.packets().await?.received - before.received - self.own_packets.received;
            if packets <= QUIET || started.elapsed() > PATIENCE {
                return Ok(());
            }
        }
    }
}
