//! `ReadWriteLock`: who shares it and who does not, in which order; writers that become readers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::locks::stage::{sandbox_with_clients, server_behind_proxy, server_with_clients};
use crate::support::counter::server_counting_from;
use crate::support::room::Room;
use crate::support::*;
use futures_util::FutureExt;
use futures_util::future::{join, join_all};
use tokio::task::{JoinHandle, JoinSet};
use uuid::Uuid;
use zk_recipes::testing::{Fate, Request, kill_session};
use zk_recipes::{
    Client, Error, InterProcessLock, LockGuard, LockOptions, LossReason, Owner, Participant, ReadLock,
    ReadWriteLock, Result, WriteLock,
};
use zookeeper_client as zk;

const LOCK: &str = "/rw";

/// Longer than any test, so that nothing is refused because it was not waited for.
const LONG: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Read,
    Write,
}

use Side::*;

fn read_write(client: &Client) -> ReadWriteLock {
    ReadWriteLock::new(client, LOCK).unwrap()
}

/// Acquires in a task of its own, which hands out the guard.
fn enter(lock: &ReadWriteLock, side: Side) -> JoinHandle<Result<LockGuard>> {
    let lock = lock.clone();
    tokio::spawn(async move {
        match side {
            Read => lock.read().acquire().await,
            Write => lock.write().acquire().await,
        }
    })
}

/// Reads for that owner in another task.
fn read_as(lock: &ReadWriteLock, owner: &Owner) -> JoinHandle<Result<LockGuard>> {
    let lock = lock.read().owned_by(owner);
    tokio::spawn(async move { lock.acquire().await })
}

/// Contenders that wait on a server, each through a client of its own, in the order in which they came.
#[derive(Default)]
struct Line(Vec<JoinHandle<Result<LockGuard>>>);

impl Line {
    /// One more, behind as many that hold; comes back when it is parked.
    async fn enter(&mut self, server: &Server, lock: &ReadWriteLock, side: Side) {
        self.0.push(enter(lock, side));
        watches_of(server, self.0.len() as u64).await;
    }

    /// The guards of the first, when these have got in and all others are parked.
    async fn let_in(&mut self, server: &Server, count: usize) -> Vec<LockGuard> {
        let later = self.0.split_off(count);
        let guards =
            join_all(self.0.drain(..).map(|waiter| async { within(waiter).await.unwrap().unwrap() }));
        let guards = guards.await;
        self.0 = later;
        watches_of(server, self.0.len() as u64).await;
        assert!(!self.0.iter().any(JoinHandle::is_finished));
        guards
    }
}

fn would_deadlock<T: std::fmt::Debug>(outcome: Result<T>, path: &str) {
    assert_eq!(outcome.unwrap_err(), Error::WouldDeadlock { path: path.to_owned(), cycle: Vec::new() });
}

fn name(guard: &LockGuard) -> &str {
    guard.node_path().rsplit_once('/').unwrap().1
}

/// How many nodes have come and gone, together.
async fn changes(zookeeper: &zk::Client) -> i32 {
    zookeeper.check_stat(LOCK).await.unwrap().unwrap().cversion
}

/// Waits until exactly these nodes are left after that many changes.
async fn left_after(zookeeper: &zk::Client, changed: i32, guards: &[&LockGuard]) {
    let mut names: Vec<&str> = guards.iter().map(|guard| name(guard)).collect();
    names.sort_unstable();
    eventually(&format!("{names:?} after {changed} changes"), || async {
        let (mut children, stat) = zookeeper.get_children(LOCK).await.unwrap();
        children.sort_unstable();
        (children == names && stat.cversion == changed).then_some(())
    })
    .await;
}

/// Somebody who reads, writes, or becomes a reader, as fast as it can.
struct Visitor {
    lock: ReadWriteLock,
    room: Arc<Room>,
}

impl Visitor {
    async fn reads(&self) -> LockGuard {
        let guard = self.lock.read().acquire().await.unwrap();
        let stay = self.room.share(guard.fencing_token(), 1);
        assert!(!self.lock.write().is_locked().await.unwrap(), "as the server sees it");
        drop(stay);
        guard
    }

    async fn writes(&self) -> LockGuard {
        let guard = self.lock.write().acquire().await.unwrap();
        let stay = self.room.enter(&guard);
        assert!(self.lock.write().is_locked().await.unwrap(), "as the server sees it");
        drop(stay);
        guard
    }

    async fn writes_and_reads(&self) -> LockGuard {
        let writing = self.lock.write().acquire().await.unwrap();
        let mut stay = self.room.enter(&writing);
        let reading = self.lock.read().acquire().await.unwrap();
        assert_eq!(reading.fencing_token(), writing.fencing_token());
        stay.shrink(1);
        writing.release().await.unwrap();
        // Time for others to come in.
        self.lock.read().participants().await.unwrap();
        drop(stay);
        reading
    }
}

/// Lets visitors of all kinds in and out of a room.
async fn visit(clients: &[Client], rounds: usize) -> Arc<Room> {
    let room = Arc::new(Room::default());
    let mut visitors = JoinSet::new();
    for client in clients {
        let shared = read_write(client);
        for kind in 0..4 {
            // Half of them share a lock object, the others have their own.
            let lock = if kind % 2 == 0 { shared.clone() } else { read_write(client) };
            let visitor = Visitor { lock, room: room.clone() };
            visitors.spawn(async move {
                for round in 0..rounds {
                    let guard = match kind {
                        0 | 1 => visitor.reads().await,
                        2 => visitor.writes().await,
                        _ => visitor.writes_and_reads().await,
                    };
                    if round % 2 == 0 {
                        guard.release().await.unwrap();
                    }
                }
            });
        }
    }
    within(visitors.join_all()).await;
    assert_eq!(room.visits(), clients.len() * 4 * rounds);
    room
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_share_and_writers_exclude() {
    let sandbox = Sandbox::new();
    let clients = join_all((0..4).map(|_| sandbox.client())).await;
    let room = visit(&clients, 10).await;
    assert!(room.most_visitors() > 1, "no two readers were inside at once");
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn first_come_first_served() {
    let (server, _, clients) = server_with_clients::<8>().await;
    let mut inside = vec![read_write(&clients[0]).write().acquire().await.unwrap()];
    let mut line = Line::default();
    for (client, side) in clients[1..].iter().zip([Read, Read, Write, Read, Write, Write, Read]) {
        line.enter(&server, &read_write(client), side).await;
    }
    let mut last_token = inside[0].fencing_token();
    for party in [2, 1, 1, 1, 1, 1] {
        while let Some(guard) = inside.pop() {
            line.let_in(&server, 0).await;
            guard.release().await.unwrap();
        }
        inside = line.let_in(&server, party).await;
        for guard in &inside {
            assert!(guard.fencing_token() > last_token);
            last_token = guard.fencing_token();
        }
    }
    drop(inside);
    assert_nothing_left(&server, &bystander(&server).await, LOCK).await;
}

/// What each session watches, by the numbers of the nodes.
async fn watched(server: &Server) -> BTreeMap<i64, Vec<i32>> {
    let mut watched: BTreeMap<i64, Vec<i32>> = BTreeMap::new();
    let mut node = None;
    for line in server.four_letter_word("wchp").await.unwrap().lines() {
        match line.trim().strip_prefix("0x") {
            None => node = line.starts_with(LOCK).then(|| sequence(line)),
            Some(session) => {
                let session = i64::from_str_radix(session, 16).unwrap();
                watched.entry(session).or_default().extend(node);
            }
        }
    }
    watched.values_mut().for_each(|nodes| nodes.sort_unstable());
    watched
}

#[tokio::test]
async fn a_reader_waits_for_the_nearest_writer_and_a_writer_for_whoever_is_before_it() {
    let (server, _, clients) = server_with_clients::<6>().await;
    let sessions = join_all(clients.iter().map(session_id)).await;
    let first = read_write(&clients[0]).read().acquire().await.unwrap();
    let mut line = Line::default();
    for (client, side) in clients[1..].iter().zip([Write, Read, Read, Write, Read]) {
        line.enter(&server, &read_write(client), side).await;
    }
    let watches = async |expected: [&[i32]; 6]| {
        let expected: BTreeMap<_, _> = sessions
            .iter()
            .zip(expected)
            .filter(|(_, nodes)| !nodes.is_empty())
            .map(|(session, nodes)| (*session, nodes.to_vec()))
            .collect();
        eventually(&format!("watches {expected:?}"), || async {
            let mut watched = watched(&server).await;
            // A holder that stays for longer watches its own node.
            if watched.get(&sessions[0]).is_some_and(|nodes| *nodes == [0]) {
                watched.remove(&sessions[0]);
            }
            (watched == expected).then_some(())
        })
        .await;
    };
    // Along with its own node. A writer looks again when the second before it is gone.
    watches([&[], &[0, 1], &[1, 2], &[1, 3], &[2, 4], &[4, 5]]).await;
    // The nearest writer gives up: there is another one before it.
    line.0.remove(3).abort();
    watches([&[], &[0, 1], &[1, 2], &[1, 3], &[], &[1, 5]]).await;
    // Now the readers have none before them.
    line.0.remove(0).abort();
    let guards = line.let_in(&server, 3).await;
    drop((first, guards));
    assert_nothing_left(&server, &bystander(&server).await, LOCK).await;
}

#[tokio::test]
async fn a_queued_writer_keeps_later_readers_out() {
    let sandbox = Sandbox::new();
    let (one, other) = (read_write(&sandbox.client().await), read_write(&sandbox.client().await));
    let reading = one.read().acquire().await.unwrap();
    let beside = other.read().try_acquire().await.unwrap().expect("readers share");
    let writer = other.write().owned_by(&Owner::new()).enqueue().await.unwrap();
    let late = Owner::new();
    assert!(one.read().owned_by(&late).try_acquire().await.unwrap().is_none());
    let timed =
        answered(async || one.read().owned_by(&late).try_acquire_for(Duration::from_millis(100)).await);
    assert!(timed.await.is_none());
    // Those who are inside may enter again.
    let again = one.read().try_acquire().await.unwrap().unwrap();
    assert_eq!(again.fencing_token(), reading.fencing_token());
    drop(writer);
    let late = within(one.read().owned_by(&late).acquire()).await.unwrap();
    assert!(late.fencing_token() > beside.fencing_token());
    drop((reading, again, beside, late));
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn an_owner_enters_again_on_either_side() {
    let sandbox = Sandbox::new();
    let lock = read_write(&sandbox.client().await);
    let sides: [&dyn InterProcessLock; 2] = [lock.read(), lock.write()];
    for side in sides {
        let first = side.acquire().await.unwrap();
        let queued = lock.write().owned_by(&Owner::new()).enqueue().await.unwrap();
        let second = within(side.acquire()).await.unwrap();
        let third = side.try_acquire().await.unwrap().unwrap();
        let fourth = side.try_acquire_for(LONG).await.unwrap().unwrap();
        assert_eq!(fourth.hold_count(), 4);
        for again in [&second, &third, &fourth] {
            assert_eq!(again.node_path(), first.node_path());
            assert_eq!(again.fencing_token(), first.fencing_token());
        }
        drop((first, third, fourth));
        assert_eq!(queued.position().await, Ok(1), "the last guard still holds");
        second.release().await.unwrap();
        let next = within(queued.acquired()).await.unwrap();
        next.release().await.unwrap();
    }
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn owners_do_not_enter_for_each_other_on_either_side() {
    let sandbox = Sandbox::new();
    let lock = read_write(&sandbox.client().await);
    let (owner, stranger) = (Owner::new(), Owner::new());

    let reading = lock.read().owned_by(&owner).acquire().await.unwrap();
    assert!(lock.read().is_owned_by(&owner) && !lock.write().is_owned_by(&owner));
    assert!(lock.read().is_acquired_in_this_process() && !lock.write().is_acquired_in_this_process());
    let beside = lock.read().owned_by(&stranger).try_acquire().await.unwrap().unwrap();
    assert_ne!(beside.node_path(), reading.node_path());
    assert_eq!((reading.hold_count(), beside.hold_count()), (1, 1));
    drop(beside);
    assert!(!lock.read().is_owned_by(&stranger) && !lock.read().is_owned_by(&Owner::current()));
    // The same owner, in another task.
    let again = read_as(&lock, &owner).await.unwrap().unwrap();
    assert_eq!(again.hold_count(), 2);
    drop((reading, again));

    let writing = lock.write().owned_by(&owner).acquire().await.unwrap();
    assert!(lock.write().is_owned_by(&owner) && !lock.read().is_owned_by(&owner));
    assert!(lock.write().is_acquired_in_this_process() && !lock.read().is_acquired_in_this_process());
    assert!(lock.write().owned_by(&stranger).try_acquire().await.unwrap().is_none());
    assert!(lock.read().owned_by(&stranger).try_acquire().await.unwrap().is_none());
    let reading = lock.read().owned_by(&owner).acquire().await.unwrap();
    assert!(lock.write().is_owned_by(&owner) && lock.read().is_owned_by(&owner));
    assert!(lock.read().owned_by(&stranger).try_acquire().await.unwrap().is_none(), "it still writes");
    // On each side it can go on entering.
    let more = (
        lock.write().owned_by(&owner).acquire().await.unwrap(),
        lock.read().owned_by(&owner).acquire().await.unwrap(),
    );
    assert_eq!((writing.hold_count(), reading.hold_count()), (2, 2));
    assert_eq!((more.0.node_path(), more.1.node_path()), (writing.node_path(), reading.node_path()));
    drop((writing, reading, more));
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn a_writer_goes_on_as_a_reader() {
    let (server, zookeeper, [own, second, third, fourth]) = server_with_clients().await;
    let lock = read_write(&own);
    let writing = lock.write().acquire().await.unwrap();
    let mut line = Line::default();
    for (client, side) in [(&second, Read), (&third, Write), (&fourth, Read)] {
        line.enter(&server, &read_write(client), side).await;
    }

    let reading = within(lock.read().acquire()).await.unwrap();
    let id = name(&reading).strip_prefix("_c_").and_then(|rest| rest.split_once("-__READ__")).unwrap();
    assert!(Uuid::parse_str(id.0).is_ok_and(|id| !name(&writing).contains(&id.to_string())));
    assert_eq!(id.1, format!("{:010}", sequence(writing.node_path())), "and nothing behind it");
    let (data, stat) = zookeeper.get_data(reading.node_path()).await.unwrap();
    assert_eq!((data.as_slice(), stat.ephemeral_owner), (own.identity(), session_id(&own).await));
    assert_eq!(reading.fencing_token(), writing.fencing_token());
    assert!(stat.czxid > reading.fencing_token());
    assert_eq!(children(&zookeeper, LOCK).await.len(), 5);

    // Nobody comes in for that; and the reader before the next writer when the write lock is released.
    line.let_in(&server, 0).await;
    writing.release().await.unwrap();
    let beside = line.let_in(&server, 1).await.remove(0);
    assert!(beside.fencing_token() > reading.fencing_token());
    would_deadlock(within(lock.write().acquire()).await, LOCK);
    beside.release().await.unwrap();
    line.let_in(&server, 0).await;
    reading.release().await.unwrap();
    let next = line.let_in(&server, 1).await;
    drop(next);
    drop(line.let_in(&server, 1).await);
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

#[tokio::test]
async fn a_reader_that_still_writes_keeps_everybody_out() {
    let (server, _, [own, second, third]) = server_with_clients().await;
    let lock = read_write(&own);
    let writing = lock.write().acquire().await.unwrap();
    let mut line = Line::default();
    line.enter(&server, &read_write(&second), Read).await;
    line.enter(&server, &read_write(&third), Write).await;
    let mut earlier = String::new();
    for _ in 0..3 {
        // Each time anew.
        let reading = within(lock.read().acquire()).await.unwrap();
        assert_eq!(sequence(reading.node_path()), sequence(writing.node_path()));
        assert_ne!(reading.node_path(), earlier);
        earlier = reading.node_path().to_owned();
        reading.release().await.unwrap();
        line.let_in(&server, 0).await;
        assert!(lock.write().is_owned_by(&Owner::current()) && !lock.read().is_owned_by(&Owner::current()));
    }
    writing.release().await.unwrap();
    for _ in 0..2 {
        drop(line.let_in(&server, 1).await);
    }
    assert_nothing_left(&server, &bystander(&server).await, LOCK).await;
}

#[tokio::test]
async fn a_writer_that_has_lost_its_node_does_not_become_a_reader() {
    let (server, zookeeper, [own, other]) = server_with_clients().await;
    let lock = read_write(&own);
    for reason in [LossReason::Deleted, LossReason::Expired] {
        let writing = lock.write().acquire().await.unwrap();
        if reason == LossReason::Deleted {
            zookeeper.delete(writing.node_path(), None).await.unwrap();
        } else {
            kill_session(&own).await.unwrap();
        }
        // Another one may write now.
        let other = read_write(&other).write().try_acquire().await.unwrap().unwrap();
        let changed = changes(&zookeeper).await;
        let lost = Error::LockLost { path: writing.node_path().to_owned(), reason };
        assert_eq!(within(lock.read().acquire()).await.unwrap_err(), lost);
        left_after(&zookeeper, changed, &[&other]).await;
        assert!(!lock.read().is_owned_by(&Owner::current()));
        assert_eq!(writing.loss(), Some(reason));
        assert_eq!(within(lock.write().acquire()).await.unwrap_err(), lost);
        assert_eq!(within(writing.release()).await, Err(lost));
        other.release().await.unwrap();
    }
    within(lock.read().acquire()).await.unwrap().release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

#[tokio::test]
async fn a_downgrade_dropped_at_each_await_leaves_the_write_hold_alone() {
    let (server, zookeeper, [client]) = server_with_clients().await;
    let session = session_id(&client).await;
    let lock = read_write(&client);
    let writing = lock.write().acquire().await.unwrap();
    for awaits in 1.. {
        let changed = changes(&zookeeper).await;
        let reading = poll_times(lock.read().acquire(), awaits).await;
        let done = reading.is_some();
        drop(reading);
        // The reader's node came and went.
        left_after(&zookeeper, changed + 2, &[&writing]).await;
        assert_eq!(writing.hold_count(), 1);
        assert!(!lock.read().is_owned_by(&Owner::current()));
        if done {
            assert!(awaits > 1, "{awaits} awaits");
            break;
        }
    }
    writing.release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
    assert_eq!(session_id(&client).await, session);
}

#[tokio::test]
async fn a_lost_reply_to_a_downgrade_leaves_one_reader() {
    let (server, proxy, zookeeper, client) = server_behind_proxy().await;
    let session = session_id(&client).await;
    let lock = read_write(&client);
    let owner = Owner::new();
    let writing = lock.write().owned_by(&owner).acquire().await.unwrap();

    // Given up while it is in doubt.
    let changed = changes(&zookeeper).await;
    let lost = proxy.intercept(Request::Multi, Fate::LoseReply);
    let reading = read_as(&lock, &owner);
    within(lost.happened()).await;
    reading.abort();
    drop(reading.await);
    left_after(&zookeeper, changed + 2, &[&writing]).await;
    assert_eq!(writing.hold_count(), 1);

    // Created, undone and created.
    let lost = proxy.intercept(Request::Multi, Fate::LoseReply);
    let reading = within(lock.read().owned_by(&owner).acquire()).await.unwrap();
    within(lost.happened()).await;
    left_after(&zookeeper, changed + 5, &[&writing, &reading]).await;
    assert_eq!(sequence(reading.node_path()), sequence(writing.node_path()));
    assert_eq!(reading.fencing_token(), writing.fencing_token());

    writing.release().await.unwrap();
    let writer = read_write(&connect(&server).await);
    assert!(writer.write().try_acquire().await.unwrap().is_none());
    reading.release().await.unwrap();
    writer.write().try_acquire().await.unwrap().unwrap().release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
    assert_eq!(session_id(&client).await, session);
}

const LONG_SESSION: Duration = Duration::from_secs(600);

/// A client that sends no ping while a test counts.
async fn quiet(server: &Server) -> Client {
    Client::builder().session_timeout(LONG_SESSION).connect(&server.connect_string()).await.unwrap()
}

#[tokio::test]
async fn a_reader_that_wants_to_write_is_refused_at_once() {
    let server = empty_server().await;
    let client = quiet(&server).await;
    let lock = read_write(&client);
    let session = session_id(&client).await;
    let count = async || server.session_packets(session).await.unwrap();
    let refused = async || {
        let before = count().await;
        would_deadlock(within(lock.write().acquire()).await, LOCK);
        would_deadlock(within(lock.write().try_acquire_for(LONG)).await, LOCK);
        would_deadlock(within(lock.write().enqueue()).await, LOCK);
        would_deadlock(within(lock.write().try_acquire_for(Duration::from_nanos(1))).await, LOCK);
        would_deadlock(within(lock.write().try_acquire_for(Duration::ZERO)).await, LOCK);
        would_deadlock(within(lock.write().try_acquire()).await, LOCK);
        assert_eq!(count().await, before, "nothing was sent");
    };
    let reading = lock.read().acquire().await.unwrap();
    refused().await;
    // Another owner may wait for it.
    let writer = enter(&lock, Write);
    watches_of(&server, 1).await;
    reading.release().await.unwrap();
    within(writer).await.unwrap().unwrap().release().await.unwrap();
    // The same when it has written before.
    let writing = lock.write().acquire().await.unwrap();
    let reading = lock.read().acquire().await.unwrap();
    assert_eq!(lock.write().acquire().await.unwrap().hold_count(), 2, "it still writes");
    writing.release().await.unwrap();
    refused().await;
    drop(reading);
    lock.write().acquire().await.unwrap().release().await.unwrap();
    assert_nothing_left(&server, &bystander(&server).await, LOCK).await;
}

#[tokio::test]
async fn waiting_for_oneself_through_another_object_is_refused() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let (one, other) = (read_write(&client), read_write(&client));
    let path = format!("/{}{LOCK}", sandbox.root);
    let refused_to_write = async || {
        would_deadlock(within(other.write().acquire()).await, &path);
        would_deadlock(within(other.write().try_acquire_for(LONG)).await, &path);
        would_deadlock(within(other.write().enqueue().await.unwrap().acquired()).await, &path);
        would_deadlock(within(other.write().try_acquire_for(Duration::from_nanos(1))).await, &path);
        would_deadlock(within(other.write().try_acquire()).await, &path);
    };
    let refused_to_read = async || {
        would_deadlock(within(other.read().acquire()).await, &path);
        would_deadlock(within(other.read().try_acquire_for(LONG)).await, &path);
        would_deadlock(within(other.read().enqueue().await.unwrap().acquired()).await, &path);
        would_deadlock(within(other.read().try_acquire()).await, &path);
    };

    let writing = one.write().acquire().await.unwrap();
    refused_to_write().await;
    refused_to_read().await;
    writing.release().await.unwrap();

    let reading = one.read().acquire().await.unwrap();
    refused_to_write().await;
    // That is no wait yet.
    within(other.read().acquire()).await.unwrap().release().await.unwrap();

    // A writer waits for this owner, so the owner must not wait for that writer.
    let writer = enter(&read_write(&sandbox.client().await), Write);
    let zookeeper = client.zookeeper().await.unwrap();
    queue_of(&zookeeper, &path, 2).await;
    refused_to_read().await;
    let again = within(one.read().acquire()).await.unwrap();
    assert_eq!(again.hold_count(), 2, "through the same object it enters again");
    // Another owner may wait.
    let reader = enter(&other, Read);
    queue_of(&zookeeper, &path, 3).await;
    assert!(!writer.is_finished() && !reader.is_finished());
    drop((reading, again));
    within(writer).await.unwrap().unwrap().release().await.unwrap();
    within(reader).await.unwrap().unwrap().release().await.unwrap();
    sandbox.assert_nothing_left().await;
}

/// Who is listed on a side, and whether it holds.
async fn listed(participants: Result<Vec<Participant>>) -> Vec<(String, bool)> {
    let identity = |p: &Participant| String::from_utf8(p.identity().unwrap().to_vec()).unwrap();
    participants.unwrap().iter().map(|p| (identity(p), p.is_holder())).collect()
}

#[tokio::test]
async fn each_side_tells_of_its_own() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let (zookeeper, path) = (client.zookeeper().await.unwrap(), format!("/{}{LOCK}", sandbox.root));
    let observer = read_write(&client);
    let assert_sides = async |readers: &[(&str, bool)], writers: &[(&str, bool)]| {
        let (read, write): (&ReadLock, &WriteLock) = (observer.read(), observer.write());
        let owned =
            |list: &[(&str, bool)]| list.iter().map(|(who, holds)| ((*who).to_owned(), *holds)).collect();
        let (readers, writers): (Vec<_>, Vec<_>) = (owned(readers), owned(writers));
        // Whoever has left is gone at the server, too.
        queue_of(&zookeeper, &path, readers.len() + writers.len()).await;
        assert_eq!(listed(read.participants().await).await, readers);
        assert_eq!(listed(write.participants().await).await, writers);
        for (expected, holder, is_locked) in [
            (readers, read.holder().await, read.is_locked().await),
            (writers, write.holder().await, write.is_locked().await),
        ] {
            let expected: Vec<_> = expected.into_iter().filter(|(_, holds)| *holds).take(1).collect();
            assert_eq!(is_locked, Ok(!expected.is_empty()));
            assert_eq!(listed(holder.map(|holder| holder.into_iter().collect())).await, expected);
        }
    };
    assert_sides(&[], &[]).await;
    let mut tickets = Vec::new();
    for (identity, side) in [("a", Read), ("b", Read), ("c", Write), ("d", Read), ("e", Write)] {
        let lock = read_write(&sandbox.builder().identity(identity).connect(&servers()).await.unwrap());
        let ticket = match side {
            Read => lock.read().enqueue().await,
            Write => lock.write().enqueue().await,
        };
        tickets.push((lock, ticket.unwrap()));
    }
    let mut tickets = tickets.into_iter();
    let mut next = || tickets.next().unwrap();
    assert_sides(&[("a", true), ("b", true), ("d", false)], &[("c", false), ("e", false)]).await;
    drop(next());
    assert_sides(&[("b", true), ("d", false)], &[("c", false), ("e", false)]).await;
    drop(next());
    assert_sides(&[("d", false)], &[("c", true), ("e", false)]).await;
    let (lock, ticket) = next();
    let writing = within(ticket.acquired()).await.unwrap();
    let reading = lock.read().acquire().await.unwrap();
    assert_sides(&[("c", true), ("d", false)], &[("c", true), ("e", false)]).await;
    writing.release().await.unwrap();
    assert_sides(&[("c", true), ("d", true)], &[("e", false)]).await;
    reading.release().await.unwrap();
    drop(next());
    assert_sides(&[], &[("e", true)]).await;
    drop(next());
    assert_sides(&[], &[]).await;
    sandbox.assert_nothing_left().await;
}

#[tokio::test]
async fn tickets_tell_their_position_on_both_sides() {
    let sandbox = Sandbox::new();
    let lock = read_write(&sandbox.client().await);
    let mut tickets = Vec::new();
    // Nobody is before a reader whose turn it is.
    for (side, position) in [(Read, 0), (Read, 0), (Write, 2), (Read, 3), (Write, 4)] {
        let ticket = match side {
            Read => lock.read().owned_by(&Owner::new()).enqueue().await.unwrap(),
            Write => lock.write().owned_by(&Owner::new()).enqueue().await.unwrap(),
        };
        assert_eq!(ticket.position().await, Ok(position));
        assert_eq!(ticket.watch_position().get(), position);
        tickets.push(ticket);
    }
    let mut tickets = tickets.into_iter();
    let mut next = || tickets.next().unwrap();
    let (first, second, third, reader, writer) = (next(), next(), next(), next(), next());
    let mut positions = [reader.watch_position(), writer.watch_position()];
    assert_eq!(positions.each_ref().map(|position| position.get()), [3, 4]);
    let both = async |positions: &mut [zk_recipes::Watch<usize>; 2], expected: [usize; 2]| {
        for (followed, expected) in positions.iter_mut().zip(expected) {
            within(followed.wait_for(|position| *position == expected)).await.unwrap();
        }
    };
    let (reader, writer) = (tokio::spawn(reader.acquired()), tokio::spawn(writer.acquired()));
    // Readers need not be the first.
    let second = within(second.acquired()).await.unwrap();
    drop(first);
    both(&mut positions, [2, 3]).await;
    drop(second);
    both(&mut positions, [1, 2]).await;
    let third = within(third.acquired()).await.unwrap();
    assert!(!reader.is_finished() && !writer.is_finished());
    third.release().await.unwrap();
    let reader = within(reader).await.unwrap().unwrap();
    reader.release().await.unwrap();
    let writer = within(writer).await.unwrap().unwrap();
    drop(writer);

    // One that holds already is nowhere in the queue, be it on its side or not.
    let owner = Owner::new();
    let writing = lock.write().owned_by(&owner).acquire().await.unwrap();
    let behind = lock.write().owned_by(&Owner::new()).enqueue().await.unwrap();
    let ticket = lock.read().owned_by(&owner).enqueue().await.unwrap();
    assert_eq!(ticket.position().await, Ok(0));
    drop(writing);
    assert_eq!(behind.position().await, Ok(1), "the ticket reads");
    let reading = within(ticket.acquired()).await.unwrap();
    drop((reading, behind));
    sandbox.assert_nothing_left().await;
}

/// The server's counter ends: it repeats the greatest number or turns negative.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real ZooKeeper"]
async fn past_the_last_number_nobody_is_beside_a_writer() {
    let server = server_counting_from(LOCK, i32::MAX - 2).await;
    let zookeeper = bystander(&server).await;
    let clients: [Client; 9] = connect_many(&server).await;
    let lock = read_write(&clients[0]);
    let writing = lock.write().acquire().await.unwrap();
    assert_eq!(sequence(writing.node_path()), i32::MAX - 2);
    let mut line = Line::default();
    for (client, side) in clients[1..].iter().zip([Read, Write, Read, Read, Write, Write, Read, Write]) {
        line.enter(&server, &read_write(client), side).await;
    }
    let nodes = children(&zookeeper, LOCK).await;
    assert_eq!(nodes.iter().filter(|node| sequence(node) == i32::MAX).count(), 7, "{nodes:?}");
    // A number of its own still makes a reader of a writer.
    let reading = lock.read().acquire().await.unwrap();
    assert_ne!(reading.node_path(), writing.node_path());
    writing.release().await.unwrap();
    // The last to go is the one that became a reader: its node is the youngest, and yet it is before all others.
    let mut inside = vec![reading];
    inside.extend(line.let_in(&server, 1).await);
    for party in [1, 2, 1, 1, 1, 1] {
        while let Some(guard) = inside.pop() {
            line.let_in(&server, 0).await;
            guard.release().await.unwrap();
        }
        inside = line.let_in(&server, party).await;
    }
    drop(inside);

    // A number that others may have as well does not.
    let writing = lock.write().acquire().await.unwrap();
    let reading = lock.read().acquire().await.unwrap();
    assert_eq!(reading.node_path(), writing.node_path());
    writing.release().await.unwrap();
    assert!(read_write(&clients[1]).read().try_acquire().await.unwrap().is_none());
    reading.release().await.unwrap();

    let room = visit(&clients[..3], 30).await;
    assert!(room.most_visitors() > 1, "no two readers were inside at once");
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

/// The same with nodes of others, whose ids are in another order than their creation.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn past_the_last_number_the_order_is_that_of_creation() {
    let server = server_counting_from(LOCK, i32::MAX).await;
    let foreign = bystander(&server).await;
    let [reader, writer] = connect_many(&server).await;
    let (reader, writer) = (read_write(&reader), read_write(&writer));
    let create = async |name: &str| {
        let node = format!("{LOCK}/_c_{name}");
        let mode = zk::CreateMode::Ephemeral.with_acls(zk::Acls::anyone_all());
        foreign.create(&node, b"", &mode).await.unwrap();
        node
    };
    let gone = async |node: &str| foreign.delete(node, None).await.unwrap();
    let mut line = Line::default();

    let writes_first = create("z-__WRIT__2147483647").await;
    line.enter(&server, &reader, Read).await;
    let reads = create("0-__READ__2147483647").await;
    line.enter(&server, &writer, Write).await;
    let writes_last = create("0-__WRIT__-2147483648").await;
    let ids = |participants: Vec<Participant>| -> Vec<_> {
        participants.iter().map(|p| p.node_path().to_owned()).collect()
    };
    let readers = ids(reader.read().participants().await.unwrap());
    let writers = ids(reader.write().participants().await.unwrap());
    assert_eq!((readers.len(), &readers[1]), (2, &reads));
    assert_eq!((writers.len(), &writers[0], &writers[2]), (3, &writes_first, &writes_last));

    gone(&writes_first).await;
    let reading = line.let_in(&server, 1).await.remove(0);
    assert_eq!(reading.node_path(), readers[0]);
    reading.release().await.unwrap();
    line.let_in(&server, 0).await;
    gone(&reads).await;
    let writing = line.let_in(&server, 1).await.remove(0);
    assert_eq!(writing.node_path(), writers[1]);
    assert!(reader.read().try_acquire().await.unwrap().is_none());
    writing.release().await.unwrap();
    assert!(reader.read().try_acquire().await.unwrap().is_none(), "the negative one writes now");
    assert!(writer.write().try_acquire().await.unwrap().is_none());
    gone(&writes_last).await;
    reader.read().try_acquire().await.unwrap().unwrap().release().await.unwrap();
    assert_nothing_left(&server, &foreign, LOCK).await;
}

/// A client whose packets are counted.
struct Counted {
    client: Client,
    session: i64,
}

impl Counted {
    async fn new(server: &Server) -> Self {
        let client = quiet(server).await;
        Self { session: session_id(&client).await, client }
    }

    /// What it has sent by now, with whatever it had to send after what it has heard by now.
    async fn packets(&self, server: &Server) -> u64 {
        // The first reply comes after the news that were sent before it. The second request goes out after what these
        // have led to.
        let zookeeper = self.client.zookeeper().await.unwrap();
        for _ in 0..2 {
            zookeeper.check_stat(LOCK).await.unwrap();
        }
        server.session_packets(self.session).await.unwrap()
    }
}

#[tokio::test]
async fn a_release_wakes_only_those_that_can_go_on() {
    /// What asking for the packets takes.
    const ASKING: u64 = 2;
    // On a busy machine this takes longer than it is between two signs of life of a shorter session.
    let server = Server::builder().session_timeout_bounds(Duration::from_secs(1), LONG_SESSION);
    let server = server.start().await.unwrap();
    let first = read_write(&connect(&server).await);
    let second = Counted::new(&server).await;
    let readers = join_all((0..10).map(|_| Counted::new(&server))).await;
    let writing = first.write().acquire().await.unwrap();
    let mut line = Line::default();
    line.enter(&server, &read_write(&second.client), Write).await;
    for reader in &readers {
        line.enter(&server, &read_write(&reader.client), Read).await;
    }
    let count = async || {
        let counts = readers.iter().map(|reader| reader.packets(&server));
        (second.packets(&server).await, join_all(counts).await)
    };
    let sent = |(second, readers): &(u64, Vec<u64>), before: &(u64, Vec<u64>)| -> (u64, Vec<u64>) {
        let readers = readers.iter().zip(&before.1).map(|(after, before)| after - before - ASKING).collect();
        (second - before.0 - ASKING, readers)
    };

    // One writer after the other: that concerns nobody who reads.
    let before = count().await;
    writing.release().await.unwrap();
    let writing = line.let_in(&server, 1).await.remove(0);
    let after = count().await;
    assert_eq!(sent(&after, &before), (1, vec![0; 10]), "the next writer lists");

    // Then the readers: each lists once. The writer has sent its delete.
    writing.release().await.unwrap();
    let mut reading = line.let_in(&server, 10).await;
    let before = after;
    let after = count().await;
    assert_eq!(sent(&after, &before), (1, vec![1; 10]));

    // A writer behind them looks twice: at first, and when all but the last are gone. It creates, lists and watches the
    // last but one; lists, and watches the last one and itself.
    line.enter(&server, &read_write(&second.client), Write).await;
    let last = reading.pop().unwrap();
    for guard in reading {
        guard.release().await.unwrap();
    }
    let mut before = after;
    let looked_twice = async {
        loop {
            let after = count().await;
            if after.0 - before.0 - ASKING >= 6 {
                return after;
            }
            // The second look is under way. What was asked meanwhile does not count.
            before.0 += ASKING;
            before.1.iter_mut().for_each(|packets| *packets += ASKING);
        }
    };
    let after = within(looked_twice).await;
    let deletes = [vec![1; 9], vec![0]].concat();
    assert_eq!(sent(&after, &before), (6, deletes));
    last.release().await.unwrap();
    drop(line.let_in(&server, 1).await);
    assert_nothing_left(&server, &bystander(&server).await, LOCK).await;
}

#[tokio::test]
async fn behind_a_mutex_neither_side_is_granted() {
    let (_server, zookeeper, [one, two, three]) = server_with_clients().await;
    let lock = ReadWriteLock::new(&two, "/locks/a").unwrap();
    let held = mutex(&one).acquire().await.unwrap();
    for refused in [
        within(lock.read().owned_by(&Owner::new()).acquire()).await,
        within(lock.write().owned_by(&Owner::new()).acquire()).await,
    ] {
        let Err(Error::KindConflict { node, expected, found, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(node.as_deref(), Some(held.node_path()));
        assert_eq!((expected, found), ("read/write lock", "mutex"));
    }
    queue_of(&zookeeper, "/locks/a", 1).await;
    held.release().await.unwrap();
    // A reader beside a reader, with a mutex between.
    let reading = within(lock.read().owned_by(&Owner::new()).acquire()).await.unwrap();
    assert!(matches!(within(mutex(&three).acquire()).await, Err(Error::KindConflict { .. })));
    queue_of(&zookeeper, "/locks/a", 1).await;
    let mode = zk::CreateMode::EphemeralSequential.with_acls(zk::Acls::anyone_all());
    zookeeper.create("/locks/a/_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-lock-", b"", &mode).await.unwrap();
    let beside = within(lock.read().owned_by(&Owner::new()).acquire()).await;
    assert!(matches!(beside, Err(Error::KindConflict { .. })), "{beside:?}");
    assert!(reading.is_valid());
}

/// How a writer loses its lock while it becomes a reader.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Loses {
    /// Its maximum hold time ends.
    ByTime,
    /// An operator deletes its node.
    ByForce,
}

/// The writer has become a reader before it is lost, and the caller looks only after that: it reads, and nobody writes
/// until it has ended.
#[tokio::test]
async fn a_writer_that_is_lost_after_it_became_a_reader_reads() {
    let (server, zookeeper, [client]) = server_with_clients().await;
    let lock = read_write(&client);
    lock.write().owned_by(&Owner::new()).acquire().await.unwrap().release().await.unwrap();
    for loses in [Loses::ByTime, Loses::ByForce] {
        let options = match loses {
            Loses::ByTime => LockOptions::new().max_hold(Duration::from_secs(2)),
            Loses::ByForce => LockOptions::new(),
        };
        let owner = Owner::new();
        let writing = lock.write().with_options(options).unwrap().owned_by(&owner).acquire().await.unwrap();
        let mut state = writing.watch_state();
        let next = enter(&lock, Write);
        queue_of(&zookeeper, LOCK, 2).await;
        let reader = lock.read().owned_by(&owner);
        let mut reading = Box::pin(reader.acquire());
        assert!(reading.as_mut().now_or_never().is_none());
        queue_of(&zookeeper, LOCK, 3).await;
        eventually("it reads", async || lock.read().is_owned_by(&owner).then_some(())).await;
        assert_eq!(writing.loss(), None, "{loses:?}: the downgrade comes first");
        if loses == Loses::ByForce {
            zookeeper.delete(writing.node_path(), None).await.unwrap();
        }
        within(state.wait_for(|state| state.is_lost())).await.unwrap();
        queue_of(&zookeeper, LOCK, 2).await;

        let reading = within(reading).await.unwrap();
        assert!(reading.is_valid() && !next.is_finished());
        reading.release().await.unwrap();
        within(next).await.unwrap().unwrap().release().await.unwrap();
        drop(writing);
    }
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

/// The lock is lost first, and then nobody has come in between.
#[tokio::test]
async fn a_writer_that_is_lost_while_it_becomes_a_reader_does_not_read_with_nobody_behind_it() {
    let (server, proxy, zookeeper, client) = server_behind_proxy().await;
    let lock = read_write(&client);
    let owner = Owner::new();
    let brief = lock.write().with_options(LockOptions::new().max_hold(Duration::from_secs(1))).unwrap();
    let writing = brief.owned_by(&owner).acquire().await.unwrap();
    let mut state = writing.watch_state();
    let stalled = proxy.intercept(Request::Multi, Fate::HoldReply);
    let reading = read_as(&lock, &owner);
    within(stalled.happened()).await;
    within(state.wait_for(|state| state.is_lost())).await.unwrap();
    drop(stalled);
    let lost = Error::LockLost { path: writing.node_path().to_owned(), reason: LossReason::Deadline };
    assert_eq!(within(reading).await.unwrap().unwrap_err(), lost);
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

/// The line does not pass on yet: a transaction of the writer was sent, and its answer was not awaited.
#[tokio::test]
async fn a_writer_that_is_lost_while_it_becomes_a_reader_does_not_read_though_its_line_waits() {
    let (server, proxy, zookeeper, client) = server_behind_proxy().await;
    let lock = read_write(&client);
    let owner = Owner::new();
    let brief = lock.write().with_options(LockOptions::new().max_hold(Duration::from_secs(2))).unwrap();
    let writing = brief.owned_by(&owner).acquire().await.unwrap();
    let mut state = writing.watch_state();
    let stalled = proxy.intercept(Request::Multi, Fate::HoldReply);
    // It is cancelled, so that nobody hears what became of it.
    assert!(writing.transaction().commit().now_or_never().is_none());
    within(stalled.happened()).await;
    let deleted = proxy.intercept(Request::Delete, Fate::HoldReply);
    let reading = read_as(&lock, &owner);
    queue_of(&zookeeper, LOCK, 2).await;
    within(state.wait_for(|state| state.is_lost())).await.unwrap();
    within(deleted.happened()).await;
    stalled.release();
    let lost = Error::LockLost { path: writing.node_path().to_owned(), reason: LossReason::Deadline };
    assert_eq!(within(reading).await.unwrap().unwrap_err(), lost);
    deleted.release();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

#[tokio::test]
async fn a_release_waits_for_the_delete_also_while_the_owner_becomes_a_reader() {
    let (server, proxy, zookeeper, client) = server_behind_proxy().await;
    let lock = read_write(&client);
    let owner = Owner::new();
    let writing = lock.write().owned_by(&owner).acquire().await.unwrap();
    let writer = name(&writing).to_owned();
    let next = enter(&read_write(&client), Write);
    queue_of(&zookeeper, LOCK, 2).await;
    let stalled = proxy.intercept(Request::Multi, Fate::HoldReply);
    let reading = read_as(&lock, &owner);
    within(stalled.happened()).await;
    assert_eq!(writing.hold_count(), 1);
    let mut releasing = Box::pin(writing.release());
    assert!(releasing.as_mut().now_or_never().is_none(), "the delete is not confirmed");
    drop(stalled);
    assert_eq!(within(releasing).await, Ok(()));
    assert!(!children(&zookeeper, LOCK).await.contains(&writer));
    // And nobody came in between.
    let reading = within(reading).await.unwrap().unwrap();
    assert!(reading.is_valid() && !next.is_finished());
    reading.release().await.unwrap();
    within(next).await.unwrap().unwrap().release().await.unwrap();
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}

/// A task that starts both at once waits for neither of them twice.
#[tokio::test]
async fn sides_that_one_owner_wants_at_the_same_time_do_not_wait_for_each_other() {
    let (sandbox, [client]) = sandbox_with_clients().await;
    let lock = read_write(&client);
    let (one, other) = within(join(lock.read().acquire(), lock.read().acquire())).await;
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!((one.hold_count(), one.node_path()), (2, other.node_path()));
    drop((one, other));
    let (writing, reading) = within(join(lock.write().acquire(), lock.read().acquire())).await;
    let (writing, reading) = (writing.unwrap(), reading.unwrap());
    assert_eq!(sequence(reading.node_path()), sequence(writing.node_path()), "it goes on as a reader");
    drop((writing, reading));
    // The writer would wait for its own reader.
    let (reading, writing) = within(join(lock.read().acquire(), lock.write().acquire())).await;
    would_deadlock(writing, lock.path());
    drop(reading.unwrap());
    sandbox.assert_nothing_left().await;
}

/// Two calls of one owner to read, on a thread each, share one hold, whichever is released first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_reads_twice_reads_until_both_are_released() {
    let (_server, zookeeper, [holder, client]) = server_with_clients().await;
    let owner = Owner::new();
    let outside = ReadWriteLock::new(&holder, LOCK).unwrap();
    let lock = ReadWriteLock::new(&client, LOCK).unwrap().read().owned_by(&owner);
    for round in 0..repeats(300) {
        let held = outside.write().acquire().await.unwrap();
        let (acquired, mut guards) = tokio::sync::mpsc::unbounded_channel();
        for _ in 0..2 {
            let (lock, acquired) = (lock.clone(), acquired.clone());
            std::thread::spawn(move || {
                let _ = acquired.send(futures_executor::block_on(lock.acquire()).unwrap());
            });
        }
        queue_of(&zookeeper, LOCK, 3).await;
        held.release().await.unwrap();
        let (first, second) = (within(guards.recv()).await.unwrap(), within(guards.recv()).await.unwrap());
        second.release().await.unwrap();
        assert!(lock.is_owned_by(&owner), "in round {round} it still reads: {first:?}");
        first.release().await.unwrap();
        assert!(!lock.is_owned_by(&owner), "in round {round}");
    }
}
