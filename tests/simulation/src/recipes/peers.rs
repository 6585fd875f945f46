//! Users of the same paths who have other libraries, Curator or kazoo: what they do on a session, by their protocols.
//!
//! What they hold, they hold as long as its node is there.

use std::panic::AssertUnwindSafe;
use std::pin::pin;

use futures_util::future::select;

use super::prelude::*;

/// A library of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Library {
    Curator,
    /// Which takes Curator's nodes for its own kind, by `extra_lock_patterns`.
    Kazoo,
}

/// One who has another library, and a session of its own.
pub(super) struct Peer {
    library: Library,
    client: Client,
    servers: MemoryEnsemble,
}

/// What a peer holds.
pub(super) struct Held {
    session: Session,
    pub(super) path: String,
    pub(super) czxid: i64,
    servers: MemoryEnsemble,
    /// Alive until it is given back.
    life: Rc<()>,
}

const CREATED: zk::CreateMode = zk::CreateMode::EphemeralSequential;

fn options(mode: zk::CreateMode) -> zk::CreateOptions<'static> {
    mode.with_acls(zk::Acls::anyone_all())
}

fn is_worth_a_retry(error: &zk::Error) -> bool {
    matches!(error, zk::Error::ConnectionLoss | zk::Error::Timeout | zk::Error::SessionMoved)
}

/// A session of a peer.
#[derive(Clone)]
struct Session {
    client: Client,
    id: zk::SessionId,
}

impl Session {
    /// Asks until there is an answer, or no session.
    async fn asks<T>(&self, ask: impl AsyncFn(&zk::Client) -> Result<T, zk::Error>) -> Result<T, zk::Error> {
        loop {
            // After a reconnect, it is another one.
            let answer = match self.client.zookeeper().await {
                Ok(zookeeper) if zookeeper.session_id() != self.id => Err(zk::Error::SessionExpired),
                // A server may have left out the reply.
                Ok(zookeeper) => match timeout(Duration::from_secs(5), ask(&zookeeper)).await {
                    Ok(answer) => answer,
                    Err(_) => Err(zk::Error::ConnectionLoss),
                },
                Err(Error::NotConnected { .. }) => Err(zk::Error::ConnectionLoss),
                Err(_) => Err(zk::Error::SessionExpired),
            };
            match answer {
                Err(error) if is_worth_a_retry(&error) => sleep(Duration::from_millis(50)).await,
                answer => return answer,
            }
        }
    }

    /// Deletes a node, however long it takes.
    async fn deletes(&self, path: &str) {
        let _ = self.asks(async |zookeeper| zookeeper.delete(path, None).await).await;
    }
}

/// Has a peer hold again and again while things go wrong, and once more when nothing does.
pub(super) async fn competes(
    world: World,
    machine: Machine,
    library: Library,
    who: String,
    acquires: impl AsyncFn(&Peer, Instant) -> Option<Held>,
    holds: impl AsyncFn(&Held),
) {
    let connects = || Peer::connects(library, &machine, &world);
    let mut peer = connects().await;
    while world.is_stormy() {
        // Ends before callers of the library are expected to acquire without delay.
        match acquires(&peer, Instant::now() + Duration::from_secs(fastrand::u64(1..25))).await {
            Some(held) => {
                holds(&held).await;
                held.gives_back().await;
            }
            None => {
                // It may wait for what it has left itself.
                peer.closes().await;
                peer = connects().await;
            }
        }
    }
    world.calm().await;
    peer.closes().await;
    peer = connects().await;
    sleep(Duration::from_secs(30)).await;
    match acquires(&peer, Instant::now() + Duration::from_secs(60)).await {
        Some(held) => held.gives_back().await,
        None => violation(format!("{who}: in calm weather, waits for ever")),
    }
    peer.closes().await;
}

impl Peer {
    async fn connects(library: Library, machine: &Machine, world: &World) -> Self {
        Self { library, client: machine.client().await, servers: world.servers().clone() }
    }

    /// Ends its session, and with it what was created on a connection that was cut, and was not there when it was looked
    /// for: those libraries leave that.
    async fn closes(self) {
        self.client.close().await;
    }

    /// Acquires a mutex.
    pub(super) async fn acquires(&self, folder: &str, until: Instant) -> Option<Held> {
        let marker = if self.library == Library::Kazoo { "__lock__" } else { "lock-" };
        self.stands(folder, marker, until).await
    }

    /// Leads, as a latch of Curator does: it minds nothing of the candidate before it but its end.
    pub(super) async fn leads(&self, folder: &str, until: Instant) -> Option<Held> {
        self.stands(folder, "latch-", until).await
    }

    async fn stands(&self, folder: &str, marker: &str, until: Instant) -> Option<Held> {
        let id = self.client.zookeeper().await.ok()?.session_id();
        let session = Session { client: self.client.clone(), id };
        let held = self.creates(session, folder, marker).await?;
        let waits = self.waits_in_line(&held, folder, marker);
        self.keeps_if(timeout_at(until, waits).await, held).await
    }

    /// Takes a permit of a semaphore.
    pub(super) async fn takes(&self, path: &str, permits: usize, until: Instant) -> Option<Held> {
        let gate = self.acquires(&format!("{path}/locks"), until).await?;
        let folder = format!("{path}/leases");
        let lease = self.creates(gate.session.clone(), &folder, "lease-").await;
        let taken = match lease {
            Some(lease) => {
                let waits = waits_for_permit(&lease, &folder, permits);
                self.keeps_if(timeout_at(until, waits).await, lease).await
            }
            None => None,
        };
        gate.gives_back().await;
        taken
    }

    async fn keeps_if<E>(&self, outcome: Result<Result<(), zk::Error>, E>, held: Held) -> Option<Held> {
        if let Ok(Ok(())) = outcome {
            return Some(held);
        }
        held.gives_back().await;
        None
    }

    /// Creates a node, which is found again by its name when the reply is lost.
    async fn creates(&self, session: Session, folder: &str, marker: &str) -> Option<Held> {
        let id = format!("{:032x}", fastrand::u128(..));
        let start = match self.library {
            Library::Kazoo => id,
            Library::Curator => {
                let (a, b, c, d, e) = (&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]);
                format!("_c_{a}-{b}-{c}-{d}-{e}-")
            }
        };
        let held = |path, czxid| Held {
            session: session.clone(),
            path,
            czxid,
            servers: self.servers.clone(),
            life: Rc::new(()),
        };
        let path = format!("{folder}/{start}{marker}");
        let is_in_doubt = Cell::new(false);
        loop {
            let created = session.asks(async |zookeeper| {
                if is_in_doubt.replace(true) {
                    let children = zookeeper.list_children(folder).await?;
                    if let Some(name) = children.iter().find(|name| name.starts_with(&start)) {
                        let path = format!("{folder}/{name}");
                        let stat = zookeeper.check_stat(&path).await?.ok_or(zk::Error::NoNode)?;
                        return Ok(held(path, stat.czxid));
                    }
                }
                let (stat, sequence) = zookeeper.create(&path, b"a peer", &options(CREATED)).await?;
                Ok(held(format!("{path}{sequence}"), stat.czxid))
            });
            match created.await {
                Ok(held) => return Some(held),
                Err(zk::Error::NoNode) => {
                    is_in_doubt.set(false);
                    let ends = folder.match_indices('/').map(|(end, _)| end).skip(1).chain([folder.len()]);
                    for parent in ends.map(|end| &folder[..end]) {
                        let container = options(zk::CreateMode::Container);
                        let create =
                            session.asks(async |zookeeper| zookeeper.create(parent, b"", &container).await);
                        let _ = create.await;
                    }
                }
                Err(_) => return None,
            }
        }
    }

    /// Waits until its node is the first.
    async fn waits_in_line(&self, held: &Held, folder: &str, marker: &str) -> Result<(), zk::Error> {
        let session = &held.session;
        loop {
            let mut line = session.asks(async |zookeeper| zookeeper.list_children(folder).await).await?;
            line.retain(|name| self.library == Library::Curator || number(name).is_some());
            line.sort_by(|one, other| self.order(one, marker).cmp(self.order(other, marker)));
            let place = line.iter().position(|name| held.path.ends_with(&**name));
            let Some(before) = place.ok_or(zk::Error::NoNode)?.checked_sub(1) else { return Ok(()) };
            let before = format!("{folder}/{}", line[before]);
            let watches = session.asks(async |zookeeper| {
                let states = zookeeper.state_watcher();
                Ok((states, zookeeper.get_and_watch_data(&before).await?.2))
            });
            let (mut states, watcher) = match watches.await {
                Ok(watches) => watches,
                Err(zk::Error::NoNode) => continue,
                Err(error) => return Err(error),
            };
            let event = async {
                if fired(watcher).await == Some(zk::EventType::NodeDataChanged) && marker == "latch-" {
                    std::future::pending::<()>().await;
                }
            };
            select(pin!(states.changed()), pin!(event)).await;
        }
    }

    /// What the nodes are sorted by.
    fn order<'a>(&self, name: &'a str, marker: &str) -> &'a str {
        match self.library {
            Library::Curator => name.rfind(marker).map_or(name, |at| &name[at + marker.len()..]),
            Library::Kazoo => number(name).unwrap_or_default(),
        }
    }
}

/// Waits for the event of a watch. None comes if the watch ends with its connection, of which `zookeeper-client` makes a
/// panic.
async fn fired(watcher: zk::OneshotWatcher) -> Option<zk::EventType> {
    let event = AssertUnwindSafe(watcher.changed()).catch_unwind().await;
    event.ok().map(|event| event.event_type)
}

/// What kazoo takes for the number of a lock's node.
fn number(name: &str) -> Option<&str> {
    let (start, number) = name.split_at_checked(name.len().checked_sub(10)?)?;
    ["__lock__", "-lock-"].iter().any(|pattern| start.ends_with(pattern)).then_some(number)
}

async fn waits_for_permit(lease: &Held, folder: &str, permits: usize) -> Result<(), zk::Error> {
    loop {
        let lists = lease.session.asks(async |zookeeper| {
            let states = zookeeper.state_watcher();
            Ok((states, zookeeper.list_and_watch_children(folder).await?))
        });
        let (mut states, (leases, watcher)) = lists.await?;
        if !leases.iter().any(|name| lease.path.ends_with(&**name)) {
            return Err(zk::Error::NoNode);
        }
        if leases.len() <= permits {
            return Ok(());
        }
        select(pin!(states.changed()), pin!(fired(watcher))).await;
    }
}

impl Held {
    /// Returns what tells whether it is still held.
    pub(super) fn validity(&self) -> impl Fn() -> bool + 'static {
        let (path, czxid, servers) = (self.path.clone(), self.czxid, self.servers.clone());
        let life = Rc::downgrade(&self.life);
        move || life.strong_count() > 0 && is_there(&servers, &path, czxid)
    }

    async fn gives_back(self) {
        let Self { session, path, life, .. } = self;
        drop(life);
        session.deletes(&path).await;
    }
}
