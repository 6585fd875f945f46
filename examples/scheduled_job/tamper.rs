//! A proof that cannot fail proves nothing: spoils copies of the record, and sees them refused.

use std::time::Duration;

use crate::proof::{Finding, compare, examine};
use crate::record::{Event, Line, Tick, What};

/// One way to spoil a record; `None` if the record is not of a kind that can be spoilt so.
type Spoil = fn(&[Line]) -> Option<Vec<Line>>;

/// Each with the claim that must then fall, by its place in [`examine`].
const SPOILS: [(&str, usize, Spoil); 5] = [
    ("a tick done twice", 0, twice),
    ("a tick begun by two", 0, begun_by_two),
    ("a smaller token", 1, shrinking),
    ("a gap of a minute", 2, late),
    ("a paused leader that goes on", 3, undead),
];

/// Examines spoilt copies of a record, and the record against spoilt nodes.
pub(crate) fn see_refused(record: &[Line], ticks: &[Tick], session: Duration) -> Finding {
    let mut faults = Vec::new();
    for (what, claim, spoil) in SPOILS {
        match spoil(record) {
            Some(spoilt) if examine(&spoilt, session)[claim].faults.is_empty() => {
                faults.push(format!("{what} went unnoticed"));
            }
            Some(_) => {}
            None => faults.push(format!("the record is too short to try {what}")),
        }
    }
    if compare(record, ticks.get(1..).unwrap_or_default()).faults.is_empty() {
        faults.push("a node that is missing in ZooKeeper went unnoticed".into());
    }
    let evidence = format!("{} spoilt copies were refused, each by the right check", SPOILS.len() + 1);
    Finding { claim: "the checks can fail", evidence, faults }
}

/// The last leader does the last tick once more.
fn twice(record: &[Line]) -> Option<Vec<Line>> {
    let mut spoilt = record.to_vec();
    spoilt.push(record.iter().rfind(|line| line.event.done().is_some())?.clone());
    Some(spoilt)
}

/// The last tick is begun by another one, too, with a token that has grown.
fn begun_by_two(record: &[Line]) -> Option<Vec<Line>> {
    let mut spoilt = record.to_vec();
    let last = record.iter().rev().find_map(|line| line.event.done())?;
    let at = record.last()?.at;
    let other = Tick { worker: "somebody".into(), token: last.token + 1, ..last.clone() };
    spoilt.push(Line { at, event: Event::Begins(other) });
    Some(spoilt)
}

/// The first two leaders have each other's place.
fn shrinking(record: &[Line]) -> Option<Vec<Line>> {
    let mut spoilt = record.to_vec();
    let is_election = |line: &&mut Line| matches!(line.event, Event::Elected { .. });
    let mut elections = spoilt.iter_mut().filter(is_election);
    let (first, second) = (elections.next()?, elections.next()?);
    std::mem::swap(first, second);
    Some(spoilt)
}

/// From the middle on, all happens a minute later.
fn late(record: &[Line]) -> Option<Vec<Line>> {
    let mut spoilt = record.to_vec();
    let place = spoilt.len() / 2;
    spoilt[place..].iter_mut().for_each(|line| line.at += Duration::from_secs(60));
    let has_done = |lines: &[Line]| lines.iter().any(|line| line.event.done().is_some());
    (has_done(&record[..place]) && has_done(&record[place..])).then_some(spoilt)
}

/// The paused one does its next tick when it is continued.
fn undead(record: &[Line]) -> Option<Vec<Line>> {
    let is = |line: &Line, wanted| matches!(line.event, Event::Told { what, .. } if what == wanted);
    let paused = record.iter().position(|line| is(line, What::Paused))?;
    let continued = record.iter().position(|line| is(line, What::Continued))?;
    let tick = record[..paused].iter().rev().find_map(|line| line.event.tick())?;
    let mut spoilt = record.to_vec();
    let late = Tick { number: tick.number + 1, ..tick.clone() };
    spoilt.insert(continued + 1, Line { at: record[continued].at, event: Event::Begins(late) });
    Some(spoilt)
}
