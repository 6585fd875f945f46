//! `ReadWriteLock`: who shares it and who does not; writers that become readers. Whom they wait for, and what they send,
//! is in the simulation.

mod last_numbers;
mod owners;

use crate::prelude::*;
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

fn name(guard: &LockGuard) -> &str {
    guard.node_path().rsplit_once('/').unwrap().1
}
