//! A proof that cannot fail proves nothing: spoils copies of the record, and sees them refused.

use crate::jobs::Mark;
use crate::proof::{Finding, compare, examine};
use crate::record::{Attempt, Event};

/// One way to spoil a record; `None` if the record is not of a kind that can be spoilt so.
type Spoil = fn(&[Event]) -> Option<Vec<Event>>;

/// Each with the claim that must then fall, by its place in [`examine`].
const SPOILS: [(&str, usize, Spoil); 5] = [
    ("overlapping jobs", 0, overlapping),
    ("a job done twice", 1, twice),
    ("a lost job", 2, lost),
    ("a killed worker that went on", 3, undead),
    ("a smaller token", 4, shrinking),
];

/// Examines spoilt copies of a record, and the record against spoilt marks.
pub(crate) fn see_refused(record: &[Event], jobs: &[String], marks: &[Mark]) -> Finding {
    let mut faults = Vec::new();
    for (what, claim, spoil) in SPOILS {
        match spoil(record) {
            Some(spoilt) if examine(&spoilt, jobs)[claim].holds() => {
                faults.push(format!("{what} went unnoticed"));
            }
            Some(_) => {}
            None => faults.push(format!("the record is too short to try {what}")),
        }
    }
    let mut spoilt = marks.to_vec();
    if let Some(mark) = spoilt.first_mut() {
        mark.text.push('0');
    }
    if compare(record, jobs, &spoilt).holds() {
        faults.push("a wrong mark in ZooKeeper went unnoticed".into());
    }
    let evidence = format!("{} spoilt copies were refused, each by the right check", SPOILS.len() + 1);
    Finding { claim: "the checks can fail", evidence, faults }
}

/// The second holder begins before the first has ended.
fn overlapping(record: &[Event]) -> Option<Vec<Event>> {
    let mut spoilt = record.to_vec();
    let end = spoilt.iter().position(|event| matches!(event, Event::Finish(_)))?;
    (end + 1 < spoilt.len()).then(|| spoilt.swap(end, end + 1))?;
    Some(spoilt)
}

/// The first job is done once more at the end.
fn twice(record: &[Event]) -> Option<Vec<Event>> {
    let mut spoilt = record.to_vec();
    let (_, last) = record.iter().rev().find_map(Event::grant)?;
    let again = Attempt { token: last + 1, ..first_finish(record)?.clone() };
    spoilt.push(Event::Start { attempt: again.clone(), behind: 0 });
    spoilt.push(Event::Finish(again));
    Some(spoilt)
}

/// The first job was never done.
fn lost(record: &[Event]) -> Option<Vec<Event>> {
    let first = first_finish(record)?;
    Some(record.iter().filter(|event| attempt_of(event) != Some(first)).cloned().collect())
}

/// The killed worker itself finishes its job later.
fn undead(record: &[Event]) -> Option<Vec<Event>> {
    let killed = record.iter().find_map(|event| match event {
        Event::Killed(attempt) => Some(attempt),
        _ => None,
    })?;
    let mut spoilt = record.to_vec();
    for attempt in spoilt.iter_mut().filter_map(attempt_of_mut) {
        if attempt.job == killed.job {
            attempt.worker.clone_from(&killed.worker);
        }
    }
    Some(spoilt)
}

/// The first two attempts have each other's token.
fn shrinking(record: &[Event]) -> Option<Vec<Event>> {
    let mut tokens = record.iter().filter_map(Event::grant).map(|(_, token)| token);
    let (first, second) = (tokens.next()?, tokens.next()?);
    let mut spoilt = record.to_vec();
    for attempt in spoilt.iter_mut().filter_map(attempt_of_mut) {
        attempt.token = match attempt.token {
            token if token == first => second,
            token if token == second => first,
            token => token,
        };
    }
    Some(spoilt)
}

fn first_finish(record: &[Event]) -> Option<&Attempt> {
    record.iter().find_map(|event| match event {
        Event::Finish(attempt) => Some(attempt),
        _ => None,
    })
}

fn attempt_of(event: &Event) -> Option<&Attempt> {
    match event {
        Event::Start { attempt, .. } | Event::Finish(attempt) | Event::Killed(attempt) => Some(attempt),
        Event::Home { .. } => None,
    }
}

fn attempt_of_mut(event: &mut Event) -> Option<&mut Attempt> {
    match event {
        Event::Start { attempt, .. } | Event::Finish(attempt) | Event::Killed(attempt) => Some(attempt),
        Event::Home { .. } => None,
    }
}
