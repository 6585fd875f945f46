//! Whether two led at once, or nobody for too long, and who was wrong.
//!
//! A term of ours must never begin while an older node is there, last longer than its own, or last beside another term.
//! Except if the server was told to end its session, of which nobody can know in advance; and then not for longer than
//! a session can last without a sign of the server. A candidate of Curator's believes to lead for as long as nobody
//! tells it otherwise: that is no fault of the others if its node was gone.
//!
//! That must be proved: by the time at which its end was told, or by the transactions, of which that of its end comes before
//! that of the other's node. What is not proved is a fault.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::SESSION_TIMEOUT;
use crate::clock::seconds;
use crate::history::{Deed, Event, Library, Story, Term};
use crate::witness::{Life, Node, Seen};

/// The server was not there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Downtime {
    pub(crate) from: u64,
    pub(crate) until: u64,
}

/// What is judged.
pub(crate) struct Case<'a> {
    pub(crate) story: &'a Story,
    pub(crate) seen: &'a Seen,
    pub(crate) downtimes: &'a [Downtime],
    pub(crate) longest_gap: Duration,
}

#[derive(Debug)]
pub(crate) struct Fault {
    what: &'static str,
    /// With the time at which the node of each was known to be gone.
    terms: Vec<(Term, Option<u64>, Option<Life>)>,
    /// What was done before its end.
    deeds: Vec<Event>,
}

/// How many deeds are told of a fault.
const DEEDS: usize = 4;

/// One who leads after another.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) deed: Deed,
    /// Of the one who led before.
    pub(crate) library: Library,
    /// For how long nobody led.
    pub(crate) gap: u64,
    /// From the moment at which the node was known to be gone.
    pub(crate) since_deletion: Option<u64>,
}

/// All times are in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) terms: usize,
    /// Of how many of them the node was seen.
    pub(crate) seen: usize,
    pub(crate) faults: Vec<Fault>,
    /// How long others led beside one of ours whose session was killed.
    pub(crate) excused: Vec<u64>,
    /// How long a candidate of Curator's believed to lead beside one of ours.
    pub(crate) mere_beliefs: Vec<u64>,
    /// The same beside another one of Curator's.
    pub(crate) among_peers: Vec<u64>,
    /// For how long ours believed to lead after their session was killed and their node was known to be gone.
    pub(crate) unaware: Vec<u64>,
    /// The same of Curator's, for whatever reason it was gone, and who it was.
    pub(crate) peers_unaware: Vec<(u64, Arc<str>)>,
    /// For how long nobody led at most, between whom.
    pub(crate) longest_gap: (u64, String),
    pub(crate) changes: Vec<Change>,
}

impl Fault {
    pub(crate) fn involves(&self, candidate: &str) -> bool {
        self.terms.iter().any(|(term, ..)| *term.candidate == *candidate)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.what)?;
        for (index, (term, gone_at, life)) in self.terms.iter().enumerate() {
            let Term { candidate, from, until, node, .. } = term;
            let (from, until, separator) =
                (seconds(*from), seconds(*until), if index > 0 { " and " } else { "" });
            write!(f, "{separator}{candidate} from {from:.6} to {until:.6} by {node}")?;
            if let Some(gone_at) = gone_at {
                write!(f, ", gone at {:.6}", seconds(*gone_at))?;
            }
            match life {
                Some(Life { born, ended, .. }) => write!(f, ", transactions {born:?} to {ended:?}")?,
                None => write!(f, ", never seen")?,
            }
        }
        for Event { deed, at, node } in &self.deeds {
            write!(f, "; {deed:?} of {node} at {:.6}", seconds(*at))?;
        }
        Ok(())
    }
}

impl Case<'_> {
    pub(crate) fn judge(&self) -> Verdict {
        let mut terms: Vec<&Term> = self.story.terms.iter().collect();
        let seen = terms.iter().filter(|term| self.node(term).is_some() || self.life(term).is_some()).count();
        let mut verdict = Verdict { terms: terms.len(), seen, ..Verdict::default() };
        terms.sort_by_key(|term| term.from);
        self.judge_overlaps(&terms, &mut verdict);
        self.judge_nodes(&terms, &mut verdict);
        self.judge_gaps(&terms, &mut verdict);
        verdict
    }

    fn judge_overlaps(&self, terms: &[&Term], verdict: &mut Verdict) {
        let mut leading: Vec<&Term> = Vec::new();
        for &term in terms {
            leading.retain(|other| other.until >= term.from);
            for &other in leading.iter().filter(|other| other.candidate != term.candidate) {
                if term.until >= term.from {
                    self.judge_overlap(other, term, verdict);
                }
            }
            leading.push(term);
        }
    }

    fn judge_overlap(&self, one: &Term, next: &Term, verdict: &mut Verdict) {
        let until = one.until.min(next.until);
        let length = until - next.from;
        let is_ours = |term: &Term| term.library == Library::Ours;
        if !is_ours(one) && !is_ours(next) {
            verdict.among_peers.push(length);
            return;
        }
        let is_killed = |term: &Term| self.killed(term).is_some_and(|kill| kill.at <= until);
        let is_gone = |term: &Term, other: &Term| {
            is_killed(term)
                || self.gone_at(term).is_some_and(|gone_at| gone_at <= until)
                || self.ended_before(term, other)
                || self.was_gone_before(term, other)
        };
        if [(one, next), (next, one)].into_iter().any(|(one, other)| !is_ours(one) && is_gone(one, other)) {
            verdict.mere_beliefs.push(length);
        } else if [one, next].into_iter().any(|term| is_ours(term) && is_killed(term)) {
            // Not for ever, which is judged with its node.
            verdict.excused.push(length);
        } else {
            self.fault(verdict, "two lead", &[one, next]);
        }
    }

    /// Whether its node was deleted before that of the other was created.
    fn ended_before(&self, term: &Term, other: &Term) -> bool {
        let ended = self.life(term).and_then(|life| life.ended);
        let born = other.token.or_else(|| self.life(other)?.born);
        ended.zip(born).is_some_and(|(ended, born)| ended < born)
    }

    /// Whether its node was there before that of the other, and gone when the other was looked at. The word that it is
    /// gone may come later.
    fn was_gone_before(&self, term: &Term, other: &Term) -> bool {
        is_ahead(&term.node, &other.node)
            && self.seen.beside.get(&other.node).is_some_and(|beside| !beside.contains(&term.node))
    }

    /// A node that is ahead of that of a leader, and was there when it led.
    fn older_beside(&self, term: &Term) -> Option<&String> {
        let mut beside = self.seen.beside.get(&term.node)?.iter();
        beside.find(|node| is_ahead(node, &term.node))
    }

    /// What is true of each of ours by itself.
    fn judge_nodes(&self, terms: &[&Term], verdict: &mut Verdict) {
        let mut newest: Option<(i64, &Term)> = None;
        for &term in terms {
            let token = term.token.or_else(|| Some(self.node(term)?.token));
            if term.library == Library::Ours {
                match newest {
                    Some((newest, other)) if token.is_none_or(|token| token <= newest) => {
                        self.fault(verdict, "the token is not newer", &[other, term]);
                    }
                    _ => {}
                }
                if self.node(term).is_some_and(|node| Some(node.token) != token) {
                    self.fault(verdict, "the token is not that of the node", &[term]);
                }
                if self.older_beside(term).is_some() {
                    self.fault(verdict, "it leads although an older node is there", &[term]);
                }
                self.judge_end(term, verdict);
            } else if let Some(gone_at) = self.gone_at(term).filter(|gone_at| *gone_at < term.until) {
                verdict.peers_unaware.push((term.until - gone_at, term.candidate.clone()));
            }
            if let Some(token) = token.filter(|token| newest.is_none_or(|(newest, _)| *token > newest)) {
                newest = Some((token, term));
            }
        }
    }

    fn judge_end(&self, term: &Term, verdict: &mut Verdict) {
        let Some(unaware) = self.gone_at(term).and_then(|gone_at| term.until.checked_sub(gone_at)) else {
            return;
        };
        if self.killed(term).is_none() {
            self.fault(verdict, "it leads without a node", &[term]);
        } else if unaware > nanos(SESSION_TIMEOUT) {
            self.fault(verdict, "it leads for too long after its session was killed", &[term]);
        }
        verdict.unaware.push(unaware);
    }

    fn judge_gaps(&self, terms: &[&Term], verdict: &mut Verdict) {
        let [first, ..] = terms else { return };
        let (mut last, mut led_until) = (*first, self.end(first));
        for &term in &terms[1..] {
            let gap = term.from.saturating_sub(led_until);
            let down = self
                .downtimes
                .iter()
                .map(|down| down.until.min(term.from).saturating_sub(down.from.max(led_until)));
            let counted = gap.saturating_sub(down.sum());
            if counted > verdict.longest_gap.0 {
                verdict.longest_gap = (counted, format!("{} and {}", last.candidate, term.candidate));
            }
            if counted > nanos(self.longest_gap) {
                self.fault(verdict, "nobody leads for too long between", &[last, term]);
            }
            if term.node != last.node {
                let deed = self.story.events.iter().rev().find(|event| event.at <= term.from);
                let deed = deed.map_or(Deed::Start, |event| event.deed);
                let since_deletion = self.gone_at(last).map(|gone_at| term.from.saturating_sub(gone_at));
                verdict.changes.push(Change { deed, library: last.library, gap, since_deletion });
            }
            led_until = led_until.max(self.end(term));
            last = term;
        }
    }

    /// Until when it led for certain. Whoever has no node any more only believes so.
    fn end(&self, term: &Term) -> u64 {
        term.until.min(self.gone_at(term).unwrap_or(u64::MAX)).max(term.from)
    }

    fn gone_at(&self, term: &Term) -> Option<u64> {
        let seen_gone_at = self.node(term).and_then(|node| node.gone_at);
        let ended_at = self.life(term).and_then(|life| life.ended_at);
        seen_gone_at.into_iter().chain(ended_at).min()
    }

    /// By its node; or by its token, if only its work was seen.
    fn life(&self, term: &Term) -> Option<&Life> {
        let lives = &self.seen.lives;
        let by_token = || lives.values().find(|life| life.born.is_some() && life.born == term.token);
        lives.get(&term.node).or_else(by_token)
    }

    fn node(&self, term: &Term) -> Option<&Node> {
        self.seen.nodes.get(&term.node)
    }

    fn fault(&self, verdict: &mut Verdict, what: &'static str, terms: &[&Term]) {
        let until = terms.iter().map(|term| term.until.max(term.from)).max().unwrap_or_default();
        let mut deeds: Vec<_> = self.story.events.iter().filter(|event| event.at <= until).cloned().collect();
        deeds.drain(..deeds.len().saturating_sub(DEEDS));
        let told = |term: &Term| (term.clone(), self.gone_at(term), self.life(term).copied());
        let terms = terms.iter().map(|&term| told(term)).collect();
        verdict.faults.push(Fault { what, terms, deeds });
    }

    fn killed(&self, term: &Term) -> Option<&Event> {
        let mut events = self.story.events.iter();
        events.find(|event| event.deed == Deed::KillSession && event.node == term.node)
    }
}

impl Verdict {
    pub(crate) fn assert_no_fault(&self, what: &str) {
        let faults: Vec<_> = self.faults.iter().map(ToString::to_string).collect();
        assert!(faults.is_empty(), "{what}: {faults:#?}");
    }

    pub(crate) fn caught(&self, candidate: &Arc<str>) -> usize {
        self.faults.iter().filter(|fault| fault.involves(candidate)).count()
    }
}

/// Whether a node is older than another one of the same path.
fn is_ahead(one: &str, other: &str) -> bool {
    let place = |node: &str| {
        let (path, name) = node.rsplit_once('/')?;
        let number: i32 = name.get(name.len().checked_sub(10)?..)?.parse().ok()?;
        Some((path.to_owned(), number))
    };
    let places = place(one).zip(place(other));
    places.is_some_and(|((path, one), (other_path, other))| path == other_path && one < other)
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos().try_into().expect("not centuries")
}
