//! Whether nothing is missing in a text, and nothing is there twice.

use std::collections::{HashMap, HashSet};

use crate::texts::{Append, Outcome};

/// Judges the texts, in their order. Returns the faults.
pub(crate) fn judge(appends: &[Append], texts: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut counts: HashMap<(usize, &str), usize> = HashMap::new();
    for (number, text) in texts.iter().enumerate() {
        for id in text.split_terminator(',') {
            *counts.entry((number, id)).or_default() += 1;
        }
    }
    for append in appends {
        let count = counts.get(&(append.text, &*append.id)).copied().unwrap_or_default();
        let is_right = match append.outcome {
            Outcome::Done => count == 1,
            Outcome::Unknown => count <= 1,
            Outcome::Refused => count == 0,
        };
        if !is_right {
            faults.push(format!("{append:?} is there {count} times"));
        }
    }
    let known: HashSet<_> = appends.iter().map(|append| (append.text, &*append.id)).collect();
    let strange = counts.keys().filter(|id| !known.contains(*id));
    faults.extend(strange.map(|id| format!("nobody has appended {id:?}")));
    faults
}
