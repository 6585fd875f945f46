//! Where the counter of a server ends.

use super::*;

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
    assert_nothing_left(&server, &zookeeper, LOCK).await;
}
