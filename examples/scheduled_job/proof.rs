//! What a record proves, or what it shows to be wrong. Nothing here but the record decides.

use std::collections::HashMap;
use std::time::Duration;

use crate::record::{Event, Line, Tick, What};
use crate::{FAIL_OVER, PERIOD};

/// A claim, and what the record says about it.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) claim: &'static str,
    /// What was checked.
    pub(crate) evidence: String,
    /// What contradicts the claim. Empty if it holds.
    pub(crate) faults: Vec<String>,
}

/// For how long no tick may be done: if the leader has resigned, or otherwise. A machine that stands still may cost a
/// leader its place without anybody's doing.
pub(crate) fn allowed(has_resigned: bool, session: Duration) -> Duration {
    PERIOD + FAIL_OVER + if has_resigned { Duration::ZERO } else { session }
}

/// What a record says by itself.
pub(crate) fn examine(record: &[Line], session: Duration) -> [Finding; 4] {
    [none_twice(record), tokens_grew(record), no_long_gap(record, session), nobody_late(record)]
}

/// Also that none was begun twice: so no two leaders have believed to be the one to do it.
fn none_twice(record: &[Line]) -> Finding {
    let mut faults = Vec::new();
    let mut begun: HashMap<u64, &Tick> = HashMap::new();
    let mut done: HashMap<u64, &Tick> = HashMap::new();
    for event in record.iter().map(|line| &line.event) {
        let (ticks, what) = match event {
            Event::Begins(_) => (&mut begun, "begun"),
            _ => (&mut done, "done"),
        };
        let Some(tick) = event.tick() else { continue };
        if let Some(other) = ticks.insert(tick.number, tick) {
            let (number, first, second) = (tick.number, &other.worker, &tick.worker);
            faults.push(format!("tick {number} was {what} by {first} and by {second}"));
        }
    }
    let unbegun = done.values().filter(|tick| begun.get(&tick.number) != Some(*tick));
    faults.extend(unbegun.map(|tick| format!("tick {} was done by one who had not begun it", tick.number)));
    let given_up = begun.keys().filter(|number| !done.contains_key(number)).count();
    let evidence = format!("{} ticks, each done once; {given_up} more begun and given up", done.len());
    Finding { claim: "no tick was done twice", evidence, faults }
}

fn tokens_grew(record: &[Line]) -> Finding {
    let mut faults = Vec::new();
    let mut leaders: Vec<(i64, &str)> = Vec::new();
    for event in record.iter().map(|line| &line.event) {
        let (worker, token) = match event {
            Event::Elected { worker, token } => (worker.as_str(), *token),
            Event::Begins(tick) | Event::Done(tick) => (tick.worker.as_str(), tick.token),
            _ => continue,
        };
        match leaders.last() {
            Some(leader) if *leader == (token, worker) => {}
            Some((greatest, leader)) if *greatest >= token => {
                faults.push(format!("{worker} acted with token {token} after {leader} with {greatest}"));
            }
            _ => leaders.push((token, worker)),
        }
    }
    let range = match (leaders.first(), leaders.last()) {
        (Some((first, _)), Some((last, _))) => format!("from {first} to {last}"),
        _ => "none".into(),
    };
    let evidence = format!("{} leaderships, {range}, one after the other", leaders.len());
    Finding { claim: "tokens never went back", evidence, faults }
}

fn no_long_gap(record: &[Line], session: Duration) -> Finding {
    let mut faults = Vec::new();
    let mut longest = [Duration::ZERO; 2];
    let mut last: Option<Duration> = None;
    let mut has_resigned = false;
    for line in record {
        match &line.event {
            Event::Told { what: What::Resigns, .. } => has_resigned = true,
            Event::Done(_) | Event::Told { what: What::End, .. } => {
                let gap = line.at.saturating_sub(last.unwrap_or(line.at));
                let allowed = allowed(has_resigned, session);
                if gap > allowed {
                    faults.push(format!("no tick was done for {gap:.1?}, and {allowed:.1?} are allowed"));
                }
                let longest = &mut longest[usize::from(has_resigned)];
                *longest = gap.max(*longest);
                (last, has_resigned) = (Some(line.at), false);
            }
            _ => {}
        }
    }
    let [otherwise, resigned] = longest;
    let evidence = format!("at most {resigned:.1?} when a leader resigned, {otherwise:.1?} otherwise");
    Finding { claim: "no gap was too long", evidence, faults }
}

/// Those who came back did nothing under what they had lost, and stood for election anew.
fn nobody_late(record: &[Line]) -> Finding {
    let mut faults = Vec::new();
    let mut back = Vec::new();
    for (place, line) in record.iter().enumerate() {
        let Event::Told { what: what @ (What::Continued | What::Mended), worker } = &line.event else {
            continue;
        };
        let lost = record[..place].iter().rev().find_map(|line| match &line.event {
            Event::Elected { worker: elected, token } if elected == worker => Some(*token),
            _ => None,
        });
        let Some(lost) = lost else {
            faults.push(format!("{worker} was {} without having led", what.name()));
            continue;
        };
        let later = || record[place..].iter().map(|line| &line.event);
        let late = later().filter_map(Event::tick).filter(|tick| tick.token == lost);
        faults.extend(
            late.map(|tick| format!("{worker} acted on tick {} after it was {}", tick.number, what.name())),
        );
        let stands = |event: &Event| match event {
            Event::Stands { worker: other, token } => other == worker && *token > lost,
            _ => false,
        };
        if !later().any(stands) {
            faults.push(format!("{worker} did not stand again after it was {}", what.name()));
        }
        back.push(format!("{worker} {}", what.name()));
    }
    if back.len() < 2 {
        faults.push("nobody came back from a pause, or nobody from being cut off".into());
    }
    let evidence = format!("{}: nothing done with the old token, and back in the queue", back.join(", "));
    Finding { claim: "who came back did nothing late", evidence, faults }
}

/// What a record says compared with what ZooKeeper says.
pub(crate) fn compare(record: &[Line], ticks: &[Tick]) -> Finding {
    let mut faults = Vec::new();
    let known: HashMap<u64, &Tick> = ticks.iter().map(|tick| (tick.number, tick)).collect();
    let mut begun = HashMap::new();
    for event in record.iter().map(|line| &line.event) {
        match event {
            Event::Begins(tick) => drop(begun.insert(tick.number, tick)),
            Event::Done(tick) if known.get(&tick.number) != Some(&tick) => {
                faults.push(format!("{tick:?} is not in ZooKeeper"));
            }
            _ => {}
        }
    }
    // One who was killed or paused may have had no time to say that it is done.
    let unknown = ticks.iter().filter(|tick| begun.get(&tick.number) != Some(tick));
    faults.extend(unknown.map(|tick| format!("{tick:?} is in ZooKeeper, and not in the record")));
    let evidence = format!("{} nodes, by whom the record says", ticks.len());
    Finding { claim: "ZooKeeper agrees", evidence, faults }
}
