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
        let mode = anyone(CreateMode::Ephemeral);
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
