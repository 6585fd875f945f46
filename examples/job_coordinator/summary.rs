//! Shows what came out of a run.

use std::time::Duration;

use crate::proof::Finding;
use crate::record::Event;
use crate::screen::{BOLD, DIM, GREEN, RED, Screen};

/// One thing that goes wrong can show in many places.
const FAULTS_SHOWN: usize = 5;

/// Who did how much.
pub(crate) fn table(screen: &mut Screen, workers: &[String], record: &[Event]) {
    let count = |counts: &dyn Fn(&Event) -> bool| record.iter().filter(|event| counts(event)).count();
    screen.line(screen.paint(DIM, "  worker      grants  jobs done"));
    for worker in workers {
        let grants = count(&|event| event.grant().is_some_and(|(granted, _)| granted == worker));
        let done = count(&|event| matches!(event, Event::Finish(attempt) if attempt.worker == *worker));
        let killed = record.iter().find_map(|event| match event {
            Event::Killed(attempt) if attempt.worker == *worker => Some(&attempt.job),
            _ => None,
        });
        let end = killed.map(|job| screen.paint(RED, format_args!("  killed in {job}"))).unwrap_or_default();
        let name = screen.of_worker(worker, worker);
        screen.line(format_args!("  {name}    {grants:>6}  {done:>9}{end}"));
    }
    let grants = count(&|event| event.grant().is_some());
    let done = count(&|event| matches!(event, Event::Finish(_)));
    screen.line(format_args!("  {:<8}    {grants:>6}  {done:>9}", "together"));
}

/// How long the kill stopped everything.
pub(crate) fn hand_over(screen: &mut Screen, took: Option<Duration>, session: Duration) {
    if let Some(took) = took {
        let (took, session) = (took.as_secs_f64(), session.as_secs_f64());
        let text = format!("  the hand-over after the kill took {took:.2} s, with sessions of {session} s");
        screen.line(text);
    }
}

/// What was found; answers whether everything holds.
pub(crate) fn verdict(screen: &mut Screen, findings: &[Finding]) -> bool {
    for Finding { claim, evidence, faults } in findings {
        let claim = format!("{claim:<32}");
        if faults.is_empty() {
            let (mark, evidence) = (screen.paint(GREEN, "✔"), screen.paint(DIM, evidence));
            screen.line(format_args!("  {mark} {claim}{evidence}"));
        } else {
            screen.line(format_args!("  {} {}", screen.paint(RED, "✘"), screen.paint(RED, claim.trim_end())));
            for fault in faults.iter().take(FAULTS_SHOWN) {
                screen.line(format_args!("      {fault}"));
            }
            if let Some(more @ 1..) = faults.len().checked_sub(FAULTS_SHOWN) {
                screen.line(format_args!("      and {more} more"));
            }
        }
    }
    let proved = findings.iter().all(Finding::holds);
    screen.line("");
    screen.line(match proved {
        true => screen.paint(BOLD, "  proved, by the record of this run"),
        false => screen.paint(RED, "  NOT proved: something above went wrong"),
    });
    proved
}
