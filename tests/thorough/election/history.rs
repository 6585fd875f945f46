//! Who believed to lead, and when. One history for each path.

use std::sync::Arc;

use tokio::sync::watch;

use crate::clock;
use crate::report::Report;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Library {
    Ours,
    Curator,
}

impl Library {
    pub(crate) const ALL: [Self; 2] = [Self::Ours, Self::Curator];
}

/// Of one candidate, from the first moment at which it was seen to believe that it leads to the last. The times are of
/// the clock that all processes share.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) candidate: Arc<str>,
    pub(crate) library: Library,
    number: u64,
    pub(crate) from: u64,
    /// Zero if it was seen only once.
    pub(crate) until: u64,
    pub(crate) node: String,
    /// Only ours tells it.
    pub(crate) token: Option<i64>,
    pub(crate) is_over: bool,
}

/// What was done to the leader, so that another one leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Deed {
    /// Nothing yet.
    Start,
    Resign,
    /// It was closed, and another one started in its place.
    Renew,
    KillSession,
    KillProcess,
    Restart,
}

impl Deed {
    pub(crate) const CHANGES: [Self; 5] =
        [Self::Resign, Self::Renew, Self::KillSession, Self::KillProcess, Self::Restart];
}

/// When it was done, and to the leader with which node.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) deed: Deed,
    pub(crate) at: u64,
    pub(crate) node: String,
}

#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) terms: Vec<Term>,
    pub(crate) events: Vec<Event>,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    story: watch::Sender<Story>,
}

impl Story {
    /// Who has begun last, if it still believes to lead: whoever began before is nobody's leader any more.
    pub(crate) fn leader(&self) -> Option<&Term> {
        self.terms.iter().max_by_key(|term| term.from).filter(|term| !term.is_over)
    }

    pub(crate) fn has_led_since(&self, candidate: &str, since: u64) -> bool {
        self.terms.iter().rev().any(|term| *term.candidate == *candidate && term.from > since)
    }

    fn term(&mut self, candidate: &str, number: u64) -> &mut Term {
        let mut terms = self.terms.iter_mut().rev();
        terms.find(|term| *term.candidate == *candidate && term.number == number).expect("it has begun")
    }
}

impl History {
    pub(crate) fn record(&self, candidate: &Arc<str>, library: Library, report: Report) {
        self.story.send_if_modified(|story| match report {
            Report::Ready { .. } => false,
            Report::Leads { term: number, at, node, token } => {
                let (candidate, token) = (candidate.clone(), Some(token).filter(|token| *token != 0));
                let (from, until, is_over) = (at, 0, false);
                story.terms.push(Term { candidate, library, number, from, until, node, token, is_over });
                true
            }
            Report::Looks { term, at } => {
                let term = story.term(candidate, term);
                term.until = term.until.max(at);
                true
            }
            Report::Ends { term } => {
                story.term(candidate, term).is_over = true;
                true
            }
        });
    }

    /// It will not say anything any more.
    pub(crate) fn record_end(&self, candidate: &str) {
        self.story.send_modify(|story| {
            story
                .terms
                .iter_mut()
                .filter(|term| *term.candidate == *candidate)
                .for_each(|term| term.is_over = true);
        });
    }

    pub(crate) fn record_event(&self, deed: Deed, node: &str) {
        let event = Event { deed, at: clock::now(), node: node.to_owned() };
        self.story.send_modify(|story| story.events.push(event));
    }

    /// Waits until the story tells what is asked for.
    pub(crate) async fn wait_for<T>(&self, mut find: impl FnMut(&Story) -> Option<T>) -> T {
        let mut story = self.story.subscribe();
        loop {
            if let Some(found) = find(&story.borrow_and_update()) {
                return found;
            }
            story.changed().await.expect("the history is there");
        }
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&Story) -> T) -> T {
        look(&self.story.borrow())
    }

    pub(crate) fn take(&self) -> Story {
        self.story.send_replace(Story::default())
    }
}
