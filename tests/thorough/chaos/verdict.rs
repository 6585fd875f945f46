//! Whether two were inside who exclude each other, and who of them was wrong.
//!
//! Of a peer only that part of a section counts of which it is proven that its node was there: a peer believes to hold
//! for as long as nobody tells it otherwise, which is no fault of those who come after it. Of two whose nodes were both
//! there, the one with the younger node was wrong to go in.
//!
//! A guard of ours must never be valid without its node, except if the server was told to end its session, of which
//! nobody can know in advance.

use std::fmt;

use crate::SESSION_TIMEOUT;
use crate::clock::seconds;
use crate::contested::Contested;
use crate::history::{Kill, Section};
use crate::stage::Library;

/// Two who were inside at once, or in the wrong order.
#[derive(Debug)]
pub(crate) struct Conflict<'a> {
    pub(crate) wrong: &'a Section,
    pub(crate) right: &'a Section,
}

#[derive(Debug, Default)]
pub(crate) struct Verdict<'a> {
    pub(crate) double_grants: Vec<Conflict<'a>>,
    /// A grant whose token is smaller than that of an earlier one.
    pub(crate) disorders: Vec<Conflict<'a>>,
    /// Guards of ours that were valid although their node was gone, without an excuse.
    pub(crate) without_node: Vec<&'a Section>,
    /// How many others had not heard yet that the server was told to end their session.
    pub(crate) excused: usize,
    /// How often a peer believed to hold beside one of ours, without a node.
    pub(crate) mere_beliefs: usize,
}

impl Conflict<'_> {
    pub(crate) fn is_our_fault(&self) -> bool {
        self.wrong.participant.library == Library::Ours
    }

    pub(crate) fn involves(&self, worker: &str) -> bool {
        *self.wrong.worker == *worker || *self.right.worker == *worker
    }
}

impl fmt::Display for Conflict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} beside or before {}", self.wrong, self.right)
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.exclusive { "exclusive" } else { "shared" };
        let [from, until] = [self.from, self.believed_until].map(seconds);
        write!(f, "{} ({kind} {:?}, {from:.6} to {until:.6}, {:?})", self.worker, self.contested, self.proof)
    }
}

/// All sections of one path are compared with each other, whatever their order.
pub(crate) fn judge<'a>(sections: &'a [Section], kills: &[Kill]) -> Verdict<'a> {
    let mut verdict = Verdict::default();
    for contested in Contested::ALL {
        let mut sections: Vec<_> = sections.iter().filter(|section| section.contested == contested).collect();
        sections.sort_by_key(|section| section.from);
        verdict.find_overlaps(&sections);
        verdict.find_disorders(&sections);
    }
    for section in sections {
        match section.without_node_at {
            Some(at) if kills.iter().any(|kill| excuses(kill, section, at)) => verdict.excused += 1,
            Some(_) => verdict.without_node.push(section),
            None => {}
        }
    }
    verdict
}

/// Whether the session of this section was killed, or may have been if it is not known, before its node was known to be
/// gone.
fn excuses(kill: &Kill, section: &Section, known_at: u64) -> bool {
    // A client that has not heard of a kill after this time has no valid guard any more.
    let earliest = section.from.saturating_sub(SESSION_TIMEOUT.as_nanos() as u64);
    let is_its_session = match &section.proof {
        Some(proof) => kill.session == proof.session,
        None => kill.victim == section.participant.name && kill.until >= earliest,
    };
    is_its_session && kill.from <= known_at
}

impl<'a> Verdict<'a> {
    pub(crate) fn assert_no_fault_of_ours(&self) {
        let conflicts = self.double_grants.iter().chain(&self.disorders);
        let conflicts = conflicts.filter(|conflict| conflict.is_our_fault()).map(ToString::to_string);
        let without_node =
            self.without_node.iter().map(|section| format!("{section} valid without its node"));
        let faults: Vec<_> = conflicts.chain(without_node).collect();
        assert!(faults.is_empty(), "{faults:#?}");
    }

    fn find_overlaps(&mut self, sections: &[&'a Section]) {
        let mut inside: Vec<&Section> = Vec::new();
        for &section in sections {
            inside.retain(|other| other.believed_until >= section.from);
            for &other in inside.iter().filter(|other| other.exclusive || section.exclusive) {
                match (&other.proof, &section.proof) {
                    (Some(proof), Some(_)) if proof.until >= section.from => {
                        self.double_grants.push(conflict(other, section));
                    }
                    _ => {
                        let is_ours = |section: &Section| section.participant.library == Library::Ours;
                        self.mere_beliefs += usize::from(is_ours(other) != is_ours(section));
                    }
                }
            }
            inside.push(section);
        }
    }

    fn find_disorders(&mut self, sections: &[&'a Section]) {
        let token = |section: &Section| section.proof.as_ref().map(|proof| proof.token);
        let mut last: Option<&Section> = None;
        let mut last_exclusive: Option<&Section> = None;
        for &section in sections.iter().filter(|section| section.proof.is_some()) {
            // Those who share are let in side by side, in no order.
            let before = if section.exclusive { last } else { last_exclusive };
            if let Some(before) = before.filter(|before| token(before) >= token(section)) {
                self.disorders.push(conflict(before, section));
            }
            if last.is_none_or(|last| token(last) < token(section)) {
                last = Some(section);
            }
            if section.exclusive && last_exclusive.is_none_or(|last| token(last) < token(section)) {
                last_exclusive = Some(section);
            }
        }
    }
}

/// Both nodes were there, so that the younger one had to wait.
fn conflict<'a>(one: &'a Section, other: &'a Section) -> Conflict<'a> {
    let token = |section: &Section| section.proof.as_ref().map(|proof| proof.token);
    if token(one) > token(other) {
        Conflict { wrong: one, right: other }
    } else {
        Conflict { wrong: other, right: one }
    }
}
