//! Shows what came out of a run.

use std::time::Duration;

use crate::proof::{self, Finding};
use crate::record::{Event, Line, Tick, What};

/// One thing that goes wrong can show in many places.
const FAULTS_SHOWN: usize = 5;

/// Between the last tick of one leader and the first of another: how many were missed, and for how long none was done.
pub(crate) fn gap(record: &[Line], old: &Tick, new: &Tick) -> (u64, Duration) {
    let mut done = record.iter().filter_map(|line| Some((line.at, line.event.done()?)));
    let last = done.clone().rfind(|(_, tick)| tick.token == old.token);
    let first = done.find(|(_, tick)| *tick == new);
    last.zip(first).map_or((0, Duration::ZERO), |((ended, last), (began, first))| {
        (first.number.saturating_sub(last.number + 1), began.saturating_sub(ended))
    })
}

/// Shows a letter for each tick after that one, and a point for each that was missed. Answers the last.
pub(crate) fn strip(record: &[Line], after: u64) -> u64 {
    let done: Vec<&Tick> = record.iter().filter_map(|line| line.event.done()).collect();
    let mut strip = String::new();
    let mut last = after;
    for tick in done.iter().filter(|tick| tick.number > after) {
        if last > 0 {
            strip.extend((last + 1..tick.number).map(|_| '·'));
        }
        strip.push_str(&tick.worker);
        last = tick.number;
    }
    println!("         {strip}");
    last
}

/// What came of each harm, in figures.
pub(crate) fn print(record: &[Line], session: Duration) {
    println!("  leader      from  to  missed  no tick for  at most  it knew");
    for (place, line) in record.iter().enumerate() {
        let Event::Told { what: what @ (What::Resigns | What::Killed | What::Paused | What::Cut), worker } =
            &line.event
        else {
            continue;
        };
        let is_of_it = |line: &&Line| line.event.done().is_some_and(|tick| tick.worker == *worker);
        let Some(old) = record[..place].iter().rfind(is_of_it).and_then(|line| line.event.done()) else {
            continue;
        };
        let later = record[place..].iter().filter_map(|line| line.event.done());
        let Some(new) = later.into_iter().find(|tick| tick.token > old.token) else { continue };
        let (missed, gap) = gap(record, old, new);
        println!(
            "  {:<10}  {:<4}  {:<2}  {missed:>6}  {:>8} ms  {:>5.1} s  {}",
            what.name(),
            old.worker,
            new.worker,
            gap.as_millis(),
            proof::allowed(*what == What::Resigns, session).as_secs_f64(),
            knew(record, old.token, new.token),
        );
    }
    println!();
}

/// When the old leader knew that it leads no more.
fn knew(record: &[Line], old: i64, new: i64) -> String {
    let at =
        |is_it: &dyn Fn(&Event) -> bool| record.iter().find(|line| is_it(&line.event)).map(|line| line.at);
    let ended = at(&|event| matches!(event, Event::Ended { token, .. } if *token == old));
    let elected = at(&|event| matches!(event, Event::Elected { token, .. } if *token == new));
    match (ended, elected) {
        (Some(ended), Some(elected)) if ended < elected => {
            format!("{} ms before the next one led", (elected - ended).as_millis())
        }
        (Some(ended), _) => {
            let woken = |line: &&Line| matches!(line.event, Event::Told { what: What::Continued, .. });
            match record.iter().filter(woken).rfind(|line| line.at <= ended) {
                Some(woken) => format!("{} ms after it was continued", (ended - woken.at).as_millis()),
                None => "at the end".into(),
            }
        }
        (None, _) => "never: it was dead".into(),
    }
}

/// What was found; answers whether everything holds.
pub(crate) fn verdict(findings: &[Finding]) -> bool {
    for Finding { claim, evidence, faults } in findings {
        if faults.is_empty() {
            println!("  ✔ {claim:<32}{evidence}");
        } else {
            println!("  ✘ {claim}");
            for fault in faults.iter().take(FAULTS_SHOWN) {
                println!("      {fault}");
            }
            if let Some(more @ 1..) = faults.len().checked_sub(FAULTS_SHOWN) {
                println!("      and {more} more");
            }
        }
    }
    let is_proved = findings.iter().all(|finding| finding.faults.is_empty());
    println!("\n  {}", if is_proved { "proved, by the record of this run" } else { "NOT proved" });
    is_proved
}
