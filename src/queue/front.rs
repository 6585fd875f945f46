//! A task that watches over the contenders at the front of a local queue.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;

use super::internals::LockInternals;
use super::pure::local_queue::Rank;
use super::shared_local_queue::SharedLocalQueue;

/// The interval between ticks. Most hand-overs are faster, and cost nothing here.
const TICK: Duration = Duration::from_secs(1);

/// The maximum number of ticks between looks at an unchanged front.
const SELDOM: u32 = 64;

/// Removes contenders at the front of a local queue when their nodes are gone. Call this for each newcomer: it
/// starts a task with the first waiter, which ends when no one waits.
///
/// Contenders behind the front watch nothing but the local queue. Without this task they would wait for a contender
/// that is never polled again even after an operator has deleted its node. Contenders that are polled notice that
/// by themselves; so there are few looks, at increasing intervals.
pub(super) fn watch_over(internals: &LockInternals, local: &Arc<SharedLocalQueue>, newcomer: Rank) {
    if local.is_to_be_watched(newcomer) {
        // Neither the queue nor the local queue, which would outlive its contenders.
        let (queue, local, closing) =
            (internals.path().clone(), Arc::downgrade(local), internals.client().closing());
        internals.client().spawn(async move {
            // Once the client is closed, no one waits.
            let _ = closing.run_until_cancelled(look_now_and_then(&queue, &local)).await;
        });
    }
}

async fn look_now_and_then(queue: &str, local: &Weak<SharedLocalQueue>) {
    let (mut front, mut age) = (Vec::new(), 0);
    loop {
        tokio::time::sleep(TICK).await;
        let Some(local) = local.upgrade().filter(|local| !local.session().is_over()) else { return };
        let Some(now) = local.front() else { return };
        age = if now == front { age + 1 } else { 0 };
        front = now;
        if is_look_due(age) {
            // Those behind one that is gone may be gone as well. Each is looked at once.
            let mut unseen = front.clone();
            while remove_gone(queue, &local, &unseen).await {
                let Some(now) = local.front() else { return };
                unseen =
                    now.iter().filter(|contender| front.binary_search(contender).is_err()).cloned().collect();
                (front, age) = (now, 0);
            }
        }
    }
}

/// Removes those whose nodes are gone. Returns whether there were any.
async fn remove_gone(queue: &str, local: &SharedLocalQueue, front: &[(Rank, String)]) -> bool {
    // Not by watches: of a node that the client may not read, the servers tell nothing.
    let paths: Vec<_> = front.iter().map(|(_, name)| format!("{queue}/{name}")).collect();
    let stats = join_all(paths.iter().map(|path| local.session().stat(path))).await;
    // An error only means that the servers cannot be reached.
    let gone: Vec<_> = front.iter().zip(stats).filter(|(_, stat)| matches!(stat, Ok(None))).collect();
    gone.iter().for_each(|((rank, _), _)| local.leave(*rank));
    !gone.is_empty()
}

/// Whether a look is due at a front that has not changed for `age` ticks.
fn is_look_due(age: u32) -> bool {
    age.is_multiple_of(SELDOM) && age > 0 || age < SELDOM && age.is_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_soon_and_then_ever_more_seldom() {
        let looks: Vec<u32> = (0..200).filter(|age| is_look_due(*age)).collect();
        assert_eq!(looks, [1, 2, 4, 8, 16, 32, 64, 128, 192]);
    }
}
