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
