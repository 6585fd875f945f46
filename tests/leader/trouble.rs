//! Elections in trouble: wiped servers, closed clients, and work that fails in unusual ways.

use super::*;

fn latch(client: &Client) -> LeaderLatch {
    LeaderLatch::start(client, PATH, LeaderOptions::new()).unwrap()
}

// CURATOR-724: after the path is gone, Curator's latch before 5.8 never leads again.
#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_wiped_server_has_a_leader_again() {
    let mut server = empty_server().await;
    let builder = Client::builder().session_timeout(secs(3));
    let clients = [
        builder.clone().connect(&server.connect_string()).await.unwrap(),
        builder.connect(&server.connect_string()).await.unwrap(),
    ];
    let (first, leadership) = leading(&clients[0], LeaderOptions::new()).await;
    let second = latch(&clients[1]);
    let mut seen = LeaderObserver::new(&clients[1], PATH).unwrap().watch_leader();
    within(seen.wait_for(|seen| matches!(seen, Observation::Leader(_)))).await.unwrap();
    queue_of(&bystander(&server).await, PATH, 2).await;

    server.kill().await.unwrap();
    let data = server.real().data_dir().join("version-2");
    std::fs::remove_dir_all(&data).unwrap();
    server.restart().await.unwrap();

    assert_eq!(within(leadership.lost()).await, LossReason::Expired);
    let zookeeper = bystander(&server).await;
    queue_of(&zookeeper, PATH, 2).await;
    let is_leading = || [&first, &second].map(LeaderLatch::has_leadership);
    until("one leads", || is_leading() != [false; 2]).await;
    assert_ne!(is_leading(), [true; 2]);
    let token = first.leader().await.unwrap().unwrap().fencing_token();
    let is_seen = |seen: &Observation| matches!(seen, Observation::Leader(it) if it.fencing_token() == token);
    within(seen.wait_for(is_seen)).await.unwrap();
    for latch in [&first, &second] {
        within(latch.close(CloseMode::Silent)).await.unwrap();
    }
    queue_of(&zookeeper, PATH, 0).await;
}

#[tokio::test]
async fn a_closed_client_ends_all() {
    let (server, [one, two]) = server_and_clients().await;
    let (leading, leadership) = leading(&one, LeaderOptions::new()).await;
    let waiting = latch(&two);
    let awaiting = tokio::spawn({
        let waiting = waiting.clone();
        async move { waiting.await_leadership().await }
    });
    let mut seen = LeaderObserver::new(&two, PATH).unwrap().watch_leader();
    queue_of(&bystander(&server).await, PATH, 2).await;
    two.close().await;
    assert_eq!(within(awaiting).await.unwrap().unwrap_err(), Error::Closed);
    within(async { while seen.changed().await.is_some() {} }).await;
    one.close().await;
    assert_eq!(within(leadership.lost()).await, LossReason::Closed);
    assert!(!leading.has_leadership());
    assert_eq!(within(leadership.resign()).await, Err(Error::Closed));
    for latch in [leading, waiting] {
        let mut state = latch.watch_state();
        within(async { while state.changed().await.is_some() {} }).await;
        assert!(matches!(state.get(), LeaderState::Closed));
        let _ = within(latch.close(CloseMode::Silent)).await;
    }
}

/// What a panic throws may panic as well when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("the payload");
        }
    }
}

#[tokio::test]
async fn a_panic_within_a_panic_ends_no_selector() {
    let (_server, [client]) = server_and_clients().await;
    let terms = Arc::new(AtomicUsize::new(0));
    let counted = terms.clone();
    let _selector = LeaderSelector::start(&client, PATH, LeaderOptions::new(), move |_| {
        counted.fetch_add(1, SeqCst);
        async {
            if true {
                std::panic::panic_any(Bomb);
            }
            Ok::<(), Error>(())
        }
    })
    .unwrap();
    until("it leads again", || terms.load(SeqCst) > 1).await;
}

/// A term that is lost while it is being resigned, and whose work cannot be stopped.
#[tokio::test]
async fn since_when_a_leader_that_was_to_resign_does_not_lead() {
    let (_server, [client, near]) = server_and_clients().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let (over, busy) = (is_over.clone(), Arc::new(AtomicBool::new(false)));
    let begun = busy.clone();
    let worker = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let selector = {
        let _inside = worker.enter();
        let options = LeaderOptions::new().grace(ms(50));
        LeaderSelector::start(&client, PATH, options, move |_| {
            let (over, begun) = (over.clone(), begun.clone());
            async move {
                begun.store(true, SeqCst);
                while !over.load(SeqCst) {
                    std::thread::sleep(ms(10));
                }
                Ok::<(), Error>(())
            }
        })
        .unwrap()
    };
    eventually("it works", || async { busy.load(SeqCst).then_some(()) }).await;
    selector.interrupt_leadership();
    let role_is = async |role| {
        until(&format!("{role:?}"), || selector.health().role == role).await;
    };
    role_is(LeaderRole::Resigning).await;
    operate::force_release(&near, PATH).await.unwrap();
    role_is(LeaderRole::Candidate).await;
    // The candidate itself may notice a moment later.
    tokio::time::sleep(ms(300)).await;
    let since = selector.health().since;
    tokio::time::sleep(ms(300)).await;
    let health = selector.health();
    is_over.store(true, SeqCst);
    assert_eq!((health.role, health.since), (LeaderRole::Candidate, since));
    worker.shutdown_background();
}
