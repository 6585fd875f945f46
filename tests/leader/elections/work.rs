//! How the work of a leader ends.

use super::*;

// Curator's `LeaderLatch.CloseMode`.
#[tokio::test]
async fn work_that_waits_hears_at_once_that_the_term_is_to_end() {
    let (server, [other]) = server_and_clients().await;
    for way in ["it resigns", "latch closed", "latch dropped", "client closed", "another one asks", "evicted"]
    {
        let client = connect(&server).await;
        // It would wait for the tick as long.
        let (latch, leadership) = leading(&client, LeaderOptions::new().grace(secs(3_600))).await;
        let (began, has_begun) = oneshot::channel();
        let term = leadership.clone();
        let work = tokio::spawn(async move {
            let working = async {
                assert_eq!(term.until_resigning(async { 7 }).await, Some(7));
                began.send(()).unwrap();
                term.until_resigning(std::future::pending::<()>()).await
            };
            term.run(working).await
        });
        within(has_begun).await.unwrap();
        within(async {
            match way {
                "it resigns" => leadership.resign().await.unwrap(),
                "latch closed" => latch.close(CloseMode::Silent).await.unwrap(),
                "latch dropped" => drop(latch),
                "client closed" => client.close().await,
                "another one asks" => {
                    let asking = self::latch(&other, "b");
                    standing(&asking, 2).await;
                    drop(asking.transfer().await.unwrap().unwrap());
                }
                _ => assert_eq!(operate::force_release(&client, PATH).await.unwrap().len(), 1),
            }
        })
        .await;
        match within(work).await.unwrap() {
            Ok(waited) => assert_eq!(waited, None, "{way}"),
            // Then the work is dropped as well.
            Err(error) => {
                assert!(matches!(error, Error::LockLost { .. }) && way == "evicted", "{way}: {error}")
            }
        }
        // Also beside `run`, and later; what is waited for is not begun.
        let later = leadership.until_resigning(async { panic!("{way}") });
        assert_eq!(within(later).await, None::<()>, "{way}");
    }
}

// Curator's selector swallows what its listener throws.
#[tokio::test]
async fn work_that_fails_is_seen_and_done_again() {
    let (_server, [client]) = server_and_clients().await;
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
    let (_server, [one, two]) = server_and_clients().await;
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
    both_stand(&next).await;
    let closing = tokio::spawn(async move { stubborn.close().await });
    // Its grace is over, for all who do await.
    let beside = leadership.run(std::future::pending::<()>());
    assert!(matches!(within(beside).await, Err(Error::LockLost { .. })));
    sleep(ms(100)).await;
    assert!(leadership.is_valid() && !closing.is_finished());
    assert_eq!(next.leader().await.unwrap().unwrap().fencing_token(), leadership.fencing_token());
    assert!(told.try_recv().is_err());
    finish.send(()).unwrap();
    within(closing).await.unwrap().unwrap();
    within(told.recv()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_that_closes_waits_for_a_step_but_not_for_ever() {
    let (server, [two]) = server_and_clients().await;
    for is_endless in [false, true] {
        let adopted = bystander_of(&server.connect_string()).await;
        let patience = if is_endless { ms(500) } else { BOUND };
        let one = Client::builder().connection_timeout(patience).from_zookeeper(adopted.clone()).unwrap();
        let (_latch, leadership) = leading(&one, LeaderOptions::new().grace(ms(20))).await;
        let ((begin, mut begun), (end, ended)) = (mpsc::unbounded_channel(), std::sync::mpsc::channel());
        let worker = leadership.clone();
        // It keeps a poll going until it is told to end it.
        let step = async move {
            begin.send(()).unwrap();
            tokio::task::block_in_place(|| ended.recv().unwrap());
        };
        tokio::spawn(async move { worker.run(step).await });
        within(begun.recv()).await.unwrap();
        let next = latch(&two, "next");
        standing(&next, 2).await;
        let closer = one.clone();
        let closing = tokio::spawn(async move { closer.close().await });
        within(leadership.resign_requested()).await;
        if is_endless {
            within(closing).await.unwrap();
            assert_eq!(leadership.loss(), Some(LossReason::Closed));
            // The node stays until the step has ended: the session is somebody else's, and goes on.
            assert!(!next.has_leadership());
            end.send(()).unwrap();
        } else {
            assert!(leadership.is_valid() && !next.has_leadership());
            end.send(()).unwrap();
            within(closing).await.unwrap();
        }
        // Though the handle on the term is kept.
        within(next.await_leadership()).await.unwrap();
        assert_eq!(within(leadership.lost()).await, LossReason::Closed);
        next.close(CloseMode::Silent).await.unwrap();
    }
}

#[tokio::test]
async fn work_that_was_stopped_does_not_look_done() {
    let (_server, [client]) = server_and_clients().await;
    for is_done_again in [true, false] {
        let (selector, mut told) = told_selector(&client, LeaderSelector::start_once);
        let mut watching = selector.watch_state();
        let (leadership, _end) = within(told.recv()).await.unwrap();
        operate::force_release(&client, PATH).await.unwrap();
        let is_over = |state: &LeaderState| matches!(state, LeaderState::Idle | LeaderState::Failed(_));
        let path = leadership.node_path().into();
        let stopped = Error::WorkStopped { path, reason: LossReason::Deleted };
        let over = state(&mut watching, is_over).await;
        assert!(matches!(&over, LeaderState::Failed(error) if *error == stopped), "{over:?}");
        if is_done_again {
            until("it rests", || selector.requeue()).await;
            let (_, end) = within(told.recv()).await.unwrap();
            end.send(|| Ok(())).unwrap();
            state(&mut watching, |state| matches!(state, LeaderState::Idle)).await;
        }
        assert_eq!(selector.close().await, if is_done_again { Ok(()) } else { Err(stopped) });
    }
}

async fn both_stand(selector: &LeaderSelector) {
    let count = async || selector.participants().await.unwrap().len();
    eventually("both stand", async || (count().await == 2).then_some(())).await;
}
