//! How many cases there were.

use std::collections::BTreeMap;
use std::sync::Mutex;

#[derive(Default)]
pub(crate) struct Tally {
    counts: Mutex<BTreeMap<[String; 4], usize>>,
}

const DIMENSIONS: [&str; 4] = ["locks", "operations", "ways to go", "ends of a step"];

impl Tally {
    pub(crate) fn count(&self, lock: &str, operation: &str, departure: &str, end: &str) {
        let key = [lock, operation, departure, end].map(str::to_owned);
        *self.counts.lock().unwrap().entry(key).or_default() += 1;
    }

    /// Shows the numbers even if the test passes: by standard output, cargo would keep them to itself.
    pub(crate) fn print(&self, title: &str) {
        let counts = self.counts.lock().unwrap();
        let by = |dimension: usize| {
            let mut sums = BTreeMap::<&str, usize>::new();
            for (key, count) in &*counts {
                *sums.entry(&key[dimension]).or_default() += count;
            }
            sums
        };
        let sums: Vec<String> = (0..4)
            .map(|dimension| {
                let sums = by(dimension);
                let names: Vec<String> = sums.iter().map(|(name, count)| format!("{name} {count}")).collect();
                format!("  {} {}: {}", sums.len(), DIMENSIONS[dimension], names.join(", "))
            })
            .collect();
        let (locks, operations) = (by(0), by(1));
        let mut text = format!("{title}: {} cases\n{}\n", counts.values().sum::<usize>(), sums.join("\n"));
        text += &format!("  {:>18}", "");
        locks.keys().for_each(|lock| text += &format!(" {lock:>14}"));
        for operation in operations.keys() {
            text += &format!("\n  {operation:>18}");
            for lock in locks.keys() {
                let of_both = counts.iter().filter(|(key, _)| key[0] == *lock && key[1] == *operation);
                text += &format!(" {:>14}", of_both.map(|(_, count)| count).sum::<usize>());
            }
        }
        // Past the capture of the test harness.
        use std::io::Write;
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }
}
