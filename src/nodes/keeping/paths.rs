//! The paths at which one client keeps nodes. Nodes of one session cannot be told apart, so each path has one keeper.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::error::{Error, Result};

#[derive(Debug, Default)]
pub(super) struct KeptPaths(Mutex<HashMap<Arc<str>, Kept>>);

#[derive(Debug)]
struct Kept {
    /// Of the latest keeper.
    closing: CancellationToken,
    /// One permit, for the keeper at work.
    turn: Arc<Semaphore>,
    claims: usize,
}

/// The right to keep a node at a path, after those whose keeping ends.
#[derive(Debug)]
pub(super) struct Claim {
    paths: Arc<KeptPaths>,
    path: Arc<str>,
    turn: Arc<Semaphore>,
}

impl Claim {
    /// Claims a path for a keeper that ends when `closing` is cancelled.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if another keeper has it that is not to end.
    pub(super) fn new(client: &Client, path: &Arc<str>, closing: &CancellationToken) -> Result<Self> {
        let paths = client.extension::<KeptPaths>();
        let turn = {
            let mut kept = paths.0.lock();
            let kept = match kept.entry(path.clone()) {
                Entry::Vacant(free) => {
                    let turn = Arc::new(Semaphore::new(1));
                    free.insert(Kept { closing: closing.clone(), turn, claims: 0 })
                }
                Entry::Occupied(taken) => taken.into_mut(),
            };
            if kept.claims > 0 && !kept.closing.is_cancelled() {
                return Err(Error::InvalidArgument {
                    argument: "path",
                    reason: format!(
                        "this client keeps a node at {path} already; close that one first, or use another path"
                    ),
                });
            }
            kept.closing = closing.clone();
            kept.claims += 1;
            kept.turn.clone()
        };
        Ok(Self { paths, path: path.clone(), turn })
    }

    /// Waits until those before have ended.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        self.turn.clone().acquire_owned().await.ok()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut kept = self.paths.0.lock();
        if let Entry::Occupied(mut kept) = kept.entry(self.path.clone()) {
            kept.get_mut().claims -= 1;
            if kept.get().claims == 0 {
                kept.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_path_has_one_keeper_at_a_time() {
        let client = Client::connect_lazily("127.0.0.1:1").unwrap();
        let claim = |closing: &CancellationToken| Claim::new(&client, &"/a".into(), closing);
        let [first, second, third] = [(); 3].map(|()| CancellationToken::new());
        let one = claim(&first).unwrap();
        let at_work = one.turn().now_or_never().expect("it is free");
        assert!(matches!(claim(&second), Err(Error::InvalidArgument { .. })));
        first.cancel();
        let two = claim(&second).unwrap();
        assert!(two.turn().now_or_never().is_none(), "the first one has not ended");
        assert!(matches!(claim(&third), Err(Error::InvalidArgument { .. })));
        drop((at_work, one));
        assert!(two.turn().now_or_never().is_some());
        drop(two);
        assert!(claim(&third).unwrap().turn().now_or_never().is_some());
    }
}
