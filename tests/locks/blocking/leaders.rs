//! The twins of elections.

use super::*;

#[test]
fn latches_lead_one_after_the_other() {
    let (_, client) = sandbox_with_client();
    let options = LeaderOptions::new().grace(Duration::ZERO);
    let start = |id| LeaderLatch::start(&client, "/leader", options.clone().id(id)).unwrap();
    let first = start("first");
    let leadership = first.await_leadership().unwrap();
    let second = start("second");
    assert!(second.await_leadership_within(BRIEFLY).unwrap().is_none());
    while second.participants().unwrap().len() < 2 {}
    let mut seen = LeaderObserver::new(&client, "/leader").unwrap().watch_leader();
    while !matches!(seen.blocking_changed().unwrap(), Some(Observation::Leader(leader)) if leader.id() == "first")
    {
    }
    // A resignation waits for the work, since that cannot be dropped at the end of the grace: also for longer than the
    // second that work has to be dropped.
    let (begins, begun) = mpsc::channel();
    thread::scope(|scope| {
        let work = scope.spawn(|| {
            leadership.run(|| {
                begins.send(()).unwrap();
                leadership.resign_requested().unwrap();
                assert_eq!(leadership.lost_within(ms(1500)).unwrap(), None);
                assert!(leadership.is_valid() && !second.has_leadership());
                leadership.fencing_token()
            })
        });
        begun.recv().unwrap();
        leadership.resign().unwrap();
        assert_eq!(work.join().unwrap().unwrap(), leadership.fencing_token());
    });
    assert_eq!(leadership.loss(), Some(LossReason::Resigned));
    assert!(leadership.run(|| ()).is_err());
    let next = second.await_leadership().unwrap();
    assert!(next.fencing_token() > leadership.fencing_token());
    while !matches!(seen.blocking_changed().unwrap(), Some(Observation::Leader(leader)) if leader.id() == "second")
    {
    }
    second.close(CloseMode::Silent).unwrap();
    assert!(matches!(second.await_leadership(), Err(Error::CandidateClosed { .. })));
    first.close(CloseMode::Silent).unwrap();
}

#[test]
fn a_selector_calls_its_work_on_a_thread_until_it_is_asked_to_end() {
    let (_, client) = sandbox_with_client();
    let (works, working) = mpsc::channel();
    let at_work = lock(&client);
    let selector = LeaderSelector::start(&client, "/leader", LeaderOptions::new(), move |leadership| {
        // It may block.
        assert!(Handle::try_current().is_err());
        let guard = at_work.acquire()?;
        works.send(leadership.fencing_token()).unwrap();
        while !leadership.resign_requested_within(BRIEFLY)? {}
        guard.release()
    })
    .unwrap();
    let first = working.recv().unwrap();
    assert!(selector.has_leadership());
    selector.interrupt_leadership();
    assert!(working.recv().unwrap() > first);
    selector.close().unwrap();
    assert!(working.try_recv().is_err());
    assert!(!lock(&client).is_locked().unwrap());
    let mut states = selector.watch_state();
    while !matches!(states.get(), LeaderState::Closed) {
        states.blocking_changed().unwrap().expect("it has not ended in this state");
    }
}

#[test]
fn what_becomes_of_work_on_a_thread_is_seen() {
    let (_, client) = sandbox_with_client();
    let mut calls = 0;
    let selector = LeaderSelector::start_once(&client, "/leader", LeaderOptions::new(), move |_| {
        calls += 1;
        match calls {
            1 => Ok(()),
            2 => Err("as it is to be"),
            _ => panic!("as it is to be"),
        }
    })
    .unwrap();
    let mut states = selector.watch_state();
    while !matches!(states.blocking_changed().unwrap().unwrap(), LeaderState::Idle) {}
    for said in ["as it is to be", "it panicked: as it is to be"] {
        assert!(selector.requeue());
        loop {
            if let LeaderState::Failed(error) = states.blocking_changed().unwrap().unwrap() {
                let Error::WorkFailed { source, .. } = error else { panic!("{error}") };
                assert_eq!(source.to_string(), said);
                break;
            }
        }
    }
    assert!(matches!(selector.close(), Err(Error::WorkFailed { .. })));
}

/// Its thread goes on, but nothing begins beside it.
#[test]
fn work_that_goes_on_after_a_loss_is_not_begun_again_beside_itself() {
    let (_, client) = sandbox_with_client();
    let (works, working) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let selector = LeaderSelector::start(&client, "/leader", LeaderOptions::new(), move |leadership| {
        works.send(leadership).unwrap();
        let _ = may_go_on.recv();
        Ok::<(), Error>(())
    })
    .unwrap();
    let leadership = working.recv().unwrap();
    caller().block_on(kill_session(client.as_async())).unwrap();
    leadership.lost().unwrap();
    let other = LeaderLatch::start(&client, "/leader-of-others", LeaderOptions::new()).unwrap();
    other.await_leadership().unwrap();
    assert!(working.recv_timeout(ms(300)).is_err());
    assert!(selector.participants().unwrap().is_empty());
    go_on.send(()).unwrap();
    assert!(working.recv().unwrap().is_valid());
    drop(go_on);
    selector.close().unwrap();
}
