//! The server, and who is on it.

use std::time::Duration;

use zookeeper_client as zk;

use crate::candidate::Origin;
use crate::clock;
use crate::group::Group;
use crate::history::Deed;
use crate::installed::{Generation, Peers};
use crate::support::{Server, bystander};
use crate::verdict::Downtime;

/// A way to be elected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Latch,
    Selector,
}

impl Recipe {
    pub(crate) const ALL: [Self; 2] = [Self::Latch, Self::Selector];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Latch => "latch",
            Self::Selector => "selector",
        }
    }

    pub(crate) fn parse(word: &str) -> Self {
        Self::ALL.into_iter().find(|recipe| recipe.word() == word).expect("a recipe")
    }
}

pub(crate) struct Stage {
    pub(crate) server: Server,
    /// Looks at the nodes, and is not disturbed but by restarts of the server.
    pub(crate) bystander: zk::Client,
    pub(crate) peers: Vec<Origin>,
    pub(crate) downtimes: Vec<Downtime>,
}

impl Stage {
    /// Peers are on it if they are installed.
    pub(crate) async fn set() -> Self {
        let generations =
            [Generation::Debian, Generation::Current].map(|one| Some((one, Peers::if_installed(one)?)));
        let builder = Server::builder();
        let (builder, peers) = match generations {
            [Some(debian), Some(current)] => {
                let builder = builder.class_path(&current.1.class_path);
                (builder, [debian, current].map(|(one, peers)| Origin::Curator(one, peers)).to_vec())
            }
            _ => (builder, Vec::new()),
        };
        let server = builder.start().await.unwrap();
        let bystander = bystander(&server).await;
        Self { server, bystander, peers, downtimes: Vec::new() }
    }

    /// Kills the server and starts it again on the same data after a pause, and waits until both groups have a leader
    /// again.
    pub(crate) async fn restart_server(&mut self, groups: &[Group; 2], pause: Duration) {
        for group in groups {
            let leader = group.leader().await;
            group.history().record_event(Deed::Restart, &leader.node);
        }
        let from = clock::now();
        self.server.kill().await.unwrap();
        tokio::time::sleep(pause).await;
        self.server.restart().await.unwrap();
        let until = clock::now();
        self.downtimes.push(Downtime { from, until });
        for group in groups {
            group.leader_later_than(until).await;
        }
    }
}
