//! The servers of a run, and a turn of somebody on them.

use crate::Result;
use crate::load::Load;
use crate::meter::{self, Packets, Reading};
use crate::participants::{OURS, Participant};
use crate::report::Comparison;
use crate::servers::{Backend, Program, Service, ZooKeeper};
use crate::summary::Gathered;

/// The first hand-overs of a queue do not count.
const FIRST_HAND_OVERS: usize = 10;

/// What the participants meet on.
pub(crate) struct Arena {
    pub(crate) zookeeper: ZooKeeper,
    programs: Vec<Program>,
    /// What a reading costs itself.
    pub(crate) own_packets: Packets,
}

/// Somebody who takes part in the case at hand.
pub(crate) struct Contestant<'a> {
    pub(crate) participant: &'a mut Participant,
    pub(crate) load: Load,
    pub(crate) path: String,
    pub(crate) gathered: Gathered,
    pub(crate) failed: bool,
}

impl Arena {
    /// Redis and etcd stand beside one ZooKeeper server only: an ensemble of theirs is not started.
    pub(crate) async fn start(servers: usize, comparison: &mut Comparison) -> Result<Self> {
        let zookeeper = ZooKeeper::start(servers).await?;
        eprintln!("ZooKeeper {}, servers: {servers}", zookeeper.version());
        comparison.add_version("ZooKeeper", zookeeper.version());
        let mut programs = Vec::new();
        let beside = if servers == 1 { &[Service::Redis, Service::Etcd][..] } else { &[] };
        for &service in beside {
            match Program::start(service).await {
                Ok(Some(program)) => {
                    comparison.add_version(service.name(), program.version());
                    programs.push(program);
                }
                Ok(None) => {}
                Err(error) => eprintln!("without {}: {error}", service.name()),
            }
        }
        let own_packets = meter::own_packets(Backend::ZooKeeper(&zookeeper)).await?;
        Ok(Self { zookeeper, programs, own_packets })
    }

    pub(crate) fn services(&self) -> Vec<Service> {
        [Service::ZooKeeper].into_iter().chain(self.programs.iter().map(Program::service)).collect()
    }

    pub(crate) fn backend(&self, service: Service) -> Backend<'_> {
        let program = self.programs.iter().find(|program| program.service() == service);
        program.map_or(Backend::ZooKeeper(&self.zookeeper), Backend::Program)
    }

    pub(crate) async fn open(&self, contestant: &mut Contestant<'_>, rounds: usize) -> Result<()> {
        let Contestant { participant, load, path, .. } = contestant;
        self.zookeeper.prepare(path, *load, rounds).await?;
        let connect_string = self.backend(participant.service).connect_string();
        participant.process.open(&connect_string, path, *load).await
    }

    pub(crate) async fn turn(
        &self,
        contestant: &mut Contestant<'_>,
        round: usize,
        counts: bool,
    ) -> Result<()> {
        let process = &mut contestant.participant.process;
        let backend = self.backend(contestant.participant.service);
        let before = Reading::take(process.process_id(), backend).await?;
        let mut outcome = process.run(round).await?;
        let after = Reading::take(process.process_id(), backend).await?;
        if let Load::HandOver { .. } | Load::Succession { .. } = contestant.load {
            outcome.latencies.drain(..FIRST_HAND_OVERS.min(outcome.latencies.len()));
        }
        if counts {
            contestant.gathered.add(outcome, after.since(&before, self.own_packets));
        }
        Ok(())
    }
}

impl Contestant<'_> {
    /// That of others is their affair, and they are left out from then on.
    pub(crate) fn check(&mut self, done: Result<()>) -> Result<()> {
        match done {
            Err(error) if self.participant.name == OURS => Err(error),
            Err(error) => {
                eprintln!("\nwithout {} from here on: {error}", self.participant.name);
                self.failed = true;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}
