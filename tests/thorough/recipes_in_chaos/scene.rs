//! The stage, on which all recipes are played at once.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::{RwLock, watch};
use zk_recipes::Client;
use zk_recipes::nodes::{Group, Members};

use zookeeper_client as zk;

use crate::barriers::{self, MEMBERS, Rounds};
use crate::caches::{self, Followed};
use crate::installed::Generation;
use crate::kept::{self, Living};
use crate::numbers::{Draws, Kind, Source, Theirs};
use crate::run::Crew;
use crate::stage::{Participant, Stage};
use crate::support::{self, Server};
use crate::texts::Texts;

/// Our caches keep so many changes for those who are late. The readers of the last one are always late.
const BUFFERS: [usize; 4] = [1024, 1024, 1024, 1];

const KEEPERS: usize = 3;
const LANES: usize = 3;

pub(crate) struct Scene {
    pub(crate) server: Arc<RwLock<Server>>,
    /// Looks at the nodes, and is not disturbed but by the ends of the server.
    pub(crate) bystander: zk::Client,
    pub(crate) ours: Vec<(Arc<Participant>, Client)>,
    pub(crate) peers: Vec<Arc<Participant>>,
}

/// All that is played below one path.
pub(crate) struct Show {
    pub(crate) root: String,
    pub(crate) crew: Crew,
    pub(crate) numbers: Vec<Arc<Draws>>,
    pub(crate) texts: Arc<Texts>,
    pub(crate) living: Arc<Living>,
    pub(crate) groups: Vec<watch::Receiver<Members>>,
    pub(crate) rounds: Arc<Rounds>,
    pub(crate) caches: Vec<Followed>,
}

impl Scene {
    pub(crate) async fn set(server: Generation) -> Self {
        let Stage { server, bystander, ours, peers } = Stage::set(server, 0).await;
        Self { server: Arc::new(RwLock::new(server)), bystander, ours, peers }
    }

    pub(crate) fn participants(&self) -> Vec<Arc<Participant>> {
        self.ours.iter().map(|(participant, _)| participant).chain(&self.peers).cloned().collect()
    }

    pub(crate) fn has_peers(&self) -> bool {
        !self.peers.is_empty()
    }

    /// Begins to play.
    pub(crate) async fn open(&self, root: &str) -> Show {
        let mut crew = Crew::default();
        let numbers = Kind::ALL.map(Draws::of).to_vec();
        let (texts, living, rounds) = (Texts::below(root), Arc::default(), Arc::<Rounds>::default());
        let (mut groups, mut caches) = (Vec::new(), Vec::new());
        for ((participant, client), buffer) in self.ours.iter().zip(BUFFERS) {
            let name = &participant.name;
            caches.push(Followed::start(client, name.clone(), root, buffer));
            groups.push(Group::new(client, &kept::group_path(root)).unwrap().watch_members());
            let (root, client) = (root.to_owned(), client.clone());
            crew.hire(format!("{name}-visitor"), |name, run| caches::visit(client, root, name, run));
        }
        for (participant, client) in &self.ours {
            for draws in &numbers {
                for (number, source) in Source::all_of(draws.kind, client, root).into_iter().enumerate() {
                    let name = format!("{}-{:?}-{number}", participant.name, draws.kind);
                    crew.hire(name, |name, run| source.draw(name, draws.clone(), run));
                }
            }
            let (texts, client) = (texts.clone(), client.clone());
            let name = format!("{}-text", participant.name);
            crew.hire(name, |name, run| texts.append(client, name, run));
        }
        for (participant, client) in &self.ours {
            for number in 0..KEEPERS {
                let name = format!("{}-kept-{number}", participant.name);
                let (client, root, living) = (client.clone(), root.to_owned(), Arc::clone(&living));
                crew.hire(name, |name, run| kept::keep(client, root, name, living, run));
            }
        }
        for number in 0..LANES {
            let clients = (0..MEMBERS).map(|member| self.ours[(number + member) % self.ours.len()].1.clone());
            let (clients, root, rounds) = (clients.collect(), root.to_owned(), rounds.clone());
            crew.hire(format!("lane-{number}"), |name, run| barriers::play(clients, root, name, rounds, run));
        }
        for peer in &self.peers {
            self.hire(peer, root, &mut crew, &numbers, &texts, &living).await;
        }
        let root = root.to_owned();
        Show { root, crew, numbers, texts, living, groups, rounds, caches }
    }

    async fn hire(
        &self,
        peer: &Arc<Participant>,
        root: &str,
        crew: &mut Crew,
        numbers: &[Arc<Draws>],
        texts: &Arc<Texts>,
        living: &Arc<Living>,
    ) {
        // An actor is known by its name.
        let place = root.trim_start_matches('/');
        for draws in numbers.iter().filter(|draws| draws.kind != Kind::Ours) {
            let name = format!("{}-{place}-{:?}", peer.name, draws.kind);
            let theirs = Theirs::new(draws.kind, peer, &name, root).await;
            crew.hire(name, |name, run| theirs.draw(name, draws.clone(), run));
        }
        let name = format!("{}-{place}-text", peer.name);
        let actor = texts.actor(peer, &name).await;
        let texts = texts.clone();
        crew.hire(name, |name, run| texts.append_theirs(actor, name, run));
        for number in 0..2 {
            let name = format!("{}-{place}-kept-{number}", peer.name);
            let (peer, root, living) = (peer.clone(), root.to_owned(), living.clone());
            crew.hire(name, |name, run| kept::keep_theirs(peer, root, name, living, run));
        }
    }

    /// Ends the peers and then our clients; no watch may be left of them.
    pub(crate) async fn leave(self) {
        let Self { server, bystander: _bystander, ours, peers } = self;
        drop(peers);
        support::watches_of(&*server.read().await, 0).await;
        support::within(join_all(ours.iter().map(|(_, client)| client.close()))).await;
        println!("neither a node nor a watch is left, and all got on after the trouble");
    }
}

impl Show {
    /// Ends what is still there.
    pub(crate) async fn close(self) {
        self.living.close(&self.crew.run).await;
    }
}
