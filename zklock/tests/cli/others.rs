//! What `zklock` shows of other libraries.

use std::time::Duration;

use crate::installed::{Generation, Peers};
use crate::peer::Peer;
use crate::support::{bystander, empty_server, queue_of};
use crate::zklock::{Running, done, json};

const LASTING: Duration = Duration::from_secs(30);

#[tokio::test]
async fn nodes_of_curator_and_kazoo_are_shown() {
    let Some(peers) = Peers::if_installed(Generation::Debian) else { return };
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let curator = Peer::curator(&peers, &server.connect_string(), LASTING, "java").await;
    let kazoo = Peer::kazoo(&peers, &server.connect_string(), LASTING, "python").await;

    let mut holder = curator.open("holder", "mutex /locks/a").await;
    holder.call("acquire").await;
    let mut waiter = kazoo.open("waiter", "mutex /locks/a naming=kazoo").await;
    waiter.send("acquire");
    queue_of(&zookeeper, "/locks/a", 2).await;
    let ours = Running::script(&server, &["/locks/a"], "exit 7");
    queue_of(&zookeeper, "/locks/a", 3).await;
    let mut reader = kazoo.open("reader", "rw /rw naming=kazoo").await;
    reader.call("acquire read").await;
    let mut leader = curator.open("leader", "latch /leaders/a data=java-leader").await;
    leader.call("acquire").await;

    let shown = json(&server, &["show", "--json", "/locks/a"]).await;
    let participants = shown["participants"].as_array().unwrap();
    assert_eq!(participants.len(), 3);
    assert_eq!((&participants[0]["identity"], &participants[0]["state"]), (&"java".into(), &"holder".into()));
    assert_eq!(
        (&participants[1]["identity"], &participants[1]["state"]),
        (&"python".into(), &"waiting".into())
    );
    assert_eq!((&participants[2]["pid"], &participants[2]["state"]), (&ours.id().into(), &"waiting".into()));
    let listed = json(&server, &["ls", "--json"]).await;
    let found: Vec<_> = listed["locks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lock| {
            let text = |key: &str| lock[key].to_string().trim_matches('"').to_owned();
            format!("{} {} {} {}", text("path"), text("kind"), text("holders"), text("waiters"))
        })
        .collect();
    assert_eq!(found, ["/leaders/a leader latch 1 0", "/locks/a mutex 1 2", "/rw read/write lock 1 0"]);
    assert_eq!(listed["locks"][0]["holder"]["identity"], "java-leader");

    // They are taken away from in the same way.
    let kicked = done(&server, &["kick", "--yes", "/rw"]).await;
    assert_eq!(kicked.code, Some(0), "{kicked:?}");
    queue_of(&zookeeper, "/rw", 0).await;
    holder.call("release").await;
    waiter.answer().await;
    waiter.call("release").await;
    assert_eq!(ours.ended().await.code, Some(7));
}
