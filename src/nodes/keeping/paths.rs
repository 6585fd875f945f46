//! The paths at which one client keeps nodes. Nodes of one session cannot be told apart, so each path has one keeper.

use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use crate::client::{ByPath, Client};
use crate::error::{Error, Result};

type KeptPaths = ByPath<(), KeptPath>;

/// What the keepers of one path share: the right to keep a node there, one after the other.
#[derive(Debug)]
pub(super) struct KeptPath {
    paths: Arc<KeptPaths>,
    path: Arc<str>,
    /// Of the latest keeper.
    closing: parking_lot::Mutex<Option<CancellationToken>>,
    /// Has the keeper at work.
    turn: Mutex<()>,
}

impl KeptPath {
    /// Claims a path for a keeper that ends when `closing` is cancelled.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if another keeper has it that is not to end.
    pub(super) fn claim(client: &Client, path: &Arc<str>, closing: &CancellationToken) -> Result<Arc<Self>> {
        let paths = client.extension::<KeptPaths>();
        let kept = paths.share(path, (), || Self {
            paths: paths.clone(),
            path: path.clone(),
            closing: parking_lot::Mutex::default(),
            turn: Mutex::default(),
        });
        let mut latest = kept.closing.lock();
        if latest.as_ref().is_some_and(|latest| !latest.is_cancelled()) {
            return Err(Error::InvalidArgument {
                argument: "path",
                reason: format!(
                    "this client keeps a node at {path} already; close that one first, or use another path"
                ),
            });
        }
        *latest = Some(closing.clone());
        drop(latest);
        Ok(kept)
    }

    /// Waits until those before have ended.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }
}

impl Drop for KeptPath {
    fn drop(&mut self) {
        self.paths.forget(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_path_has_one_keeper_at_a_time() {
        let client = Client::connect_lazily("127.0.0.1:1").unwrap();
        let claim = |closing: &CancellationToken| KeptPath::claim(&client, &"/a".into(), closing);
        let [first, second, third] = [(); 3].map(|()| CancellationToken::new());
        let one = claim(&first).unwrap();
        let at_work = one.turn().now_or_never().expect("it is free");
        assert!(matches!(claim(&second), Err(Error::InvalidArgument { .. })));
        first.cancel();
        let two = claim(&second).unwrap();
        assert!(two.turn().now_or_never().is_none(), "the first one has not ended");
        assert!(matches!(claim(&third), Err(Error::InvalidArgument { .. })));
        drop(at_work);
        drop(one);
        assert!(two.turn().now_or_never().is_some());
        drop(two);
        assert!(claim(&third).unwrap().turn().now_or_never().is_some());
    }
}
