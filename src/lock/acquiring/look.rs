//! Who is first in the queue of a lock, as the warnings of its waiters say.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::client::{ByPath, Client};
use crate::error::Result;
use crate::lock::deadline::{from_now, until};
use crate::lock::operating::participant::Participant;

/// How long a warning waits to learn who is first, and for how long the answer serves other warnings.
pub(super) const ASKING: Duration = Duration::from_secs(1);

/// Who is first; `None` if no server has said so in time.
type Seen = Option<Result<Option<Participant>>>;

/// What the warnings about one lock share. Waiters that have come together would otherwise list the whole queue each,
/// all at once.
#[derive(Debug)]
pub(super) struct Look {
    lock: Arc<str>,
    /// What was seen last, and when. Locked by the caller that asks.
    seen: tokio::sync::Mutex<Option<(Instant, Seen)>>,
    looks: Arc<Looks>,
}

/// The looks of one client, by the paths of the lock.
type Looks = ByPath<&'static str, Look>;

impl Look {
    /// Returns what the warnings about this lock share.
    pub(super) fn at(client: &Client, recipe: &'static str, lock: &Arc<str>) -> Arc<Self> {
        let looks: Arc<Looks> = client.extension();
        let look = || Self { lock: lock.clone(), seen: Default::default(), looks: looks.clone() };
        looks.share(lock, recipe, look)
    }

    /// Returns who is first, by what another warning has just learnt or by asking. A silent server does not keep this
    /// back.
    ///
    /// # Cancel safety
    /// If cancelled, another warning asks.
    pub(super) async fn seen(&self, ask: impl Future<Output = Result<Option<Participant>>>) -> Seen {
        let ask = pin!(ask);
        // The caller that asks may not be polled any more.
        let Some(mut seen) = until(from_now(2 * ASKING), pin!(self.seen.lock())).await else {
            return until(from_now(ASKING), ask).await;
        };
        if let Some((at, seen)) = &*seen
            && at.elapsed() < ASKING
        {
            return seen.clone();
        }
        let answer = until(from_now(ASKING), ask).await;
        *seen = Some((Instant::now(), answer.clone()));
        answer
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        self.looks.forget(&self.lock);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use futures_util::FutureExt;
    use futures_util::future::{join, join_all};
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn warnings_that_come_together_ask_once() {
        let client = Client::connect_lazily("127.0.0.1:1").unwrap();
        let asked = AtomicUsize::new(0);
        let seen = async || {
            let ask = async {
                asked.fetch_add(1, SeqCst);
                tokio::task::yield_now().await;
                Ok(None)
            };
            Look::at(&client, "recipe", &"a lock".into()).seen(ask).await
        };
        let kept = Look::at(&client, "recipe", &"a lock".into());
        assert_eq!(join_all((0..100).map(|_| seen())).await, vec![Some(Ok(None)); 100]);
        assert_eq!(asked.load(SeqCst), 1);
        advance(ASKING / 2).await;
        seen().await;
        assert_eq!(asked.load(SeqCst), 1);
        advance(ASKING).await;
        seen().await;
        assert_eq!(asked.load(SeqCst), 2);
        drop(kept);
        seen().await;
        assert_eq!(asked.load(SeqCst), 3);
        let looks: Arc<Looks> = client.extension();
        assert_eq!(looks.paths(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn neither_a_silent_server_nor_one_who_gives_up_keeps_a_warning_back() {
        let client = Client::connect_lazily("127.0.0.1:1").unwrap();
        let look = Look::at(&client, "recipe", &"a lock".into());
        let start = Instant::now();
        // A caller that comes while another asks hears the same.
        assert_eq!(join(look.seen(pending()), look.seen(ready(Ok(None)))).await, (None, None));
        assert_eq!(start.elapsed(), ASKING);
        advance(ASKING).await;
        assert!(look.seen(pending()).now_or_never().is_none());
        assert_eq!(look.seen(ready(Ok(None))).await, Some(Ok(None)));
        advance(ASKING).await;
        let mut unpolled = Box::pin(look.seen(pending()));
        assert!(unpolled.as_mut().now_or_never().is_none());
        assert_eq!(look.seen(ready(Ok(None))).await, Some(Ok(None)));
    }
}
