//! Whether a candidate may lead, as its user says.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::client::Client;

/// A copy of what the user says, which can be read on the client's threads. The user's own channel cannot: a value that
/// is borrowed from it may block its readers.
#[derive(Debug)]
pub(super) struct Eligibility(watch::Sender<bool>);

impl Eligibility {
    /// Follows what the user says until `closing` is cancelled. Without a channel, the candidate is always eligible.
    pub(super) fn follow(
        client: &Client,
        said: Option<watch::Receiver<bool>>,
        closing: CancellationToken,
    ) -> Arc<Self> {
        let Some(mut said) = said else { return Arc::new(Self(watch::Sender::new(true))) };
        let is_eligible = *said.borrow_and_update();
        let eligibility = Arc::new(Self(watch::Sender::new(is_eligible)));
        let (detached, copy) = (client.detached(), eligibility.clone());
        client.spawn(async move {
            // If the user drops the sender, its last value stays.
            while let Some(Ok(())) = closing.run_until_cancelled(said.changed()).await {
                let (said, copy) = (said.clone(), copy.clone());
                let read = move || {
                    let is_eligible = *said.borrow();
                    copy.0.send_if_modified(|before| std::mem::replace(before, is_eligible) != is_eligible);
                };
                detached.home().told(read).await;
            }
        });
        eligibility
    }

    pub(super) fn get(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the candidate is eligible, or is not.
    pub(super) async fn becomes(&self, wanted: bool) {
        // The sender is ours.
        let _ = self.0.subscribe().wait_for(|is_eligible| *is_eligible == wanted).await;
    }
}
