//! Connections of a session that come and go, on threads of their own.

use crate::prelude::*;
use tokio::runtime::{Builder, Handle};

async fn becomes(client: &Client, wanted: impl Fn(ConnectionState) -> bool) -> ConnectionState {
    let mut state = client.watch_connection();
    within(state.wait_for(|state| wanted(*state))).await.unwrap()
}

// --- What is told ---

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_connected_sees_the_state_that_says_so() {
    let server = empty_server().await;
    for round in 0..200 {
        let client = connect(&server).await;
        assert_eq!(client.watch_connection().get(), ConnectionState::Connected, "round {round}");
        client.close().await;
    }
}

/// Panics at the next change of a connection.
#[derive(Clone, Default)]
struct Bomb(Arc<AtomicBool>);

impl tracing::Subscriber for Bomb {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("zk_recipes::client")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let is_change = event.metadata().target().ends_with("link");
        assert!(!(is_change && self.0.swap(false, SeqCst)), "a subscriber that panics");
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// Whatever may panic there: a subscriber, the runtime, a defect.
#[tokio::test]
async fn a_panic_of_the_task_that_serves_a_client_closes_it() {
    let bomb = Bomb::default();
    let _subscriber = tracing::subscriber::set_default(bomb.clone());
    let (server, proxy, _) = server_with_proxy().await;
    // With a single one, `tracing` asks that of whichever thread is the first to log something whether it wants to hear it.
    let _another = tracing::Dispatch::new(bomb.clone());
    let holding = connect_here(&server).await;
    let here = tokio::runtime::Handle::current();
    let client = Client::builder().runtime(here).connect(&proxy.connect_string()).await.unwrap();
    let held = mutex(&holding).acquire().await.unwrap();
    let waiter = acquire_in_task(&mutex(&client));
    let own = InterProcessMutex::new(&client, "/locks/own").unwrap().acquire().await.unwrap();
    queue_of(&bystander(&server).await, "/locks/a", 2).await;
    bomb.0.store(true, SeqCst);
    proxy.cut();
    assert_eq!(within(waiter).await.unwrap().unwrap_err(), zk_recipes::Error::Closed);
    assert_eq!(within(own.lost()).await, LossReason::Closed);
    becomes(&client, |state| state == ConnectionState::Closed).await;
    assert!(client.is_closed());
    assert_eq!(mutex(&client).acquire().await.unwrap_err(), zk_recipes::Error::Closed);
    held.release().await.unwrap();
}

/// As the servers renegotiate it at each connection.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_shorter_session_timeout_is_heard_of() {
    let builder = Server::builder().session_timeout_bounds(ms(500), secs(30));
    let mut server = builder.start().await.unwrap();
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client =
        Client::builder().session_timeout(ms(15_000)).connect(&proxy.connect_string()).await.unwrap();
    let guard = mutex(&client).acquire().await.unwrap();
    let cfg = server.real().data_dir().parent().unwrap().join("zoo.cfg");
    let text = std::fs::read_to_string(&cfg).unwrap();
    std::fs::write(&cfg, text.replace("maxSessionTimeout=30000", "maxSessionTimeout=2000")).unwrap();
    server.restart().await.unwrap();
    becomes(&client, |state| state == ConnectionState::Reconnected).await;
    sleep(ms(3000)).await;
    assert!(guard.is_valid(), "the same session goes on");
    let rival = Client::builder().session_timeout(ms(2000)).connect(&server.connect_string()).await.unwrap();
    let waiting = acquire_in_task(&mutex(&rival));
    sleep(ms(300)).await;
    proxy.set_traffic(Traffic::black_hole());
    let _rival = within(waiting).await.unwrap().unwrap();
    assert!(!guard.is_valid(), "two holders");
}

// --- How it ends ---

/// A node that stays at the servers when the client has closed would be in the way until the session has expired.
async fn assert_nothing_held(zookeeper: &zk::Client, path: &str) {
    zookeeper.sync("/").await.unwrap();
    assert_eq!(ephemerals_below(zookeeper, path).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_future_that_nobody_polls_does_not_keep_a_session_from_being_closed() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let client = connect(&server).await;
    let lock = mutex(&client);
    lock.acquire().await.unwrap().release().await.unwrap();
    let held = InterProcessMutex::new(&client, "/locks/b").unwrap().acquire().await.unwrap();
    let mut acquiring = Box::pin(lock.acquire());
    // As `select!` does, with something else that is ready.
    assert!((&mut acquiring).now_or_never().is_none());
    client.close().await;
    assert_nothing_held(&zookeeper, "/locks").await;
    assert!(!held.is_valid());
    assert_eq!(acquiring.await.unwrap_err(), zk_recipes::Error::Closed);
}

#[test]
fn no_runtime_that_ends_during_cuts_leaves_anybody_waiting() {
    let outer = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (server, proxy) = outer.block_on(async {
        let (server, proxy, _) = server_with_proxy().await;
        (server, proxy)
    });
    for round in 0..30 {
        let inner = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let lock = |client: &Client| InterProcessMutex::new(client, &format!("/locks/{round}")).unwrap();
        let (client, guard) = inner.block_on(async {
            let builder = Client::builder().runtime(Handle::current());
            let client = builder.connect(&proxy.connect_string()).await.unwrap();
            let guard = lock(&client).acquire().await.unwrap();
            (client, guard)
        });
        let waiting = lock(&client);
        let waiting = outer.spawn(async move { waiting.owned_by(&Owner::new()).acquire().await.map(drop) });
        let mut state = guard.watch_state();
        std::thread::sleep(Duration::from_micros(fastrand::u64(0..30_000)));
        if round % 3 > 0 {
            proxy.cut();
        }
        std::thread::sleep(Duration::from_micros(fastrand::u64(0..10_000)));
        if fastrand::bool() {
            drop(inner);
        } else {
            inner.shutdown_background();
        }
        outer.block_on(async {
            assert_eq!(within(waiting).await.unwrap(), Err(zk_recipes::Error::Closed));
            within(guard.lost()).await;
            assert!(!guard.is_valid());
            let _ = within(guard.release()).await;
            // It is lost, or nobody tells any more.
            let _ = within(state.wait_for(|state| state.is_lost())).await;
            within(client.close()).await;
        });
    }
    outer.block_on(async move { drop((server, proxy)) });
}
