//! How a place creates its queue along with its node, where the queue does not exist.

use zookeeper_client as zk;

use super::super::new_paths::Forecast;
use super::super::pure::contender::Event;
use super::{Place, Way};
use crate::client::{CreateOutcome, EphemeralNode, Guard};
use crate::error::Result;
use crate::failure::Failure;

impl Place {
    /// Returns what is known about the queue if the next create is to find out whether it exists.
    pub(super) fn forecast(&self) -> Option<Forecast> {
        (self.way == Way::Forecast).then(|| self.internals.forecast())
    }

    /// Whether the next create is sent along with that of the queue.
    pub(super) fn creates_queue(&self, forecast: Option<Forecast>) -> bool {
        self.way == Way::WithQueue || forecast == Some(Forecast::New) && !self.cannot_create_queue
    }

    /// Records whether the queue did exist, if that was not known.
    pub(super) fn learn(&self, forecast: Option<Forecast>, was_new: bool) {
        if let Some(forecast) = forecast {
            self.internals.learn(forecast, was_new);
        }
    }

    /// Creates our node, which was not sent yet, along with the queue. Where the queue exists, the next create is sent
    /// into it.
    pub(super) async fn create_with_queue(&mut self, forecast: Option<Forecast>) -> Result<Event> {
        let internals = &self.internals;
        let Some(node) = &mut self.node else { return Ok(Event::Start) };
        let session = node.session().clone();
        // Taken before the create: by the time of the reply, the queue may be another one of the same path.
        let at = self.local.moment();
        self.entry.sent(None);
        // Our other contenders enter the queue behind this one.
        internals.exists_now();
        let creating = async {
            self.caller.sends();
            let guard = Guard::NewParent { ancestors: self.way == Way::WithQueue };
            EphemeralNode::try_create_together(std::slice::from_mut(node), &session, Some(guard)).await
        };
        let created = internals.client().attempt(&session, creating).await;
        match created.unwrap_or(Ok(CreateOutcome::Unknown(zk::Error::ConnectionLoss))) {
            Ok(CreateOutcome::Created) => {
                self.learn(forecast, true);
                if let Some(in_doubt) = self.date_own().await? {
                    return Ok(in_doubt);
                }
                Ok(match self.arrive(Some(at)) {
                    Some((own, rank)) => Event::CreatedWithQueue { own, rank, at },
                    None => Event::Settled(None),
                })
            }
            // The queue exists.
            Ok(CreateOutcome::GuardMissing) => {
                self.learn(forecast, false);
                self.way = Way::Enter;
                Ok(Event::ParentsMade)
            }
            // An ancestor is missing.
            Ok(CreateOutcome::ParentMissing) if self.way == Way::Forecast => {
                self.learn(forecast, true);
                self.way = Way::WithQueue;
                Ok(Event::ParentsMade)
            }
            Ok(CreateOutcome::Unknown(source)) => self.is_in_doubt("create a node in", source).await,
            Err(source) if Failure::of(&source) != Failure::Refused => {
                Err(internals.error("create a node in", source))
            }
            // An ancestor is missing again, or the servers do not do it like this.
            Ok(CreateOutcome::ParentMissing | CreateOutcome::TooLarge) | Err(_) => {
                self.cannot_create_queue = true;
                if std::mem::replace(&mut self.way, Way::Enter) == Way::Forecast {
                    // The queue may exist: the right to create it is needed nevertheless.
                    self.learn(forecast, false);
                    return Ok(Event::ParentsMade);
                }
                // Creating the parents by themselves shows what is wrong.
                self.has_made_parents = false;
                Ok(Event::ParentMissing)
            }
        }
    }

    /// Fetches the transaction that created our node, where the servers do not tell it along with the create. Forgets a
    /// node that is gone already. Returns an event if there was no answer.
    pub(super) async fn date_own(&mut self) -> Result<Option<Event>> {
        let Some(node) = self.node.as_mut().filter(|node| node.czxid().is_none()) else { return Ok(None) };
        let session = node.session().clone();
        match self.internals.client().attempt_one(&session, node.date()).await {
            Err(zk::Error::NoNode) => {
                self.node.take().into_iter().for_each(|node| node.forget());
                self.losses.pause(self.internals.path()).await?;
                Ok(None)
            }
            Ok(()) => Ok(None),
            Err(source) => self.is_in_doubt("date a node in", source).await.map(Some),
        }
    }
}
