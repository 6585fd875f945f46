//! The end of `ready`, which the last member deletes.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::join;
use parking_lot::Mutex;
use zookeeper_client as zk;

use super::decision::members_in_order;
use super::member::remains;
use super::site::Site;
use crate::error::Result;
use crate::failure::if_exists;

/// Deletes `ready` when it is dropped, if someone gives up who has seen it, or may have: those who left before may have left
/// it there because of this one. It must be dropped after the node of that member.
#[derive(Debug)]
pub(super) struct GivesUp<'a> {
    pub(super) site: &'a Site,
    pub(super) sees_ready: bool,
}

/// The barriers that the client tidies up in the background, and whether to do that once more. So members that give up
/// together cause two looks.
#[derive(Debug, Default)]
struct UnderWay(Mutex<HashMap<Arc<str>, bool>>);

/// Ends with the work, also if that is given up.
struct Turn {
    all: Arc<UnderWay>,
    path: Arc<str>,
}

impl Drop for GivesUp<'_> {
    fn drop(&mut self) {
        if self.sees_ready {
            self.site.tidy_in_background();
        }
    }
}

impl Turn {
    /// Returns whether it is to be done once more. Otherwise, the next one has to begin anew.
    fn is_repeated(&self) -> bool {
        let mut paths = self.all.0.lock();
        let repeats = paths.get_mut(&self.path).is_some_and(std::mem::take);
        if !repeats {
            paths.remove(&self.path);
        }
        repeats
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.path);
    }
}

impl Site {
    /// Deletes `ready`, unless there are members. Members of the next round may come at any time: the one that lets
    /// them in writes to `ready`, so it has another version then.
    ///
    /// # Errors
    /// Those of the requests.
    pub(super) async fn tidy(&self) -> Result<()> {
        let Self { client, path, ready, .. } = self;
        let tidying = client.request("delete", ready, |session| async move {
            let (seen, children) = join(session.stat(ready), session.list(path)).await;
            let Some(children) = if_exists(children)? else { return Ok(()) };
            // Of one that was given up before its node was known, that may be there for a while.
            let given_up = remains(client, path);
            let is_given_up = |name: &str| given_up.contains(&format!("{path}/{name}"));
            match seen? {
                Some(seen) if members_in_order(&children).all(is_given_up) => {
                    match session.delete_version(ready, seen.version).await {
                        Err(zk::Error::NoNode | zk::Error::BadVersion) => Ok(()),
                        deleted => deleted,
                    }
                }
                _ => Ok(()),
            }
        });
        tidying.await
    }

    /// The same in the background, after what this client has sent so far.
    pub(super) fn tidy_in_background(&self) {
        let site = self.detached();
        let all = site.client.extension::<UnderWay>();
        if let Some(again) = all.0.lock().get_mut(&site.path) {
            *again = true;
            return;
        }
        all.0.lock().insert(site.path.clone(), false);
        let turn = Turn { all, path: site.path.clone() };
        self.client.finish(async move {
            loop {
                let tidied = site.tidy().await;
                if !turn.is_repeated() {
                    return tidied;
                }
            }
        });
    }
}
