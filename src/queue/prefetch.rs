//! The requests that are sent along with a create, so that the queue is known without another round trip.

use std::sync::Arc;

use futures_util::future::OptionFuture;
use zookeeper_client as zk;

use super::internals::LockInternals;
use super::pure::local_queue::{Moment, Prefetch, Vacancy};
use super::shared_local_queue::SharedLocalQueue;
use crate::client::Watcher;

/// What is known of a queue right before a create, and what is asked of it along with the create.
///
/// Poll the watch on the parent before the create, and the list after it: the first poll sends. So the list already
/// shows the node.
#[derive(Debug)]
pub(crate) struct Prefetching {
    path: Arc<str>,
    local: Arc<SharedLocalQueue>,
    prefetch: Prefetch,
    at: Moment,
    vacancy: Option<Vacancy>,
    _list: Option<Arc<()>>,
}

impl Prefetching {
    /// Prepares the requests on that queue, which the local queue asks for. Nothing is sent.
    pub(crate) fn of(queue: &LockInternals, local: &Arc<SharedLocalQueue>) -> Self {
        // A shared contender need not wait for the one that asked.
        let is_being_listed = !queue.has_shared() && local.is_being_listed();
        let (mut prefetch, at, vacancy) = local
            .with(|known, now| (known.prefetch(now, is_being_listed), known.moment(now), known.vacancy(now)));
        prefetch.list |= local.has_leaving_leases();
        let _list = prefetch.list.then(|| local.list_begins());
        Self { path: queue.path().clone(), local: local.clone(), prefetch, at, vacancy, _list }
    }

    /// Returns the knowledge that the queue is empty, if it is known to be.
    pub(crate) fn vacancy(&self) -> Option<Vacancy> {
        self.vacancy
    }

    /// Whether the queue is listed along with the create.
    pub(crate) fn lists(&self) -> bool {
        self.prefetch.list
    }

    /// Watches the parent, if that is asked for.
    pub(crate) fn watch_parent(
        &self,
    ) -> OptionFuture<impl Future<Output = Result<(bool, Watcher), zk::Error>>> {
        self.prefetch.parent_watch.then(|| self.local.session().watch_existence(&self.path)).into()
    }

    /// Lists the queue, if that is asked for.
    pub(crate) fn list(&self) -> OptionFuture<impl Future<Output = Result<Vec<String>, zk::Error>>> {
        self.prefetch.list.then(|| self.local.session().list(&self.path)).into()
    }

    /// Records the replies, once the node is created. Returns the children of the queue, if they are known, and the
    /// moment of the create.
    pub(crate) fn learn(
        self,
        watched: Option<Result<(bool, Watcher), zk::Error>>,
        listed: Option<Result<Vec<String>, zk::Error>>,
    ) -> (Option<Vec<String>>, Moment) {
        let at = match watched {
            Some(Ok((true, watch))) => self.local.parent_watched(watch, self.at.on),
            // Without the watch, the next create lists as well.
            _ => self.at,
        };
        // Whatever prevented the list, a missing permission or a lost connection, shows in the next one.
        (listed.and_then(Result::ok), at)
    }
}
