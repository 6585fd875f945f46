//! Measures the cases: the participants take turns, round by round.

use tokio::time::Instant;

use crate::Result;
use crate::arena::{Arena, Contestant};
use crate::cases::{self, Case};
use crate::load::{Load, Operation, Outcome};
use crate::options::Options;
use crate::participants::{self, CURATOR, Participant, part_of};
use crate::report::{Comparison, Measured};
use crate::servers::Relay;
use crate::summary::{Figures, Gathered, Traffic};

/// The JVM's compilers have seen enough after that.
const JAVA_WARM_UP: Load = Load::Timed { operation: Operation::Cycle, iterations: 1500 };
/// Of a case in which bytes are counted: one to warm up, and one that counts.
const RELAYED_ROUNDS: usize = 2;

/// All cases on this many servers.
pub(crate) async fn run_all(options: &Options, servers: usize, comparison: &mut Comparison) -> Result<()> {
    let cases = cases::cases(options, servers);
    if cases.is_empty() {
        return Err("no case is called like that".into());
    }
    let arena = Arena::start(servers, comparison).await?;
    let mut participants = participants::start_all(&arena.services(), options.before.as_deref()).await?;
    for participant in &participants {
        if let Some(version) = participant.process.version() {
            comparison.add_version(participant.name, version);
        }
    }
    for participant in participants.iter_mut().filter(|participant| participant.name == CURATOR) {
        eprintln!("warming up {CURATOR}");
        arena.warm_up(participant).await?;
    }
    for (number, case) in cases.iter().enumerate() {
        let started = Instant::now();
        eprint!("{:2}/{} {} ... ", number + 1, cases.len(), case.title);
        let figures = arena.run(case, options, &mut participants).await?;
        eprintln!("{:.0} s", started.elapsed().as_secs_f64());
        comparison.measured.push(Measured { servers, case: case.clone(), figures });
    }
    Ok(())
}

impl Arena {
    async fn warm_up(&self, participant: &mut Participant) -> Result<()> {
        let path = "/warm-up";
        self.zookeeper.prepare(path, JAVA_WARM_UP, 1).await?;
        participant.process.open(&self.zookeeper.connect_string(), path, JAVA_WARM_UP).await?;
        participant.process.run(0).await?;
        participant.process.close().await
    }

    async fn run(
        &self,
        case: &Case,
        options: &Options,
        participants: &mut Vec<Participant>,
    ) -> Result<Vec<Figures>> {
        let mut contestants: Vec<_> = participants
            .iter_mut()
            .filter_map(|participant| {
                let load = part_of(participant.name, case.load)?;
                let path = format!("/{}/{}", case.name, participant.name);
                Some(Contestant { participant, load, path, gathered: Gathered::default(), failed: false })
            })
            .collect();
        let effort = options.effort;
        match case.load {
            Load::Timed { .. } => {
                self.take_turns(&mut contestants, effort.warm_up_rounds, effort.latency_rounds).await?;
            }
            Load::Contend { .. } | Load::Count { .. } => {
                self.take_turns(&mut contestants, 1, effort.contention_rounds).await?
            }
            Load::HandOver { .. } | Load::Succession { .. } | Load::Park { .. } => {
                for contestant in &mut contestants {
                    let done = self.with_a_queue(contestant).await;
                    contestant.check(done)?;
                }
            }
        }
        let mut figures = Vec::new();
        let mut failed = Vec::new();
        for contestant in contestants {
            if contestant.failed {
                failed.push(contestant.participant.name);
            } else {
                figures.push(contestant.gathered.figures(contestant.participant.name));
            }
        }
        // What state it is in is not known.
        participants.retain(|participant| !failed.contains(&participant.name));
        Ok(figures)
    }

    async fn take_turns(
        &self,
        contestants: &mut [Contestant<'_>],
        warm_up_rounds: usize,
        rounds: usize,
    ) -> Result<()> {
        for contestant in contestants.iter_mut() {
            let opened = self.open(contestant, warm_up_rounds + rounds).await;
            contestant.check(opened)?;
        }
        let count = contestants.len();
        for round in 0..warm_up_rounds + rounds {
            let first = round % count;
            for turn in 0..count {
                let contestant = &mut contestants[(first + turn) % count];
                if contestant.failed {
                    continue;
                }
                let done = self.turn(contestant, round, round >= warm_up_rounds).await;
                contestant.check(done)?;
            }
        }
        for contestant in contestants.iter_mut().filter(|contestant| !contestant.failed) {
            let closed = contestant.participant.process.close().await;
            contestant.check(closed)?;
        }
        for contestant in contestants.iter_mut().filter(|contestant| !contestant.failed) {
            let counted = self.count_bytes(contestant).await;
            contestant.check(counted)?;
        }
        Ok(())
    }

    /// In rounds of their own, as the relay takes time.
    async fn count_bytes(&self, contestant: &mut Contestant<'_>) -> Result<()> {
        let connect_string = self.backend(contestant.participant.service).connect_string();
        if connect_string.contains(',') {
            return Ok(());
        }
        let path = format!("{}-relayed", contestant.path);
        self.zookeeper.prepare(&path, contestant.load, RELAYED_ROUNDS).await?;
        let relay = Relay::start(connect_string).await?;
        let process = &mut contestant.participant.process;
        process.open(relay.address(), &path, contestant.load).await?;
        if let Load::Timed { .. } = contestant.load {
            process.run(0).await?;
        }
        let before = relay.bytes();
        let outcome: Outcome = process.run(0).await?;
        let after = relay.bytes();
        process.close().await?;
        let of_cycle = |way: usize| (after[way] - before[way]) as f64 / outcome.cycles.max(1) as f64;
        contestant.gathered.traffic = Some(Traffic { to_server: of_cycle(0), to_client: of_cycle(1) });
        Ok(())
    }
}
