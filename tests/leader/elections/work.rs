//! How the work of a leader ends.

use super::*;

#[tokio::test]
async fn work_is_waited_for_and_then_stopped() {
    let (_server, [client]) = server_with_clients().await;
    let options = LeaderOptions::new().grace(ms(200));
    let (latch, leadership) = leading(&client, options).await;
    let worker = leadership.clone();
    let endless = tokio::spawn(async move { worker.run(std::future::pending::<()>()).await });
    let worker = leadership.clone();
    let polite = tokio::spawn(async move {
        worker
            .run(async {
                worker.resign_requested().await;
                assert!(worker.is_valid());
            })
            .await
    });
    let mut watching = latch.watch_state();
    state(&mut watching, LeaderState::is_leading).await;
    tokio::task::yield_now().await;
    leadership.resign().await.unwrap();
    within(polite).await.unwrap().unwrap();
    assert!(matches!(
        within(endless).await.unwrap(),
        Err(Error::LockLost { reason: LossReason::Resigned, .. })
    ));
    assert!(matches!(leadership.run(async {}).await, Err(Error::LockLost { .. })));
}

// Curator's `LeaderLatch.CloseMode`.
#[tokio::test]
async fn work_that_waits_hears_at_once_that_the_term_is_to_end() {
    let (server, [other]) = server_with_clients().await;
    let ways: [(&str, Way); 6] = [
        ("it resigns", |_, _, term| Box::pin(async move { term.resign().await.unwrap() })),
        ("the latch is closed", |_, latch, _| {
            Box::pin(async move { latch.close(CloseMode::Silent).await.unwrap() })
        }),
        ("the latch is dropped", |_, latch, _| Box::pin(async { drop(latch) })),
        ("the client is closed", |client, _latch, _| Box::pin(async move { client.close().await })),
        ("another one asks", |_, latch, _| {
            Box::pin(async move { drop(latch.transfer().await.unwrap().unwrap()) })
        }),
        ("it is evicted", |client, _latch, _| {
            Box::pin(async move { assert_eq!(operate::force_release(&client, PATH).await.unwrap().len(), 1) })
        }),
    ];
    for (way, end) in ways {
        let client = connect(&server).await;
        // It would wait for the tick as long.
        let options = LeaderOptions::new().grace(secs(3_600));
        let (latch, leadership) = leading(&client, options).await;
        let (began, begun) = oneshot::channel();
        let work = tokio::spawn({
            let leadership = leadership.clone();
            async move {
                let working = async {
                    assert_eq!(leadership.until_resigning(async { 7 }).await, Some(7));
                    began.send(()).unwrap();
                    leadership.until_resigning(std::future::pending::<()>()).await
                };
                leadership.run(working).await
            }
        });
        within(begun).await.unwrap();
        if way == "another one asks" {
            let asking = self::latch(&other, "b");
            standing(&asking, 2).await;
            within(end(client, asking, leadership.clone())).await;
        } else {
            within(end(client, latch.clone(), leadership.clone())).await;
            drop(latch);
        }
        match within(work).await.unwrap() {
            Ok(waited) => assert_eq!(waited, None, "{way}"),
            // Then the work is dropped as well.
            Err(error) => {
                assert!(matches!(error, Error::LockLost { .. }) && way == "it is evicted", "{way}: {error}")
            }
        }
        // Also beside `run`, and later; what is waited for is not begun.
        let later = leadership.until_resigning(async { panic!("{way}") });
        assert_eq!(within(later).await, None::<()>, "{way}");
    }
}

/// How a term ends. It is given the leader's client and latch, or the latch of another one.
type Way = fn(Client, LeaderLatch, Leadership) -> Pin<Box<dyn Future<Output = ()> + Send>>;

#[tokio::test]
async fn nothing_that_was_waited_for_is_lost() {
    const MESSAGES: usize = 100;
    let (_server, [client]) = server_with_clients().await;
    let latch = latch(&client, "a");
    let (tell, mut told) = mpsc::channel(1);
    tokio::spawn(async move {
        for message in 0..MESSAGES {
            tell.send(message).await.unwrap();
        }
    });
    let mut received = Vec::new();
    let mut terms = 0;
    while received.len() < MESSAGES {
        let leadership = within(latch.await_leadership()).await.unwrap();
        terms += 1;
        let resigning = tokio::spawn({
            let leadership = leadership.clone();
            // Sometime within the work.
            async move {
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                leadership.resign().await
            }
        });
        leadership
            .run(async {
                while let Some(message) = leadership.until_resigning(told.recv()).await {
                    let Some(message) = message else { break };
                    received.push(message);
                    // A wait that is given up, and goes on later, loses nothing either.
                    let _ = tokio::time::timeout(
                        Duration::ZERO,
                        leadership.until_resigning(std::future::pending::<()>()),
                    )
                    .await;
                }
            })
            .await
            .unwrap();
        within(resigning).await.unwrap().unwrap();
    }
    assert!(terms > 2, "{terms}");
    assert_eq!(received, (0..MESSAGES).collect::<Vec<_>>());
}

// Curator's selector swallows what its listener throws.
#[tokio::test]
async fn work_that_fails_is_seen_and_done_again() {
    let (_server, [client]) = server_with_clients().await;
    let (selector, mut told) = told_selector(&client, LeaderSelector::start);
    let mut watching = selector.watch_state();
    let fails: fn() -> Outcome = || Err(std::io::Error::other("no paper"));
    let panics: fn() -> Outcome = || panic!("on {}", "fire");
    for (end, expected) in [(fails, "no paper"), (panics, "it panicked: on fire"), (fails, "no paper")] {
        let (leadership, tell) = within(told.recv()).await.unwrap();
        assert!(selector.has_leadership() && leadership.is_valid());
        // Else the last failure may be seen once more.
        state(&mut watching, |state| state.is_leading()).await;
        tell.send(end).unwrap();
        let failed = state(&mut watching, |state| matches!(state, LeaderState::Failed(_))).await;
        let LeaderState::Failed(Error::WorkFailed { path, source }) = failed else { panic!("{failed:?}") };
        assert_eq!((&*path, &*source.to_string()), (leadership.node_path(), expected));
        assert_eq!(source.get_ref().is::<std::io::Error>(), expected == "no paper");
        assert_eq!(leadership.loss(), Some(LossReason::Resigned));
    }
    // Whoever closes it hears of a failure as well.
    let (_, tell) = within(told.recv()).await.unwrap();
    let closing = tokio::spawn({
        let selector = selector.clone();
        async move { selector.close().await }
    });
    state(&mut watching, |state| matches!(state, LeaderState::Resigning(_))).await;
    tell.send(fails).unwrap();
    let error = within(closing).await.unwrap().unwrap_err();
    assert!(zk_recipes::report(&error).to_string().ends_with("failed: no paper"), "{error}");
    assert_eq!(selector.leader().await.unwrap(), None);
}

// A zombie leader of Curator: work that does not end when it is interrupted.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_node_stays_for_as_long_as_the_work_cannot_be_stopped() {
    let (_server, [one, two]) = server_with_clients().await;
    let (begin, mut begun) = mpsc::unbounded_channel();
    let (finish, finished) = std::sync::mpsc::channel::<()>();
    let finished = Arc::new(std::sync::Mutex::new(finished));
    let options = LeaderOptions::new().grace(ms(20));
    let work = move |leadership: Leadership| {
        let (begin, finished) = (begin.clone(), finished.clone());
        async move {
            begin.send(leadership).unwrap();
            // Without an await.
            finished.lock().unwrap().recv().unwrap();
            Ok::<(), Error>(())
        }
    };
    let stubborn = LeaderSelector::start(&one, PATH, options, work).unwrap();
    let leadership = within(begun.recv()).await.unwrap();
    let (next, mut told) = told_selector(&two, LeaderSelector::start);
    eventually("both stand", || async { (next.participants().await.unwrap().len() == 2).then_some(()) })
        .await;
    let closing = tokio::spawn({
        let stubborn = stubborn.clone();
        async move { stubborn.close().await }
    });
    // Its grace is over, for all who do await.
    let beside = leadership.run(std::future::pending::<()>());
    assert!(matches!(within(beside).await, Err(Error::LockLost { .. })));
    tokio::time::sleep(ms(100)).await;
    assert!(leadership.is_valid() && !closing.is_finished());
    assert_eq!(next.leader().await.unwrap().unwrap().fencing_token(), leadership.fencing_token());
    assert!(told.try_recv().is_err());
    finish.send(()).unwrap();
    within(closing).await.unwrap().unwrap();
    within(told.recv()).await.unwrap();
}

/// Keeps a poll going until it is told to end it.
fn stuck(leadership: Leadership, begun: mpsc::UnboundedSender<()>, end: std::sync::mpsc::Receiver<()>) {
    tokio::spawn(async move {
        let work = async move {
            begun.send(()).unwrap();
            tokio::task::block_in_place(|| end.recv().unwrap());
        };
        let _ = leadership.run(work).await;
    });
}

// Curator's `close` of a client waits for no work either.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_that_closes_waits_for_the_work_of_its_leaders() {
    let (_server, [one, two]) = server_with_clients().await;
    let (begin, mut begun) = mpsc::unbounded_channel();
    let (finish, mut finished) = mpsc::unbounded_channel();
    let first = LeaderSelector::start(&one, PATH, LeaderOptions::new(), move |leadership: Leadership| {
        let (begin, finish) = (begin.clone(), finish.clone());
        async move {
            begin.send(()).unwrap();
            leadership.resign_requested().await;
            // It brings its work to an end, by all means.
            leadership.transaction().create("/done", "", CreateMode::Persistent).commit().await?;
            finish.send(()).unwrap();
            Ok::<(), Error>(())
        }
    })
    .unwrap();
    within(begun.recv()).await.unwrap();
    let (next, mut told) = told_selector(&two, LeaderSelector::start);
    eventually("both stand", || async { (next.participants().await.unwrap().len() == 2).then_some(()) })
        .await;
    within(one.close()).await;
    assert!(finished.try_recv().is_ok(), "the work has ended by itself");
    within(told.recv()).await.unwrap();
    assert!(one.is_closed());
    state(&mut first.watch_state(), |state| matches!(state, LeaderState::Closed)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_that_closes_waits_for_a_step_but_not_for_ever() {
    let (server, [two]) = server_with_clients().await;
    for is_endless in [false, true] {
        let adopted = zookeeper_client::Client::connect(&server.connect_string()).await.unwrap();
        let patience = if is_endless { ms(500) } else { BOUND };
        let builder = Client::builder().connection_timeout(patience);
        let one = builder.from_zookeeper(adopted.clone()).unwrap();
        let options = LeaderOptions::new().grace(ms(20));
        let (latch, leadership) = leading(&one, options).await;
        let ((begin, mut begun), (end, ended)) = (mpsc::unbounded_channel(), std::sync::mpsc::channel());
        stuck(leadership.clone(), begin, ended);
        within(begun.recv()).await.unwrap();
        let (next, mut told) = told_selector_of_latches(&two);
        standing(&next, 2).await;
        let closing = tokio::spawn({
            let one = one.clone();
            async move { one.close().await }
        });
        within(leadership.resign_requested()).await;
        if is_endless {
            within(closing).await.unwrap();
            assert_eq!(leadership.loss(), Some(LossReason::Closed));
            // The node stays until the step has ended: the session is somebody else's, and goes on.
            assert!(told.try_recv().is_err());
            end.send(()).unwrap();
        } else {
            assert!(leadership.is_valid() && told.try_recv().is_err());
            end.send(()).unwrap();
            within(closing).await.unwrap();
        }
        // Though the handle on the term is kept.
        within(told.recv()).await.unwrap();
        assert_eq!(within(leadership.lost()).await, LossReason::Closed);
        next.close(CloseMode::Silent).await.unwrap();
        drop(latch);
    }
}

/// A latch, and a word when it is elected.
fn told_selector_of_latches(client: &Client) -> (LeaderLatch, mpsc::UnboundedReceiver<()>) {
    let (tell, told) = mpsc::unbounded_channel();
    let latch = latch(client, "next");
    let electing = latch.clone();
    tokio::spawn(async move {
        if electing.await_leadership().await.is_ok() {
            let _ = tell.send(());
        }
    });
    (latch, told)
}

#[tokio::test]
async fn work_that_nobody_polls_does_not_keep_the_leadership() {
    let (_server, [client]) = server_with_clients().await;
    let options = LeaderOptions::new().grace(ms(20));
    let (_latch, leadership) = leading(&client, options).await;
    let steps = Arc::new(AtomicUsize::new(0));
    let mut idle = Box::pin(leadership.run({
        let steps = steps.clone();
        std::future::poll_fn(move |context| {
            steps.fetch_add(1, SeqCst);
            context.waker().wake_by_ref();
            std::task::Poll::<()>::Pending
        })
    }));
    assert_eq!(poll_times(&mut idle, 1).await, None);
    assert_eq!(steps.load(SeqCst), 1);
    within(leadership.resign()).await.unwrap();
    assert_eq!(leadership.loss(), Some(LossReason::Resigned));
    // It is not polled any more by whoever polls it late.
    assert!(matches!(within(&mut idle).await, Err(Error::LockLost { reason: LossReason::Resigned, .. })));
    assert_eq!(steps.load(SeqCst), 1);
}

#[tokio::test]
async fn work_that_was_stopped_does_not_look_done() {
    let (_server, [client]) = server_with_clients().await;
    let (selector, mut told) = told_selector(&client, LeaderSelector::start_once);
    let mut watching = selector.watch_state();
    let (leadership, _end) = within(told.recv()).await.unwrap();
    operate::force_release(&client, PATH).await.unwrap();
    let is_over = |state: &LeaderState| matches!(state, LeaderState::Idle | LeaderState::Failed(_));
    let stopped = |reason| Error::WorkStopped { path: leadership.node_path().into(), reason };
    let over = state(&mut watching, is_over).await;
    assert!(
        matches!(&over, LeaderState::Failed(error) if *error == stopped(LossReason::Deleted)),
        "{over:?}"
    );
    // Done again, it is done.
    assert!(eventually("it rests", || async { selector.requeue().then_some(true) }).await);
    let (_, end) = within(told.recv()).await.unwrap();
    end.send(|| Ok(())).unwrap();
    state(&mut watching, |state| matches!(state, LeaderState::Idle)).await;
    assert_eq!(selector.close().await, Ok(()));

    let (selector, mut told) = told_selector(&client, LeaderSelector::start_once);
    let (leadership, _end) = within(told.recv()).await.unwrap();
    operate::force_release(&client, PATH).await.unwrap();
    state(&mut selector.watch_state(), is_over).await;
    let reason = LossReason::Deleted;
    assert_eq!(
        selector.close().await,
        Err(Error::WorkStopped { path: leadership.node_path().into(), reason })
    );
}
