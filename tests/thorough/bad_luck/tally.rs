//! How often everything happened.

use std::collections::BTreeMap;
use std::sync::Mutex;

/// Counts by name.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<BTreeMap<&'static str, u64>>);

/// What must happen in each run, or it has shown nothing about it.
const REQUIRED: &[&str] = &[
    "acquired: latch",
    "acquired: mixed locks",
    "acquired: mutex",
    "acquired: mutexes together",
    "acquired: one permit of one",
    "acquired: one permit of three",
    "acquired: read lock",
    "acquired: semaphore mutex",
    "acquired: several permits",
    "acquired: write lock",
    "acquires: cancelled",
    "acquires: downgrades",
    "acquires: entered again",
    "acquires: tickets awaited late",
    "acquires: tickets dropped",
    "acquires: timed out",
    "acquires: tries that failed",
    "excused: sections cut short",
    "losses: Deadline",
    "losses: Deleted",
    "losses: Expired",
    "luck: polls on another thread",
    "luck: polls without a wake-up",
    "luck: wake-ups held back",
    "register: reads",
    "transactions: committed",
    "transactions: in flight at the loss",
    "transactions: refused",
    "trouble: cuts",
    "trouble: delays",
    "trouble: followers paused",
    "trouble: leaders isolated",
    "trouble: leaders killed",
    "trouble: long silences",
    "trouble: nodes deleted",
    "trouble: paths deleted",
    "trouble: refused connections",
    "trouble: replies held",
    "trouble: replies lost",
    "trouble: requests lost",
    "trouble: servers paused",
    "trouble: servers restarted",
    "trouble: sessions killed",
    "trouble: short silences",
    "windows: checked",
];

impl Tally {
    pub(crate) fn count(&self, what: &'static str) {
        self.add(what, 1);
    }

    pub(crate) fn add(&self, what: &'static str, number: u64) {
        *self.0.lock().unwrap().entry(what).or_default() += number;
    }

    pub(crate) fn of(&self, what: &str) -> u64 {
        self.0.lock().unwrap().get(what).copied().unwrap_or_default()
    }

    pub(crate) fn acquisitions(&self) -> u64 {
        let counts = self.0.lock().unwrap();
        counts.iter().filter(|(what, _)| what.starts_with("acquired: ")).map(|(_, count)| count).sum()
    }

    pub(crate) fn print(&self) {
        let counts = self.0.lock().unwrap();
        let mut group = "";
        for (what, count) in &*counts {
            let (of, what) = what.split_once(": ").expect("each has a group");
            if of != group {
                print!("{}{of}: ", if group.is_empty() { "" } else { "\n" });
                group = of;
            } else {
                print!(", ");
            }
            print!("{what} {count}");
        }
        println!();
    }

    /// What never happened though it must.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        REQUIRED.iter().copied().filter(|what| self.of(what) == 0).collect()
    }
}
