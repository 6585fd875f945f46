//! Carries out the actions of a contender, one after another.

use super::super::pure::contender::{Action, Event};
use super::super::pure::permits::Passage;
use super::Place;
use crate::client::PAUSE;
use crate::error::{Error, Result};

impl Place {
    /// Carries out one action after another until there is something to report.
    ///
    /// # Cancel safety
    /// If cancelled, the place must be dropped or left.
    pub(crate) async fn drive(&mut self, mut action: Action) -> Result<()> {
        let mut is_confirmed = false;
        loop {
            if self.caller.has_gone() {
                // What was sent has been answered by now. Nothing more is sent for a caller that has gone.
                return Ok(());
            }
            // What makes requests is boxed, so that waiters do not carry its size.
            let outcome = match &action {
                Action::Requeue | Action::Create if !self.returns => return Ok(()),
                Action::Requeue => {
                    Box::pin(self.forget_node()).await?;
                    Ok(Event::Start)
                }
                Action::Create => Box::pin(self.create()).await,
                Action::MakeParents => Box::pin(self.make_parents()).await,
                Action::Settle => Box::pin(self.settle()).await,
                Action::List => Box::pin(self.list(!self.is_valid())).await,
                Action::WatchAndList(next) => Box::pin(self.watch_and_list(next)).await,
                Action::Date(undated) => Box::pin(self.date(undated)).await,
                Action::Watch { own, blocker } => Box::pin(self.watch(*own, blocker.as_deref())).await,
                Action::Await => {
                    is_confirmed = false;
                    Ok(self.woken().await)
                }
                // Nothing of an old session may be trusted, neither a grant nor a place.
                Action::Report if self.session().is_none_or(|session| session.is_over()) => {
                    Ok(Event::SessionOver)
                }
                // Its node was seen to be gone while the place was not polled: a node of that name is another
                // contender's.
                Action::Report if !self.is_in_local_queue() => {
                    self.contender = self.internals.contender();
                    action = Action::Requeue;
                    continue;
                }
                // Dropping this place removes the node.
                Action::Refuse { child, found } => return Err(self.internals.kind_conflict(child, found)),
                // Do not trust a grant of a session that may have expired meanwhile. And if nothing was requested during
                // the wait, or after an outage, the lock would be suspect, or lost, soon after the grant.
                Action::Report if self.is_granted() && !self.is_to_be_believed(is_confirmed) => {
                    let listed = Box::pin(self.list(true)).await;
                    is_confirmed |= listed.is_ok();
                    listed
                }
                Action::Report => {
                    self.internals.is_used_now();
                    self.failures.reset();
                    return Ok(());
                }
            };
            let event = match outcome {
                Ok(event) => event,
                Err(error) if error.ends_session() => Event::SessionOver,
                Err(error) => {
                    Box::pin(self.pause_after(error)).await?;
                    continue;
                }
            };
            if matches!(event, Event::SessionOver) && self.has_waited {
                // What has failed during the wait does not count any more: from now on the policy applies.
                self.failures.reset();
            }
            action = self.on(event);
        }
    }

    pub(super) fn on(&mut self, event: Event) -> Action {
        let entered = match &event {
            Event::Created { own, children, .. } => Some((own.sequence, children.is_some())),
            _ => None,
        };
        let unrecognized = |name: &str| self.internals.on_unrecognized(name);
        let (action, now) = self
            .local
            .with(|local, now| (self.contender.on(event, local, now, unrecognized), local.moment(now)));
        let since_entry = match entered {
            Some((sequence, listed)) => self.entry.shows(sequence, listed, now),
            None => self.passage.is_some_and(|passage| passage.since_entry),
        };
        self.passage = self.is_granted().then_some(Passage { on: now.on, since_entry });
        action
    }

    /// Waits before the next attempt at what has failed.
    ///
    /// # Errors
    /// Returns `error` if a retry cannot help, or if the policy allows no more attempts. Exception: a contender
    /// that waits in its queue retries until its session is over.
    pub(crate) async fn pause_after(&mut self, error: Error) -> Result<()> {
        let waits = self.has_waited && self.slot.is_some();
        match self.failures.pause_after(error, self.internals.client().retry_policy()).await {
            Err(error) if waits && error.is_retryable() => {
                tokio::time::sleep(PAUSE).await;
                Ok(())
            }
            paused => paused,
        }
    }

    /// Whether a grant can be handed out. What was done for that is not done again as long as the session is valid: over
    /// a slow connection it may be in doubt again when the reply arrives.
    fn is_to_be_believed(&self, is_confirmed: bool) -> bool {
        self.session().is_some_and(|session| session.is_worth_granting()) || is_confirmed && self.is_valid()
    }

    /// Whether the session of our node is known to be alive.
    pub(super) fn is_valid(&self) -> bool {
        self.session().is_some_and(|session| session.validity().is_valid())
    }
}
