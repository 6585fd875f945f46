//! What participants that play foul cost in memory.

use crate::prelude::*;
use crate::support::alone::is_alone;
use zk_recipes::nodes::{Group, Members};

const PATH: &str = "/locks/a";

#[tokio::test]
#[ignore = "takes 15 s of computing"]
async fn floods_that_come_and_go_leave_no_memory() {
    const FLOOD: usize = 2_000;
    if !is_alone("locks::hostile::floods_that_come_and_go_leave_no_memory") {
        return;
    }
    let server = empty_server().await;
    let [holder, waiter] = connect_many(&server).await;
    let zookeeper = bystander(&server).await;
    let guard = within(mutex(&holder).acquire()).await.unwrap();
    let waiting = acquire_in_task(&mutex(&waiter));
    queue_of(&zookeeper, PATH, 2).await;
    let flood = async || {
        let mallory = bystander(&server).await;
        // Behind them, and with numbers that do not tell the order.
        let names = (1..FLOOD).map(|number| format!("x-lock-{:010}", 1_000_000 + number));
        let paths = names.chain(["x-lock-2147483647".to_owned()]).map(|name| format!("{PATH}/{name}"));
        let paths: Vec<String> = paths.collect();
        for some in paths.chunks(1000) {
            let mut writer = mallory.new_multi_writer();
            let options = anyone(CreateMode::Ephemeral);
            some.iter().for_each(|path| writer.add_create(path, b"", &options).unwrap());
            writer.commit().await.unwrap();
        }
        // Each that comes has all of them dated.
        let tried = within(mutex(&waiter).owned_by(&Owner::new()).try_acquire()).await.unwrap();
        assert!(tried.is_none());
        drop(mallory);
        queue_of(&zookeeper, PATH, 2).await;
    };
    for _ in 0..3 {
        flood().await;
    }
    let before = memory::peak();
    for _ in 0..12 {
        flood().await;
    }
    let after = memory::peak();
    println!("{before} KiB after 3 floods, {after} KiB after 15");
    assert!(after < before + before / 5, "{before} KiB, and then {after} KiB");
    within(guard.release()).await.unwrap();
    drop(within(waiting).await.unwrap().unwrap());
}

/// Some hundred bytes each, of which gzip makes a thousand times as much.
#[tokio::test]
#[ignore = "decompresses a gigabyte"]
async fn compressed_data_take_no_more_than_a_share_of_memory() {
    const PLAIN: usize = 1 << 20;
    const FIT: usize = 64;
    let server = MemoryServer::start().unwrap();
    let compressing = || Client::builder().enable_compression();
    let client = compressing().connect(&server.connect_string()).await.unwrap();
    let other = compressing().connect(&server.connect_string()).await.unwrap();
    let group = Group::new(&client, "/group").unwrap();
    let first = Group::new(&other, "/group").unwrap().join("m-0000000000", vec![b'x'; PLAIN]).await.unwrap();
    // Its session lives on other threads: this one decompresses for long.
    let zookeeper = other.zookeeper().await.unwrap();
    let (bomb, _) = zookeeper.get_data("/group/m-0000000000").await.unwrap();
    assert!(bomb.len() < 2000, "{} bytes", bomb.len());
    let open = zk::Acls::anyone_all();
    zookeeper.create("/locks", b"", &zk::CreateMode::Persistent.with_acls(open)).await.unwrap();
    for number in 1..=2 * FIT {
        for node in [format!("/group/m-{number:010}"), format!("/locks/x-lock-{number:010}")] {
            zookeeper.create(&node, &bomb, &zk::CreateMode::Ephemeral.with_acls(open)).await.unwrap();
        }
    }

    let participants = InterProcessMutex::new(&client, "/locks").unwrap().participants().await.unwrap();
    let lengths: Vec<_> = participants.iter().map(|one| one.identity().unwrap().len()).collect();
    assert_eq!(lengths, [[PLAIN; FIT], [bomb.len(); FIT]].concat());

    let fitting = |members: &Members| {
        let payloads = members.iter().filter_map(|(_, member)| member.payload());
        payloads.inspect(|payload| assert_eq!(payload.len(), PLAIN)).count()
    };
    let members = group.members().await.unwrap();
    assert_eq!((members.len(), fitting(&members)), (2 * FIT + 1, FIT));
    let mut watched = group.watch_members();
    let shown = |members: &Members, count| members.len() == count && fitting(members) == FIT;
    within(watched.wait_for(|members| shown(members, 2 * FIT + 1))).await.unwrap();
    // The room of those that leave is that of others.
    first.leave().await.unwrap();
    within(watched.wait_for(|members| shown(members, 2 * FIT))).await.unwrap();
}
