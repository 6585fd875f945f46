//! What befalls the clients, their connections and the servers; and what an operator does by hand.
//!
//! All of it is drawn from the seed: decks that are shuffled and played to the end, so that nothing is left out.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep, timeout};
use zk_recipes::testing::{Fate, Request, Traffic, kill_session};
use zookeeper_client as zk;

use crate::SESSION_TIMEOUT;
use crate::run::Run;
use crate::stage::{Bystander, Member, Servers};

/// What one operation of the operator may take.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfNetwork {
    Cut,
    Delay,
    ShortSilence,
    LongSilence,
    Refuse,
    LoseReply,
    LoseRequest,
    HoldReply,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfServers {
    Restart,
    Pause,
    IsolateLeader,
    PauseFollowers,
    KillLeader,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfOperator {
    DeleteNode,
    DeletePath,
    KillSession,
}

/// How long the trouble lasts: until then, and until each deck was played once.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) end: Instant,
}

impl Span {
    fn goes_on(&self, run: &Run) -> bool {
        Instant::now() < self.end && run.faults().is_empty()
    }
}

pub(crate) struct Network {
    pub(crate) members: Vec<Arc<Member>>,
    pub(crate) run: Arc<Run>,
    pub(crate) rng: Rng,
}

impl Network {
    pub(crate) async fn make_trouble(mut self, span: Span) {
        use OfNetwork::*;
        let (mut pause, mut is_first) = (10..150, true);
        loop {
            let mut deck = [[Cut; 10], [Delay; 10]].concat();
            deck.extend([LoseReply, LoseReply, LoseReply, LoseRequest, HoldReply, HoldReply]);
            if is_first || self.rng.u8(..3) == 0 {
                deck.extend([ShortSilence, LongSilence, Refuse]);
            }
            self.rng.shuffle(&mut deck);
            for what in deck {
                sleep(Duration::from_millis(self.rng.u64(pause.clone()))).await;
                let victim = self.members[self.rng.usize(..self.members.len())].clone();
                self.befall(&victim, what).await;
            }
            if !span.goes_on(&self.run) {
                self.members.iter().for_each(|member| member.set_delay(Duration::ZERO));
                return;
            }
            // Longer runs have their calm.
            (pause, is_first) = (20..500, false);
        }
    }

    async fn befall(&mut self, victim: &Member, what: OfNetwork) {
        let tally = self.run.tally.clone();
        match what {
            OfNetwork::Cut => {
                tally.count("trouble: cuts");
                victim.cut();
            }
            OfNetwork::Delay => {
                tally.count("trouble: delays");
                // Until the next change of the weather.
                let micros = [0..1, 200..4_000, 4_000..50_000][self.rng.usize(..3)].clone();
                victim.set_delay(Duration::from_micros(self.rng.u64(micros)));
            }
            OfNetwork::ShortSilence | OfNetwork::LongSilence => {
                let is_long = what == OfNetwork::LongSilence;
                tally.count(if is_long { "trouble: long silences" } else { "trouble: short silences" });
                let share = if is_long { 1.1 + 0.4 * self.rng.f64() } else { 0.2 + 0.45 * self.rng.f64() };
                let holes =
                    [Traffic::black_hole(), Traffic::black_hole_to_client(), Traffic::black_hole_to_server()];
                let hole = holes[self.rng.usize(..holes.len())];
                self.lure(victim).await;
                victim.set_silence(Some(hole));
                sleep(SESSION_TIMEOUT.mul_f64(share)).await;
                victim.set_silence(None);
                victim.set_stays(false);
            }
            OfNetwork::Refuse => {
                tally.count("trouble: refused connections");
                self.lure(victim).await;
                victim.refuse_connections(true);
                victim.cut();
                sleep(SESSION_TIMEOUT.mul_f64(0.2 + self.rng.f64())).await;
                victim.refuse_connections(false);
                victim.set_stays(false);
            }
            OfNetwork::LoseReply => self.intercept(victim, Fate::LoseReply, "trouble: replies lost").await,
            OfNetwork::LoseRequest => {
                self.intercept(victim, Fate::LoseRequest, "trouble: requests lost").await
            }
            OfNetwork::HoldReply => self.intercept(victim, Fate::HoldReply, "trouble: replies held").await,
        }
    }

    /// Lets its tasks stay where they get in, for a moment.
    async fn lure(&mut self, victim: &Member) {
        victim.set_stays(true);
        sleep(Duration::from_millis(self.rng.u64(50..300))).await;
    }

    async fn intercept(&mut self, victim: &Member, fate: Fate, what: &'static str) {
        let kinds = [
            Request::Create,
            Request::Create,
            Request::Delete,
            Request::Multi,
            Request::GetChildren,
            Request::Exists,
        ];
        let kind = kinds[self.rng.usize(..kinds.len())];
        let length = Duration::from_millis(self.rng.u64(20..500));
        let intercepted: Vec<_> = victim.proxies.iter().map(|proxy| proxy.intercept(kind, fate)).collect();
        let happened = intercepted.iter().map(|one| Box::pin(one.happened()));
        if timeout(SESSION_TIMEOUT / 2, futures_util::future::select_all(happened)).await.is_ok() {
            self.run.tally.count(what);
            if fate == Fate::HoldReply {
                sleep(length).await;
            }
        }
    }
}

/// What befalls the servers.
pub(crate) async fn of_servers(servers: &mut Servers, run: &Run, mut rng: Rng, span: Span) {
    use OfServers::*;
    let mut pause = 300..1500;
    loop {
        let mut deck = match servers {
            Servers::One(_) => vec![Restart, Pause],
            Servers::Three(_) => vec![Restart, Pause, IsolateLeader, PauseFollowers, KillLeader],
        };
        rng.shuffle(&mut deck);
        for what in deck {
            sleep(Duration::from_millis(rng.u64(pause.clone()))).await;
            let share = rng.f64();
            match servers {
                Servers::One(server) => {
                    if what == Restart {
                        run.tally.count("trouble: servers restarted");
                        server.kill().await.unwrap();
                        sleep(SESSION_TIMEOUT.mul_f64(0.6 * share)).await;
                        server.restart().await.unwrap();
                    } else {
                        run.tally.count("trouble: servers paused");
                        server.pause().unwrap();
                        sleep(SESSION_TIMEOUT.mul_f64(0.1 + share)).await;
                        server.resume().unwrap();
                    }
                }
                Servers::Three(_) => befall_ensemble(servers, run, &mut rng, what).await,
            }
        }
        if !span.goes_on(run) {
            return servers.recover().await;
        }
        pause = 3_000..15_000;
    }
}

async fn befall_ensemble(servers: &mut Servers, run: &Run, rng: &mut Rng, what: OfServers) {
    servers.recover().await;
    let Servers::Three(cluster) = servers else { unreachable!("they are three") };
    let leader = cluster.leader().await.unwrap();
    let followers = [(leader + 1) % 3, (leader + 2) % 3];
    let follower = followers[rng.usize(..2)];
    let share = rng.f64();
    match what {
        OfServers::Restart => {
            run.tally.count("trouble: servers restarted");
            cluster.kill(follower).await.unwrap();
            sleep(SESSION_TIMEOUT.mul_f64(0.6 * share)).await;
            cluster.restart(follower).await.unwrap();
        }
        OfServers::Pause => {
            run.tally.count("trouble: servers paused");
            cluster.pause(follower).unwrap();
            sleep(SESSION_TIMEOUT.mul_f64(0.1 + share)).await;
            cluster.resume(follower).unwrap();
        }
        OfServers::IsolateLeader => {
            run.tally.count("trouble: leaders isolated");
            cluster.isolate(leader);
            sleep(SESSION_TIMEOUT.mul_f64(0.5 + 1.5 * share)).await;
            if rng.bool() {
                // Those who are left find each other at once, while the old leader believes to lead.
                for follower in followers {
                    cluster.kill(follower).await.unwrap();
                }
                for follower in followers {
                    let _ = timeout(SESSION_TIMEOUT / 4, cluster.restart(follower)).await;
                }
                sleep(SESSION_TIMEOUT).await;
            }
            cluster.rejoin(leader);
        }
        OfServers::PauseFollowers => {
            run.tally.count("trouble: followers paused");
            followers.iter().for_each(|follower| cluster.pause(*follower).unwrap());
            sleep(SESSION_TIMEOUT.mul_f64(0.1 + share)).await;
            followers.iter().for_each(|follower| cluster.resume(*follower).unwrap());
        }
        OfServers::KillLeader => {
            run.tally.count("trouble: leaders killed");
            cluster.kill(leader).await.unwrap();
            sleep(SESSION_TIMEOUT.mul_f64(0.6 * share)).await;
            cluster.restart(leader).await.unwrap();
        }
    }
    servers.recover().await;
}

/// Somebody with `zkCli.sh`.
pub(crate) struct Operator {
    pub(crate) members: Vec<Arc<Member>>,
    pub(crate) bystander: Arc<Bystander>,
    pub(crate) run: Arc<Run>,
    pub(crate) rng: Rng,
}

impl Operator {
    pub(crate) async fn make_trouble(mut self, span: Span) {
        use OfOperator::*;
        let mut pause = 100..700;
        loop {
            let mut deck = vec![DeleteNode; 6];
            deck.extend([DeletePath, DeletePath, DeletePath, KillSession, KillSession]);
            self.rng.shuffle(&mut deck);
            for what in deck {
                sleep(Duration::from_millis(self.rng.u64(pause.clone()))).await;
                self.act(what).await;
            }
            if !span.goes_on(&self.run) {
                return;
            }
            pause = 200..4_000;
        }
    }

    async fn act(&mut self, what: OfOperator) {
        let zookeeper = self.bystander.zookeeper().await;
        let room = self.run.rooms[self.rng.usize(..self.run.rooms.len())].path.clone();
        match what {
            OfOperator::DeleteNode => {
                let queues = self.queues(&zookeeper, &room).await;
                let Some((queue, children)) = self.one_of(queues) else { return };
                // Mostly the first, who holds.
                let mut children = children;
                children.sort_by_key(|name| {
                    name.len().checked_sub(10).and_then(|at| name[at..].parse::<i64>().ok())
                });
                let index = if self.rng.bool() { 0 } else { self.rng.usize(..children.len()) };
                if self.delete_contender(&zookeeper, &format!("{queue}/{}", children[index])).await {
                    self.run.tally.count("trouble: nodes deleted");
                }
            }
            OfOperator::DeletePath => {
                if timeout(PATIENCE, self.delete_path(&zookeeper, &room)).await == Ok(true) {
                    self.run.tally.count("trouble: paths deleted");
                }
            }
            OfOperator::KillSession => {
                let victim = self.members[self.rng.usize(..self.members.len())].clone();
                let Some(session) = victim.live_session() else { return };
                self.run.acts.begin_to_kill(session);
                // If it fails, nobody knows whether it was done: then it is excused without an end.
                if kill_session(&victim.client).await.is_ok() {
                    self.run.tally.count("trouble: sessions killed");
                    self.run.acts.killed(session);
                }
            }
        }
    }

    /// The queues of a path, with those who are in them.
    async fn queues(&self, zookeeper: &zk::Client, room: &str) -> Vec<(String, Vec<String>)> {
        let mut queues = Vec::new();
        for queue in [room.to_owned(), format!("{room}/locks"), format!("{room}/leases")] {
            if let Ok(Ok(mut children)) = timeout(PATIENCE, zookeeper.list_children(&queue)).await {
                children.retain(|name| name != "locks" && name != "leases");
                if !children.is_empty() {
                    queues.push((queue, children));
                }
            }
        }
        queues
    }

    fn one_of<T>(&mut self, mut all: Vec<T>) -> Option<T> {
        (!all.is_empty()).then(|| all.swap_remove(self.rng.usize(..all.len())))
    }

    /// Deletes a node by which somebody holds or waits, with the act on record from before the request on.
    async fn delete_contender(&self, zookeeper: &zk::Client, node: &str) -> bool {
        let acts = &self.run.acts;
        acts.begin_to_delete(node);
        let mut is_in_doubt = false;
        let deleting = async {
            loop {
                match zookeeper.delete(node, None).await {
                    Ok(()) => return true,
                    Err(zk::Error::NoNode) => return is_in_doubt,
                    Err(zk::Error::SessionExpired | zk::Error::ClientClosed) => return true,
                    Err(_) => {
                        is_in_doubt = true;
                        sleep(Duration::from_millis(20)).await;
                    }
                }
            }
        };
        match timeout(PATIENCE, deleting).await {
            Ok(true) => acts.deleted(node),
            Ok(false) => acts.not_deleted(node),
            // It may still come.
            Err(_) => {}
        }
        !is_in_doubt
    }

    /// `deleteall`, until nobody is quicker than it; and makes it again, or leaves that to those who need it.
    async fn delete_path(&mut self, zookeeper: &zk::Client, room: &str) -> bool {
        loop {
            for (queue, children) in self.queues(zookeeper, room).await {
                for child in children {
                    self.delete_contender(zookeeper, &format!("{queue}/{child}")).await;
                }
            }
            for part in ["/locks", "/leases", ""] {
                match zookeeper.delete(&format!("{room}{part}"), None).await {
                    Ok(()) if part.is_empty() => {
                        if self.rng.bool() {
                            let mode = zk::CreateMode::Container.with_acls(zk::Acls::anyone_all());
                            let _ = zookeeper.create(room, b"", &mode).await;
                        }
                        return true;
                    }
                    Ok(()) | Err(zk::Error::NoNode | zk::Error::NotEmpty) => {}
                    Err(_) => return false,
                }
            }
        }
    }
}
