//! Contenders of all kinds in one queue.

use std::future::Future;
use std::pin::Pin;

use crate::interop::prelude::*;

/// How to give back what was acquired.
pub(crate) struct Release(Pin<Box<dyn Future<Output = ()> + Send>>);

type Acquiring = Pin<Box<dyn Future<Output = Release> + Send>>;

/// One that wants a lock.
pub(crate) struct Contender {
    name: &'static str,
    state: State,
}

enum State {
    /// Ours.
    Coming(Acquiring),
    Waiting(JoinHandle<Release>),
    Holding(Release),
    /// A peer's, whose commands these are.
    Peer {
        actor: Actor,
        acquire: String,
        release: String,
        holds: bool,
    },
}

impl Release {
    pub(crate) fn by(release: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Box::pin(release))
    }
}

impl Contender {
    /// One of ours.
    pub(crate) fn ours(
        name: &'static str,
        acquire: impl Future<Output = Result<LockGuard>> + Send + 'static,
    ) -> Self {
        Self::ours_with_several(name, async { Ok(vec![acquire.await?]) })
    }

    pub(crate) fn lock(name: &'static str, lock: impl InterProcessLock + 'static) -> Self {
        Self::ours(name, async move { lock.acquire().await })
    }

    pub(crate) fn ours_with_several(
        name: &'static str,
        acquire: impl Future<Output = Result<Vec<LockGuard>>> + Send + 'static,
    ) -> Self {
        Self::acting(name, async {
            let guards = acquire.await.unwrap();
            Release::by(async {
                for guard in guards {
                    guard.release().await.unwrap();
                }
            })
        })
    }

    /// Whoever acquires something, be it a leadership.
    pub(crate) fn acting(
        name: &'static str,
        acquire: impl Future<Output = Release> + Send + 'static,
    ) -> Self {
        Self { name, state: State::Coming(Box::pin(acquire)) }
    }

    pub(crate) fn peer(name: &'static str, actor: Actor) -> Self {
        Self::peer_on(name, actor, "")
    }

    /// On one side of a read/write lock, or with a number of leases.
    pub(crate) fn peer_on(name: &'static str, actor: Actor, how: &str) -> Self {
        let [acquire, release] = ["acquire", "release"].map(|op| format!("{op} {how}").trim_end().to_owned());
        Self { name, state: State::Peer { actor, acquire, release, holds: false } }
    }

    /// A task of its own is also an owner of its own.
    fn start(&mut self) {
        match &mut self.state {
            State::Coming(acquire) => {
                let acquire = std::mem::replace(acquire, Box::pin(async { unreachable!() }));
                self.state = State::Waiting(tokio::spawn(acquire));
            }
            State::Peer { actor, acquire, .. } => actor.send(acquire),
            _ => panic!("{} is there already", self.name),
        }
    }

    fn holds(&self) -> bool {
        matches!(self.state, State::Holding(_) | State::Peer { holds: true, .. })
    }

    async fn granted(&mut self) {
        match &mut self.state {
            State::Waiting(acquiring) => {
                let release = tokio::time::timeout(crate::support::BOUND, acquiring).await;
                let release = release.unwrap_or_else(|_| panic!("{} does not get it", self.name));
                self.state = State::Holding(release.unwrap());
            }
            State::Peer { actor, holds, .. } => {
                actor.answer().await;
                *holds = true;
            }
            _ => panic!("{} has not asked for it", self.name),
        }
    }

    async fn assert_waiting(&mut self) {
        match &mut self.state {
            State::Waiting(acquiring) => assert!(!acquiring.is_finished(), "{} should be waiting", self.name),
            State::Peer { actor, .. } => actor.assert_waiting().await,
            _ => panic!("{} is not waiting", self.name),
        }
    }

    async fn release(mut self) {
        assert!(self.holds(), "{} does not hold", self.name);
        match &mut self.state {
            State::Holding(release) => within(&mut release.0).await,
            State::Peer { actor, release, .. } => {
                actor.call(release).await;
            }
            _ => unreachable!(),
        }
    }
}

/// Those who enter a line, by the first words of their names.
pub(crate) struct Cast<'a> {
    /// What peers open.
    open: &'a str,
    peers: Vec<(&'static str, &'a Peer)>,
    ours: Vec<(&'static str, Ours<'a>)>,
}

/// Makes one of ours of its name, and how it acquires.
type Ours<'a> = Box<dyn Fn(&'static str, &'static str) -> Contender + 'a>;

impl<'a> Cast<'a> {
    pub(crate) fn new(open: &'a str) -> Self {
        Self { open, peers: Vec::new(), ours: Vec::new() }
    }

    pub(crate) fn peer(mut self, name: &'static str, peer: &'a Peer) -> Self {
        self.peers.push((name, peer));
        self
    }

    pub(crate) fn ours(
        mut self,
        name: &'static str,
        ours: impl Fn(&'static str, &'static str) -> Contender + 'a,
    ) -> Self {
        self.ours.push((name, Box::new(ours)));
        self
    }

    async fn contender(&self, entry: &'static str) -> Contender {
        let name = entry.split('=').next().filter(|name| *name != entry);
        let name = name.and_then(|name| name.rsplit_once(' ')).map_or(entry, |(name, _)| name);
        let (how, options): (Vec<_>, Vec<_>) =
            entry[name.len()..].split_whitespace().partition(|option| option.starts_with("how="));
        let how = how.first().map_or("", |how| &how["how=".len()..]);
        if let Some((_, ours)) = self.ours.iter().find(|(of, _)| name.starts_with(of)) {
            return ours(name, how);
        }
        let peer = self.peers.iter().find(|(of, _)| name.starts_with(of));
        let (_, peer) = peer.unwrap_or_else(|| panic!("{name} is unknown"));
        let open = [self.open].into_iter().chain(options).collect::<Vec<_>>().join(" ");
        Contender::peer_on(name, peer.open(&name.replace(' ', "-"), &open).await, how)
    }
}

/// The contenders of the queue at one path.
pub(crate) struct Line<'a> {
    stage: &'a Stage,
    path: &'static str,
    contenders: Vec<Contender>,
}

impl<'a> Line<'a> {
    pub(crate) fn new(stage: &'a Stage, path: &'static str) -> Self {
        Self { stage, path, contenders: Vec::new() }
    }

    /// Has a contender enter, and waits until its node is in the queue.
    pub(crate) async fn enters(&mut self, contender: Contender) {
        let before = children(&self.stage.zookeeper, self.path).await.len();
        self.starts(contender);
        queue_of(&self.stage.zookeeper, self.path, before + 1).await;
    }

    /// Has contenders enter, one after the other. What stands beside a name is how it acquires, and what a peer opens besides.
    pub(crate) async fn enter(&mut self, cast: &Cast<'_>, entries: &'static str) {
        for entry in entries.split(", ") {
            self.enters(cast.contender(entry).await).await;
        }
    }

    /// Has a contender enter that will not stay in the queue.
    pub(crate) fn starts(&mut self, mut contender: Contender) {
        contender.start();
        self.contenders.push(contender);
    }

    /// Waits until these hold, and sees that nobody else does.
    pub(crate) async fn only_holders_are(&mut self, names: &[&str]) {
        for contender in &mut self.contenders {
            if names.contains(&contender.name) && !contender.holds() {
                contender.granted().await;
            }
        }
        // One more round trip, in which another one might get it.
        children(&self.stage.zookeeper, self.path).await;
        for contender in &mut self.contenders {
            if !names.contains(&contender.name) {
                contender.assert_waiting().await;
            }
        }
    }

    pub(crate) async fn releases(&mut self, name: &str) {
        self.remove(name).release().await;
    }

    /// The one that came first.
    pub(crate) fn first(&self) -> Option<&'static str> {
        self.contenders.first().map(|first| first.name)
    }

    /// Takes one out of it, as it is.
    pub(crate) fn remove(&mut self, name: &str) -> Contender {
        let at = self.contenders.iter().position(|contender| contender.name == name);
        self.contenders.remove(at.unwrap_or_else(|| panic!("{name} is not in the line")))
    }

    /// Lets each in turn hold alone and release.
    pub(crate) async fn is_served_in_order(&mut self) {
        while let Some(first) = self.first() {
            self.serves(&[first]).await;
        }
    }

    /// Lets each of these in turn hold alone and release.
    pub(crate) async fn serves(&mut self, names: &[&str]) {
        for name in names {
            self.only_holders_are(&[name]).await;
            self.releases(name).await;
        }
    }

    /// These die.
    pub(crate) fn die(&mut self, names: &[&str]) {
        names.iter().for_each(|name| drop(self.remove(name)));
    }
}

/// Nobody gets this lock now, nor in a while.
pub(crate) async fn assert_taken(lock: &dyn InterProcessLock) {
    assert!(lock.try_acquire().await.unwrap().is_none());
    let tried = answered(async || lock.try_acquire_for(ms(300)).await);
    assert!(tried.await.is_none());
}
