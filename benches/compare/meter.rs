//! What a round costs besides time: requests, and the CPU time of the client and of the servers.

use std::ops::AddAssign;
use std::time::Duration;

use crate::Result;
use crate::servers::Backend;

/// Of `/proc/<pid>/stat`: the kernel's unit for user space, on whatever machine.
const TICK: Duration = Duration::from_millis(10);

/// Differences of two [`Reading`]s.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) requests: f64,
    /// And events of watches.
    pub(crate) replies: f64,
    pub(crate) client_cpu: Duration,
    pub(crate) server_cpu: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packets {
    pub(crate) received: f64,
    pub(crate) sent: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    packets: Packets,
    client_cpu: Duration,
    server_cpu: Duration,
}

impl Reading {
    pub(crate) async fn take(client: Option<u32>, backend: Backend<'_>) -> Result<Self> {
        Ok(Self {
            packets: backend.packets().await?,
            client_cpu: client.map(cpu_time).unwrap_or_default(),
            server_cpu: backend.process_ids().into_iter().map(cpu_time).sum(),
        })
    }

    /// What there was from an earlier reading up to this one. `own` are the packets of a reading itself.
    pub(crate) fn since(&self, earlier: &Self, own: Packets) -> Usage {
        Usage {
            requests: (self.packets.received - earlier.packets.received - own.received).max(0.0),
            replies: (self.packets.sent - earlier.packets.sent - own.sent).max(0.0),
            client_cpu: self.client_cpu.saturating_sub(earlier.client_cpu),
            server_cpu: self.server_cpu.saturating_sub(earlier.server_cpu),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.replies += other.replies;
        self.client_cpu += other.client_cpu;
        self.server_cpu += other.server_cpu;
    }
}

/// The packets of one reading: its questions count as well.
pub(crate) async fn own_packets(backend: Backend<'_>) -> Result<Packets> {
    let first = backend.packets().await?;
    let second = backend.packets().await?;
    Ok(Packets { received: second.received - first.received, sent: second.sent - first.sent })
}

/// Of a process with all its threads, zero where the system does not tell.
fn cpu_time(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // After the name: the state is the third field of all, user and system time are the 14th and 15th.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
    let ticks = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u32>().ok()).sum();
    TICK * ticks
}

/// The memory of a process, in bytes.
pub(crate) fn resident_memory(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}
