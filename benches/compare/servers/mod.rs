//! What the participants connect to.

mod program;
mod relay;
mod zookeeper;

pub(crate) use self::program::Program;
pub(crate) use self::relay::Relay;
pub(crate) use self::zookeeper::ZooKeeper;
use crate::Result;
use crate::meter::Packets;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    ZooKeeper,
    Redis,
    Etcd,
}

impl Service {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ZooKeeper => "ZooKeeper",
            Self::Redis => "Redis",
            Self::Etcd => "etcd",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Backend<'a> {
    ZooKeeper(&'a ZooKeeper),
    Program(&'a Program),
}

impl Backend<'_> {
    pub(crate) fn connect_string(&self) -> String {
        match self {
            Self::ZooKeeper(zookeeper) => zookeeper.connect_string(),
            Self::Program(program) => program.address(),
        }
    }

    pub(crate) fn process_ids(&self) -> Vec<u32> {
        match self {
            Self::ZooKeeper(zookeeper) => zookeeper.process_ids(),
            Self::Program(program) => program.process_id().into_iter().collect(),
        }
    }

    /// Zero where they are not counted.
    pub(crate) async fn packets(&self) -> Result<Packets> {
        match self {
            Self::ZooKeeper(zookeeper) => zookeeper.packets().await,
            Self::Program(_) => Ok(Packets::default()),
        }
    }
}
