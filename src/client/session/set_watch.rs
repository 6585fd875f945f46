//! A request for a one-shot watch.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;
use zookeeper_client as zk;

use super::trees::OneShot;

/// A request for a one-shot watch. If it is dropped after it was sent, a task waits for the reply: only then does
/// `zookeeper-client` remove the watch, which may end a persistent one.
pub(super) struct SetWatch<T: Send + 'static> {
    /// `None` when it is done.
    request: Option<(Sent<T>, OneShot)>,
    is_sent: bool,
    runtime: Option<Handle>,
}

type Sent<T> = Pin<Box<dyn Future<Output = Result<T, zk::Error>> + Send + Sync>>;

impl<T: Send + 'static> SetWatch<T> {
    pub(super) fn new(
        request: impl Future<Output = Result<T, zk::Error>> + Send + Sync + 'static,
        one_shot: OneShot,
        runtime: Option<Handle>,
    ) -> Self {
        Self { request: Some((Box::pin(request), one_shot)), is_sent: false, runtime }
    }
}

impl<T: Send + 'static> Future for SetWatch<T> {
    type Output = Result<(T, OneShot), zk::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { request: Some((request, one_shot)), is_sent, .. } = &mut *self else {
            return Poll::Pending;
        };
        // The first poll sends it.
        let reply = request.as_mut().poll(cx);
        if !std::mem::replace(is_sent, true) {
            one_shot.is_sent();
        }
        let reply = ready!(reply);
        let Some((_, one_shot)) = self.request.take() else { return Poll::Pending };
        Poll::Ready(match reply {
            Ok(set) => Ok((set, one_shot)),
            Err(error) => {
                // The server has set none.
                one_shot.spend();
                Err(error)
            }
        })
    }
}

impl<T: Send + 'static> Drop for SetWatch<T> {
    fn drop(&mut self) {
        let Some((request, one_shot)) = self.request.take() else { return };
        match (&self.runtime, self.is_sent) {
            (Some(runtime), true) => drop(runtime.spawn(async move {
                drop(request.await);
                drop(one_shot);
            })),
            (None, true) => {
                drop(request);
                drop(one_shot);
            }
            (_, false) => one_shot.spend(),
        }
    }
}
