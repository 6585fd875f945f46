//! What becomes of a candidate whose work fails in unusual ways.

use super::*;

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
