//! An eye on those whom a line waits for.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;

use super::internals::LockInternals;
use super::line::Rank;
use super::membership::SharedLine;

/// Most hand-overs are faster, and cost nothing here.
const TICK: Duration = Duration::from_secs(1);

/// After how many ticks with the same front there is a look at least.
const SELDOM: u32 = 64;

/// Has those at the front of a line leave it when their nodes are gone, from the first that waits for them on until
/// nobody does. To be told of each newcomer.
///
/// Contenders behind them in the line watch nothing but the line, and would wait for one that is never polled again,
/// although an operator has deleted its node. Polled ones notice by themselves; so there are few looks, in ever longer
/// intervals.
pub(super) fn watch_over(internals: &LockInternals, line: &Arc<SharedLine>, newcomer: Rank) {
    if line.is_to_be_watched(newcomer) {
        // Neither the queue nor the line, which would outlive its contenders.
        let (queue, line, closing) =
            (internals.path().clone(), Arc::downgrade(line), internals.client().closing());
        internals.client().spawn(async move {
            // Once the client is closed, nobody waits.
            let _ = closing.run_until_cancelled(look_now_and_then(&queue, &line)).await;
        });
    }
}

async fn look_now_and_then(queue: &str, line: &Weak<SharedLine>) {
    let (mut front, mut age) = (Vec::new(), 0);
    loop {
        tokio::time::sleep(TICK).await;
        let Some(line) = line.upgrade().filter(|line| !line.session().is_over()) else { return };
        let Some(now) = line.front() else { return };
        age = if now == front { age + 1 } else { 0 };
        front = now;
        if is_look_due(age) {
            let paths: Vec<_> = front.iter().map(|(_, name)| format!("{queue}/{name}")).collect();
            let stats = join_all(paths.iter().map(|path| line.session().stat(path))).await;
            for ((rank, _), stat) in front.iter().zip(stats) {
                // That the servers cannot be reached tells nothing.
                if let Ok(None) = stat {
                    line.leave(*rank);
                }
            }
        }
    }
}

/// Whether to look at a front that has been the same for so many ticks.
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
