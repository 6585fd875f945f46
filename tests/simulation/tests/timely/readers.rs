//! Readers and writers in one queue: whom they wait for, what a release costs, and where they stand.

use super::prelude::*;

fn read_write(client: &Client) -> ReadWriteLock {
    ReadWriteLock::new(client, PATH).unwrap()
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Read,
    Write,
}

use Side::*;

/// Waits in a task, for an owner of its own.
async fn enter(lock: &ReadWriteLock, side: Side) -> JoinHandle<Result<LockGuard>> {
    let waiting = match side {
        Read => acquiring(&lock.read().owned_by(&Owner::new())),
        Write => acquiring(&lock.write().owned_by(&Owner::new())),
    };
    sleep(A_MOMENT).await;
    waiting
}

/// The numbers of the nodes that are watched, each as often as it is.
async fn watches(stage: &Stage) -> Vec<i32> {
    sleep(A_MOMENT).await;
    let mut watches: Vec<_> = watched(stage.servers()).await.iter().map(|node| number(node)).collect();
    watches.sort_unstable();
    watches
}

#[history]
async fn a_reader_waits_for_the_nearest_writer_and_a_writer_for_whoever_is_before_it(stage: Stage) {
    let clients = stage.clients::<6>().await;
    let first = read_write(&clients[0]).read().acquire().await.unwrap();
    let mut line = Vec::new();
    for (client, side) in clients[1..].iter().zip([Write, Read, Read, Write, Read]) {
        line.push(enter(&read_write(client), side).await);
    }
    // Each its own node, and the writers before: [0, 1], [1, 2], [1, 3], [2, 4], [4, 5]. A writer looks again when the
    // second before it is gone.
    assert_eq!(watches(&stage).await, [0, 1, 1, 1, 2, 2, 3, 4, 4, 5]);
    // The nearest writer gives up: there is another one before the last reader.
    line.remove(3).abort();
    assert_eq!(watches(&stage).await, [0, 1, 1, 1, 1, 2, 3, 5]);
    // Now the readers have none before them.
    line.remove(0).abort();
    let guards = join_all(line.into_iter().map(granted)).await;
    drop((first, guards));
    nothing_is_left(stage.servers()).await;
}

#[history]
async fn a_release_wakes_only_those_that_can_go_on(stage: Stage) {
    const LONG: Duration = secs(600);
    let first = read_write(&stage.client(1).await);
    let far = join_all((0..6).map(async |number| {
        let proxy = stage.proxy_of(0, number + 1).await;
        let client = proxy.client(|builder| builder.session_timeout(LONG)).await;
        (proxy, client)
    }));
    let far = far.await;
    // Of the second writer, and of the readers, since the last call.
    let sent = async || {
        sleep(A_MOMENT).await;
        far.iter().map(|(proxy, _)| proxy.take_requests().len()).collect::<Vec<_>>()
    };
    let second = || read_write(&far[0].1);
    let writing = first.write().acquire().await.unwrap();
    let waiting = enter(&second(), Write).await;
    let mut readers = Vec::new();
    for (_, client) in &far[1..] {
        readers.push(enter(&read_write(client), Read).await);
    }
    sent().await;
    // One writer after the other: that concerns nobody who reads.
    writing.release().await.unwrap();
    let writing = granted(waiting).await;
    assert_eq!(sent().await, [1, 0, 0, 0, 0, 0], "the next writer lists");
    // Then the readers: each lists once. The writer has sent its delete.
    writing.release().await.unwrap();
    let mut reading = join_all(readers.into_iter().map(granted)).await;
    assert_eq!(sent().await, [1; 6]);
    // A writer behind them looks twice: at first, and when all but the last are gone. It creates, lists and watches the
    // last but one; lists, and watches the last one and itself.
    let waiting = enter(&second(), Write).await;
    let last = reading.pop().unwrap();
    for guard in reading {
        guard.release().await.unwrap();
    }
    assert_eq!(sent().await, [6, 1, 1, 1, 1, 0]);
    last.release().await.unwrap();
    granted(waiting).await.release().await.unwrap();
    nothing_is_left(stage.servers()).await;
}

#[history]
async fn tickets_tell_their_position_on_both_sides(stage: Stage) {
    let client = stage.client(0).await;
    let lock = read_write(&client);
    let mut tickets = Vec::new();
    // Nobody is before a reader whose turn it is.
    for (side, position) in [(Read, 0), (Read, 0), (Write, 2), (Read, 3), (Write, 4)] {
        let ticket = match side {
            Read => lock.read().owned_by(&Owner::new()).enqueue().await.unwrap(),
            Write => lock.write().owned_by(&Owner::new()).enqueue().await.unwrap(),
        };
        assert_eq!((ticket.position().await, ticket.watch_position().get()), (Ok(position), position));
        tickets.push(ticket);
    }
    let [first, second, third, reader, writer] = tickets.try_into().unwrap();
    let positions = [reader.watch_position(), writer.watch_position()];
    let [reader, writer] = [reader, writer].map(|ticket| spawn_local(ticket.acquired()));
    let are = async |expected| {
        sleep(A_MOMENT).await;
        assert_eq!(positions.each_ref().map(Watch::get), expected);
    };
    are([3, 4]).await;
    // Readers need not be the first.
    let second = within(second.acquired()).await.unwrap();
    drop(first);
    are([2, 3]).await;
    drop(second);
    are([1, 2]).await;
    let third = within(third.acquired()).await.unwrap();
    assert!(!reader.is_finished() && !writer.is_finished());
    third.release().await.unwrap();
    granted(reader).await.release().await.unwrap();
    granted(writer).await.release().await.unwrap();
    // One that holds already is nowhere in the queue, be it on its side or not.
    let owner = Owner::new();
    let writing = lock.write().owned_by(&owner).acquire().await.unwrap();
    let behind = lock.write().owned_by(&Owner::new()).enqueue().await.unwrap();
    let ticket = lock.read().owned_by(&owner).enqueue().await.unwrap();
    assert_eq!(ticket.position().await, Ok(0));
    drop(writing);
    assert_eq!(behind.position().await, Ok(1), "the ticket reads");
    drop((within(ticket.acquired()).await.unwrap(), behind));
    nothing_is_left(stage.servers()).await;
}
