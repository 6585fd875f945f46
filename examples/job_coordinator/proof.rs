//! What a record proves, or what it shows to be wrong. Nothing here but the record decides.

use std::collections::HashMap;

use crate::jobs::{Mark, done_by};
use crate::record::{Attempt, Event};

/// A claim, and what the record says about it.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) claim: &'static str,
    /// What was checked.
    pub(crate) evidence: String,
    /// What contradicts the claim. Empty if it holds.
    pub(crate) faults: Vec<String>,
}

impl Finding {
    pub(crate) fn holds(&self) -> bool {
        self.faults.is_empty()
    }
}

/// What a record says by itself.
pub(crate) fn examine(record: &[Event], jobs: &[String]) -> [Finding; 5] {
    [
        no_overlap(record),
        none_twice(record),
        none_lost(record, jobs),
        kill_survived(record),
        tokens_grew(record),
    ]
}

fn no_overlap(record: &[Event]) -> Finding {
    let mut faults = Vec::new();
    let mut open: Vec<&Attempt> = Vec::new();
    let mut attempts = 0;
    for event in record {
        if let Some((worker, token)) = event.grant() {
            let overlaps = |other| format!("{worker} held (token {token}) while {other} had not ended");
            faults.extend(open.iter().map(overlaps));
        }
        match event {
            Event::Start { attempt, .. } => {
                attempts += 1;
                open.push(attempt);
            }
            Event::Finish(attempt) | Event::Killed(attempt) => {
                match open.iter().position(|other| *other == attempt) {
                    Some(place) => drop(open.swap_remove(place)),
                    None => faults.push(format!("{attempt} ended, but was not under way")),
                }
            }
            Event::Home { .. } => {}
        }
    }
    faults.extend(open.iter().map(|attempt| format!("{attempt} never ended")));
    let evidence = format!("{attempts} attempts, each ended before anybody else held the lock");
    Finding { claim: "no two jobs overlapped", evidence, faults }
}

fn none_twice(record: &[Event]) -> Finding {
    let mut faults = Vec::new();
    let mut done: HashMap<&str, &Attempt> = HashMap::new();
    for event in record {
        match event {
            Event::Start { attempt, .. } => {
                if let Some(earlier) = done.get(attempt.job.as_str()) {
                    faults.push(format!("{attempt} began although {earlier} had done it"));
                }
            }
            Event::Finish(attempt) => {
                if let Some(earlier) = done.insert(&attempt.job, attempt) {
                    faults.push(format!("{attempt} was done before, by {earlier}"));
                }
            }
            Event::Killed(_) | Event::Home { .. } => {}
        }
    }
    let evidence = format!("{} jobs, each with one finish, and no start after it", done.len());
    Finding { claim: "none was done twice", evidence, faults }
}

fn none_lost(record: &[Event], jobs: &[String]) -> Finding {
    let lost: Vec<_> = jobs.iter().filter(|job| finish_of(record, job).is_none()).collect();
    let evidence = format!("{} of {} jobs have a finish", jobs.len() - lost.len(), jobs.len());
    let faults = lost.iter().map(|job| format!("{job} was never done")).collect();
    Finding { claim: "none was lost", evidence, faults }
}

fn kill_survived(record: &[Event]) -> Finding {
    let mut evidence = Vec::new();
    let mut faults = Vec::new();
    for killed in record.iter().filter_map(|event| match event {
        Event::Killed(attempt) => Some(attempt),
        _ => None,
    }) {
        match finish_of(record, &killed.job) {
            Some(done) if done.worker != killed.worker && done.token > killed.token => evidence.push(
                format!("{} by {}, with token {} > {}", done.job, done.worker, done.token, killed.token),
            ),
            Some(done) => faults.push(format!("{killed} was killed, but {done} finished the job")),
            None => faults.push(format!("{killed} was killed, and nobody took the job over")),
        }
    }
    if evidence.is_empty() && faults.is_empty() {
        faults.push("nobody was killed in the middle of a job".into());
    }
    Finding { claim: "the killed one's job was done", evidence: evidence.join(", "), faults }
}

fn tokens_grew(record: &[Event]) -> Finding {
    let grants: Vec<_> = record.iter().filter_map(Event::grant).collect();
    let mut faults = Vec::new();
    for pair in grants.windows(2) {
        let [(first, earlier), (second, later)] = [pair[0], pair[1]];
        if later <= earlier {
            faults.push(format!("{second} was granted token {later} after {first} was granted {earlier}"));
        }
    }
    let range = match (grants.first(), grants.last()) {
        (Some((_, first)), Some((_, last))) => format!("strictly growing from {first} to {last}"),
        _ => "none".into(),
    };
    let evidence = format!("{} grants, {range}", grants.len());
    Finding { claim: "tokens grew", evidence, faults }
}

/// What a record says compared with what ZooKeeper says.
pub(crate) fn compare(record: &[Event], jobs: &[String], marks: &[Mark]) -> Finding {
    let mut faults = Vec::new();
    if !marks.iter().map(|mark| &mark.job).eq(jobs) {
        faults.push("the jobs in ZooKeeper are not the ones of this run".into());
    }
    for Mark { job, text, version } in marks {
        let recorded = finish_of(record, job).map(done_by);
        if recorded.as_ref() != Some(text) {
            let recorded = recorded.unwrap_or_else(|| "not done".into());
            faults.push(format!("{job}: ZooKeeper says {text:?}, the record {recorded:?}"));
        }
        if *version != 1 {
            faults.push(format!("{job} was written {version} times"));
        }
    }
    let evidence = format!("{} nodes, each written once, by whom the record says", marks.len());
    Finding { claim: "ZooKeeper agrees", evidence, faults }
}

fn finish_of<'a>(record: &'a [Event], job: &str) -> Option<&'a Attempt> {
    record.iter().find_map(|event| match event {
        Event::Finish(attempt) if attempt.job == job => Some(attempt),
        _ => None,
    })
}
