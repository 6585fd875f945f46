//! Shared values, and replies that are lost.

use super::*;

#[history]
async fn a_lost_request_is_repeated_and_a_lost_reply_is_told(stage: Stage) {
    let (proxy, _, number) = one(&stage, usual).await;
    let lost = proxy.intercept(Request::SetData, Fate::LoseRequest);
    assert_eq!(within(number.increment()).await, Ok(2));
    within(lost.happened()).await;
    // All that are written together are told; who has written nothing is answered.
    let held = proxy.intercept(Request::SetData, Fate::HoldReply);
    let mut first = Box::pin(number.increment());
    assert!(poll_once(&mut first).is_pending());
    within(held.happened()).await;
    let mut batch = Box::pin(join_all([number.fetch_add(10), number.fetch_add(20)]));
    let mut other = Box::pin(number.compare_exchange(-1, 0));
    assert!(poll_once(&mut batch).is_pending() && poll_once(&mut other).is_pending());
    let lost = proxy.intercept(Request::SetData, Fate::LoseReply);
    held.release();
    assert_eq!(within(first).await, Ok(3));
    for outcome in within(batch).await {
        assert!(matches!(outcome, Err(Error::WriteOutcomeUnknown { .. })), "{outcome:?}");
    }
    within(lost.happened()).await;
    assert_eq!(within(other).await, Ok(Err(33)), "added once");
    assert_eq!(number.increment().await, Ok(34));
}

#[history]
async fn a_create_whose_reply_is_lost_counts_once(stage: Stage) {
    let (proxy, client) = stage.far(usual).await;
    let number = DistributedAtomicLong::new(&client, "/a").unwrap();
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    assert_eq!(within(number.increment()).await, Ok(1));
    within(lost.happened()).await;
    assert_eq!(number.get().await, Ok(1));
    // What is lost is the create of a parent: the node itself was refused before, and is created afterwards.
    for fate in [Fate::LoseRequest, Fate::LoseReply] {
        let number = DistributedAtomicLong::new(&client, &format!("/{fate:?}/a/b")).unwrap();
        let lost = proxy.intercept_after(1, fate);
        assert_eq!(within(number.initialize(7)).await, Ok(true), "{fate:?}");
        within(lost.happened()).await;
        assert_eq!(number.get().await, Ok(7));
    }
    // Somebody takes what was created before the reply is missed.
    let value = DistributedAtomicValue::new(&client, "/value").unwrap();
    let lost = proxy.intercept(Request::Create, Fate::LoseReply);
    proxy.refuse_connections(true);
    let setting = tokio::spawn(async move { value.compare_exchange(None, "ours").await });
    within(lost.happened()).await;
    assert!(stage.servers().delete("/value"), "it was done");
    proxy.refuse_connections(false);
    let outcome = within(setting).await.unwrap();
    assert!(matches!(outcome, Err(Error::WriteOutcomeUnknown { .. })), "{outcome:?}");
    assert_eq!(stage.servers().node("/value"), None, "written twice");
}

#[history]
async fn no_error_is_told_that_is_older_than_the_call(stage: Stage) {
    let (proxy, _, number) = one(&stage, usual).await;
    stage.servers().set_data(PATH, b"seven");
    let held = proxy.intercept(Request::GetData, Fate::HoldReply);
    let mut early = Box::pin(number.increment());
    assert!(poll_once(&mut early).is_pending());
    within(held.happened()).await;
    stage.servers().set_data(PATH, &5_i64.to_be_bytes());
    let mut late = Box::pin(number.increment());
    assert!(poll_once(&mut late).is_pending());
    held.release();
    let (early, late) = within(join(early, late)).await;
    assert!(matches!(early, Err(Error::NotANumber { .. })), "{early:?}");
    assert!(late.is_ok(), "the number was there before the call: {late:?}");
}

async fn shared(stage: &Stage) -> (Proxy, SharedValue) {
    let (proxy, client) = stage.far(usual).await;
    let value = SharedValue::new(&client, PATH, "seed").unwrap();
    value.get().await.unwrap();
    (proxy, value)
}

fn updating(value: &SharedValue) -> JoinHandle<Result<Vec<u8>>> {
    let value = value.clone();
    tokio::spawn(async move { Ok(value.update(|old| [old, b"+"].concat()).await?.into_value()) })
}

#[history]
async fn a_lost_reply_is_never_an_answer(stage: Stage) {
    let (proxy, value) = shared(&stage).await;
    let seen = value.get_versioned().await.unwrap();
    let lost = proxy.intercept(Request::SetData, Fate::LoseRequest);
    let seen = within(value.compare_and_set(&seen, "1")).await.unwrap().unwrap();
    within(lost.happened()).await;
    assert_eq!(value.get_versioned().await.unwrap(), seen);
    // Somebody else may have written the same.
    let lost = proxy.intercept(Request::SetData, Fate::LoseReply);
    let error = within(value.compare_and_set(&seen, "2")).await.unwrap_err();
    within(lost.happened()).await;
    assert!(matches!(&error, Error::WriteOutcomeUnknown { path, .. } if path == PATH), "{error}");
    assert!(!error.is_retryable());
    let lost = proxy.intercept(Request::SetData, Fate::LoseReply);
    let error = within(updating(&value)).await.unwrap().unwrap_err();
    within(lost.happened()).await;
    assert!(matches!(error, Error::WriteOutcomeUnknown { .. }), "{error}");
    let node = stage.servers().node(PATH).unwrap();
    assert_eq!((&*node.data, node.version), (&b"2+"[..], 3), "each was written once");
}

#[history]
async fn an_update_is_tried_again_until_its_time_is_over(stage: Stage) {
    let (proxy, value) = shared(&stage).await;
    let hasty = value.with_timeout(Duration::ZERO);
    // The new node has the same version.
    for (value, is_replaced) in [(&value, true), (&hasty, false), (&value, false)] {
        let held = proxy.intercept(Request::GetData, Fate::HoldReply);
        let updating = updating(value);
        within(held.happened()).await;
        if is_replaced {
            stage.servers().delete(PATH);
            stage.servers().create(PATH, b"theirs", false);
        } else {
            stage.servers().set_data(PATH, b"theirs");
        }
        held.release();
        let updated = within(updating).await.unwrap();
        match &updated {
            Err(Error::NodeReplaced { path, .. }) => assert!(is_replaced && path == PATH),
            Err(Error::Contended { .. }) => assert!(std::ptr::eq(value, &hasty)),
            Ok(value) => assert!(!is_replaced && value == b"theirs+"),
            Err(error) => panic!("{error}"),
        }
        assert_eq!(updated.is_ok(), data(&stage) == b"theirs+");
    }
}

/// What is at the next version shows that ours was not done. After two writes, it does not.
#[history(1, 2)]
async fn another_write_settles_a_lost_one(stage: Stage, writes: usize) {
    let (proxy, value) = shared(&stage).await;
    let seen = value.get_versioned().await.unwrap();
    let lost = proxy.intercept(Request::SetData, Fate::LoseRequest);
    proxy.refuse_connections(true);
    let writing = tokio::spawn(async move { value.compare_and_set(&seen, "ours").await });
    within(lost.happened()).await;
    for _ in 0..writes {
        stage.servers().set_data(PATH, b"theirs");
    }
    proxy.refuse_connections(false);
    let written = within(writing).await.unwrap();
    match &written {
        Ok(Err(current)) => assert!(writes == 1 && current.value() == b"theirs"),
        Err(Error::WriteOutcomeUnknown { .. }) => assert_eq!(writes, 2),
        other => panic!("{other:?}"),
    }
}

// --- Watches ---

async fn becomes(states: &mut Watch<SharedState<Vec<u8>>>, is: impl Fn(&[u8]) -> bool) {
    let _seen =
        within(states.wait_for(|state| state.current().is_some_and(|value| is(value)))).await.unwrap();
}

/// The servers drop a watch without a word when the value changes while it may not be read.
#[history]
async fn what_changes_while_it_may_not_be_read_is_noticed(stage: Stage) {
    let client = stage.client(0).await;
    let owner = stage.connect(1, |builder| builder.auth("digest", "owner:secret")).await;
    let zookeeper = owner.zookeeper().await.unwrap();
    let value = SharedValue::new(&client, PATH, "1").unwrap();
    value.get().await.unwrap();
    let mut states = value.watch_state();
    becomes(&mut states, |_| true).await;
    let private = [zk::Acl::new(zk::Permission::ALL, zk::AuthId::new("auth", ""))];
    zookeeper.set_acl(PATH, &private, None).await.unwrap();
    zookeeper.set_data(PATH, b"2", None).await.unwrap();
    let may_not = |state: &SharedState<_>| {
        matches!(
            state,
            SharedState::Stale {
                last: Some(_),
                error: Some(Error::ZooKeeper { source: zk::Error::NoAuth, .. })
            }
        )
    };
    let _seen = within(states.wait_for(may_not)).await.unwrap().clone();
    zookeeper.set_acl(PATH, &zk::Acls::anyone_all(), None).await.unwrap();
    becomes(&mut states, |value| value == b"2").await;
}

#[history]
async fn a_watch_without_changes_costs_a_read_now_and_then(stage: Stage) {
    let (proxy, client) = stage.far(usual).await;
    let value = SharedValue::new(&client, PATH, "seed").unwrap();
    value.get().await.unwrap();
    let mut states = value.watch_state();
    becomes(&mut states, |_| true).await;
    proxy.take_requests();
    sleep(6 * SESSION).await;
    let requests = proxy.take_requests();
    assert!(requests.iter().all(|request| *request == Request::GetData), "{requests:?}");
    assert!((2..20).contains(&requests.len()), "{requests:?}");
}

/// Also for a client that waits for a connection for longer.
#[history]
async fn a_value_is_stale_as_soon_as_there_is_no_connection(stage: Stage) {
    let (proxy, client) = stage.far(|builder| usual(builder).connection_timeout(6 * SESSION)).await;
    let value = SharedValue::new(&client, PATH, "seed").unwrap();
    value.get().await.unwrap();
    let mut states = value.watch_state();
    for _ in 0..10 {
        becomes(&mut states, |_| true).await;
        proxy.cut_off();
        let stale = states.wait_for(|state| matches!(state, SharedState::Stale { last: Some(_), .. }));
        let is_stale = timeout(A_MOMENT, stale).await.is_ok();
        assert!(is_stale, "{:?} is shown without a connection", states.get());
        proxy.refuse_connections(false);
    }
}

/// Someone deletes the node again and again, then writes to it, and deletes it again.
#[history]
async fn an_update_keeps_its_time_whatever_others_do(stage: Stage) {
    const TIME: Duration = secs(1);
    const DELETES: Duration = ms(650);
    let (proxy, client) = stage.far(usual).await;
    let value = SharedValue::new(&client, PATH, "seed").unwrap().with_timeout(TIME);
    value.get().await.unwrap();
    proxy.set_traffic(Traffic::pass().delay(ms(5)));
    let (start, servers) = (Instant::now(), stage.servers().clone());
    let rival = spawn_local(async move {
        loop {
            match start.elapsed() {
                time if time < DELETES || time > DELETES + ms(150) => drop(servers.delete(PATH)),
                _ => drop(servers.set_data(PATH, b"theirs")),
            }
            sleep(ms(1)).await;
        }
    });
    let ended = within(value.update(|old| [old, b"+"].concat())).await;
    let took = start.elapsed();
    rival.abort();
    proxy.set_traffic(Traffic::pass());
    assert!(took < TIME + ms(100), "{ended:?} after {took:?}, with a limit of {TIME:?}");
}
