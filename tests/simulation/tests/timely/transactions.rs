//! Transactions of holders that go.

use super::prelude::*;

/// How a holder goes whose transaction is on its way.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Goes {
    InTime,
    Released,
    Dropped,
}

/// Nothing that was sent by the one before may be done under the next one.
#[history]
async fn what_a_holder_has_sent_is_done_before_the_next_one_holds(stage: Stage) {
    stage.servers().create("/data", b"", false);
    let (proxy, client) = stage.far(session).await;
    let lock = mutex(&client);
    for (goes, is_cancelled) in
        [(Goes::InTime, false), (Goes::InTime, true), (Goes::Released, true), (Goes::Dropped, true)]
    {
        let case = format!("{goes:?}, cancelled: {is_cancelled}");
        let max_hold = if goes == Goes::InTime { secs(2) } else { BOUND };
        let brief = lock.with_options(LockOptions::new().max_hold(max_hold)).unwrap();
        let guard = brief.owned_by(&Owner::new()).acquire().await.unwrap();
        let next = waiter(&lock).await;
        // Both ways are slow, so that the loss falls between the sending and the answer.
        if goes == Goes::InTime {
            sleep(guard.remaining_hold().unwrap() - ms(150)).await;
        }
        proxy.set_traffic(Traffic::pass().delay(ms(300)));
        let mut write = Box::pin(guard.transaction().set_data("/data", case.clone(), None).commit());
        assert!(write.as_mut().now_or_never().is_none());
        let done = if is_cancelled {
            drop(write);
            match goes {
                Goes::InTime => assert_eq!(within(guard.lost()).await, LossReason::Deadline),
                Goes::Released => guard.release().await.unwrap(),
                Goes::Dropped => drop(guard),
            }
            None
        } else {
            let done = within(write).await;
            assert_eq!(guard.loss(), Some(LossReason::Deadline), "{case}");
            Some(done)
        };
        let next = granted(next).await;
        let data = stage.servers().node("/data").unwrap().data;
        assert_eq!(String::from_utf8_lossy(&data), case, "done before the next one holds");
        assert!(done.is_none_or(|done| done.is_ok()), "{case}");
        proxy.set_traffic(Traffic::pass());
        next.release().await.unwrap();
    }
    nothing_is_left(stage.servers()).await;
}

/// A write by a holder.
async fn write(guard: &LockGuard, path: &str) -> Result<()> {
    within(guard.transaction().create(path, b"", zk::CreateMode::Persistent).commit()).await.map(drop)
}

#[history((Fate::LoseReply, true), (Fate::LoseRequest, false))]
async fn when_no_answer_comes_it_was_done_or_not(stage: Stage, fate: Fate, is_done: bool) {
    let (proxy, client) = stage.far(session).await;
    let guard = mutex(&client).acquire().await.unwrap();
    let lost = proxy.intercept(Request::Multi, fate);
    let error = write(&guard, "/one").await.unwrap_err();
    assert!(matches!(&error, Error::OutcomeUnknown { path, .. } if path == guard.node_path()), "{error}");
    assert!(!error.is_retryable(), "it might be done twice");
    within(lost.happened()).await;
    assert_eq!(stage.servers().node("/one").is_some(), is_done);
    // The lock itself is not in question.
    assert_eq!(guard.loss(), None);
    write(&guard, "/next").await.unwrap();
    guard.release().await.unwrap();
}

#[history]
async fn nothing_is_sent_when_the_lock_is_known_to_be_lost(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let is_refused = async |guard: &LockGuard| {
        proxy.take_requests();
        let error = write(guard, "/late").await.unwrap_err();
        assert!(!proxy.take_requests().contains(&Request::Multi));
        error
    };
    for kind in KINDS {
        let guard = kind.limited(&client, SOON).acquire().await.unwrap();
        // Over at this moment, whatever runs or does not.
        assert!(poll_once(&mut Box::pin(tokio::time::advance(SOON))).is_pending());
        assert_lost(&is_refused(&guard).await, LossReason::Deadline);
    }
    let guards = join_all(KINDS.map(async |kind| kind.unlimited(&client).acquire().await.unwrap())).await;
    client.close().await;
    for guard in guards {
        assert_eq!(is_refused(&guard).await, Error::Closed);
    }
}

#[history]
async fn closing_leaves_it_open_whether_it_was_done(stage: Stage) {
    let (proxy, client) = stage.far(session).await;
    let guard = mutex(&client).acquire().await.unwrap();
    let held = proxy.intercept(Request::Multi, Fate::HoldReply);
    let closing = async {
        within(held.happened()).await;
        // The end of the session waits for the reply.
        assert!(timeout(A_MOMENT, client.close()).await.is_err());
    };
    let (outcome, ()) = join(write(&guard, "/done"), closing).await;
    let unknown =
        Error::OutcomeUnknown { path: guard.node_path().to_owned(), source: zk::Error::ClientClosed };
    assert_eq!(outcome, Err(unknown));
    assert!(stage.servers().node("/done").is_some());
    held.release();
    within(client.close()).await;
}

/// Whatever its process believes: nothing is written by a former holder.
#[history]
async fn a_transaction_finds_out_that_the_node_was_deleted(stage: Stage) {
    let [holding, other] = stage.clients().await;
    for kind in KINDS {
        let guard = kind.unlimited(&holding).acquire().await.unwrap();
        assert!(stage.servers().delete(kind.node(&guard)));
        let next = within(kind.rival(&other).acquire()).await.unwrap();
        assert_lost(&write(&guard, "/written").await.unwrap_err(), LossReason::Deleted);
        assert_eq!(stage.servers().node("/written"), None, "{kind:?}");
        assert_eq!(guard.loss(), Some(LossReason::Deleted), "{kind:?}");
        assert_eq!(next.transaction().commit().await.map(|results| results.len()), Ok(0));
        drop(guard);
        next.release().await.unwrap();
    }
}
