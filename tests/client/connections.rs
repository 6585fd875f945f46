//! Connections of a session that come and go, on threads of their own.

use crate::prelude::*;

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
