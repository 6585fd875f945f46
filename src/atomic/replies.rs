//! Answers to calls that wait.

use tokio::sync::oneshot;

/// Answers, each with the call that waits for it. They are collected while a state is locked, and sent when it is not:
/// a waker may do anything, such as drop another call.
#[derive(Debug)]
#[must_use = "the calls wait until the answers are sent"]
pub(super) struct Replies<T>(Vec<(oneshot::Sender<T>, T)>);

impl<T> Replies<T> {
    pub(super) fn send(self) {
        for (call, answer) in self.0 {
            // A call that is gone does not mind.
            let _ = call.send(answer);
        }
    }
}

impl<T> FromIterator<(oneshot::Sender<T>, T)> for Replies<T> {
    fn from_iter<I: IntoIterator<Item = (oneshot::Sender<T>, T)>>(replies: I) -> Self {
        Self(replies.into_iter().collect())
    }
}
