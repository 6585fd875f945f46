//! `ReadWriteLock`: who shares it and who does not, in which order; writers that become readers.

mod downgrades;
mod last_numbers;
mod owners;

use crate::prelude::*;
use std::collections::BTreeMap;

use crate::support::counter::server_counting_from;
use uuid::Uuid;

const LOCK: &str = "/rw";

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
    let timed = answered(async || one.read().owned_by(&late).try_acquire_for(ms(100)).await);
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

/// A client whose packets are counted.
struct Counted {
    client: Client,
    session: i64,
}

impl Counted {
    async fn new(server: &Server) -> Self {
        let client = quiet(&server.connect_string()).await;
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
    let server = Server::builder().session_timeout_bounds(secs(1), secs(600));
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
async fn behind_a_mutex_a_reader_is_not_granted_beside_another_one() {
    let (_server, zookeeper, [two, three]) = server_with_clients().await;
    let lock = ReadWriteLock::new(&two, "/locks/a").unwrap();
    let reading = within(lock.read().owned_by(&Owner::new()).acquire()).await.unwrap();
    assert!(matches!(within(mutex(&three).acquire()).await, Err(Error::KindConflict { .. })));
    queue_of(&zookeeper, "/locks/a", 1).await;
    let mode = anyone(CreateMode::EphemeralSequential);
    zookeeper.create("/locks/a/_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-lock-", b"", &mode).await.unwrap();
    let beside = within(lock.read().owned_by(&Owner::new()).acquire()).await;
    assert!(matches!(beside, Err(Error::KindConflict { .. })), "{beside:?}");
    assert!(reading.is_valid());
}
