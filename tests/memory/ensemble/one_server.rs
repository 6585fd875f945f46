//! An ensemble of one server, and what all ensembles have: operators, observers and the truth.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_recipes::testing::{MemoryEnsemble, MemoryServer, Observed, ObservedKind};

use super::client::{Client, EPHEMERAL, PERSISTENT, SEQUENTIAL};
use crate::memory::operation::GET_DATA;
use crate::memory::wire::Body;

const ONE: Duration = Duration::from_secs(1);

fn start() -> MemoryEnsemble {
    MemoryEnsemble::builder().servers(1).seed(7).start().unwrap()
}

/// Collects what is observed.
pub(super) fn observe(ensemble: &MemoryEnsemble) -> Arc<Mutex<Vec<Observed>>> {
    let observed = Arc::<Mutex<Vec<_>>>::default();
    let there = observed.clone();
    ensemble.observe(move |event| there.lock().unwrap().push(event.clone()));
    observed
}

#[tokio::test(start_paused = true)]
async fn writes_are_observed_and_true_at_once() {
    let ensemble = start();
    assert_eq!((ensemble.servers(), ensemble.leader(), ensemble.node_count()), (1, Some(0), 4));
    let observed = observe(&ensemble);
    let mut client = Client::open(&ensemble, 0).await.unwrap();
    assert_eq!(ensemble.session_ids(), [client.welcome.session]);
    assert_eq!(client.create("/a", PERSISTENT).await, Some(Ok("/a".into())));
    assert_eq!(client.create("/a/n-", EPHEMERAL | SEQUENTIAL).await, Some(Ok("/a/n-0000000000".into())));
    assert_eq!(client.create("/a", PERSISTENT).await, Some(Err(-110)));
    assert_eq!(client.set_data("/a", "x").await, Some(0));
    let node = ensemble.node("/a").unwrap();
    assert_eq!((node.version, node.num_children, &node.data[..]), (1, 1, &b"x"[..]));
    assert_eq!(ensemble.node("/a/n-0000000000").unwrap().ephemeral_owner, client.welcome.session);
    assert_eq!(ensemble.children("/a"), Some(vec!["n-0000000000".into()]));
    assert_eq!(ensemble.children("/b"), None);
    let below: Vec<_> = ensemble.nodes_below("/").into_iter().map(|(path, _)| path).collect();
    assert_eq!(below, ["/a", "/a/n-0000000000", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"]);

    assert!(ensemble.delete("/a") && ensemble.create("/b", b"1", false) && ensemble.set_data("/b", b"2"));
    assert!(ensemble.end_session(client.welcome.session));
    assert!(client.is_closed_within(ONE / 100).await);
    assert!(ensemble.session_ids().is_empty());
    let observed = observed.lock().unwrap();
    let told: Vec<_> = observed
        .iter()
        .map(|event| (event.path.as_str(), event.kind, event.data.as_deref(), event.is_by_operator))
        .collect();
    use ObservedKind::{Created, DataChanged, Deleted};
    assert_eq!(
        told,
        [
            ("/a", Created, Some(&b""[..]), false),
            ("/a/n-0000000000", Created, Some(b""), false),
            ("/a", DataChanged, Some(b"x"), false),
            ("/a/n-0000000000", Deleted, None, true),
            ("/a", Deleted, None, true),
            ("/b", Created, Some(b"1"), true),
            ("/b", DataChanged, Some(b"2"), true),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_observer_can_look_and_act() {
    let ensemble = start();
    let there = ensemble.clone();
    ensemble.observe(move |event| {
        assert!(there.node(&event.path).is_some());
        if event.path == "/a" {
            assert!(there.create("/b", b"", false));
        }
    });
    ensemble.create("/a", b"", false);
    assert!(ensemble.node("/b").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_server_is_silent_while_paused_and_keeps_its_state_when_stopped() {
    let ensemble = start();
    let mut client = Client::open(&ensemble, 0).await.unwrap();
    client.create("/a", EPHEMERAL).await.unwrap().unwrap();
    ensemble.set_paused(0, true);
    client.request(GET_DATA, &Body::default().text("/a").bool(false).0).await;
    assert!(tokio::time::timeout(ONE / 2, client.reply()).await.is_err());
    ensemble.set_paused(0, false);
    assert_eq!(client.reply().await.unwrap().1.error, 0);

    ensemble.stop(0);
    assert!(ensemble.leader().is_none() && !ensemble.is_serving(0) && !ensemble.create("/b", b"", false));
    assert!(client.is_closed_within(ONE / 100).await);
    assert!(Client::open(&ensemble, 0).await.is_none());
    tokio::time::sleep(10 * ONE).await;
    ensemble.start(0);
    let mut client = client.resume(&ensemble, 0).await.unwrap();
    assert_eq!(client.data("/a").await, Some(Ok(String::new())));
    tokio::time::sleep(2 * ONE).await;
    assert!(ensemble.node("/a").is_none(), "the session has expired");

    ensemble.create("/c", b"", false);
    ensemble.wipe(0);
    ensemble.start(0);
    assert!(ensemble.node("/c").is_none());
    let observed = observe(&ensemble);
    ensemble.create("/d", b"", false);
    assert_eq!(observed.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_its_last_handle() {
    let ensemble = start();
    let mut client = Client::open(&ensemble, 0).await.unwrap();
    drop(ensemble.clone());
    assert_eq!(client.ping().await, Some(0));
    drop(ensemble);
    assert!(client.is_closed_within(ONE / 100).await);
}

#[test]
fn it_needs_a_runtime_and_sensible_settings() {
    assert!(MemoryEnsemble::builder().servers(1).start().is_err());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    assert!(MemoryEnsemble::builder().servers(2).start().is_err());
    assert!(MemoryEnsemble::builder().latency(ONE..ONE).start().is_err());
    assert!(MemoryEnsemble::builder().sync_limit(0).start().is_err());
}

#[tokio::test]
async fn a_server_with_a_port_serves_streams_too() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut server = MemoryServer::start().unwrap();
    let (mut client, stream) = tokio::io::duplex(64);
    tokio::spawn(server.serve(stream));
    client.write_all(b"ruok").await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "imok");
    server.stop().await.unwrap();
    let (mut client, stream) = tokio::io::duplex(64);
    tokio::spawn(server.serve(stream));
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
}
