//! Whether the numbers are right that all have drawn.

use std::collections::HashMap;

use crate::numbers::{Draw, Kind, Outcome};

/// Judges what was drawn from a number that is `last` in the end. Returns the faults.
pub(crate) fn judge(kind: Kind, draws: &[Draw], last: i64) -> Vec<String> {
    let mut faults = Vec::new();
    let mut owners: HashMap<i64, &Draw> = HashMap::new();
    let mut unknown = 0;
    for draw in draws {
        match draw.outcome {
            Outcome::Drawn(number) => {
                if let Some(other) = owners.insert(number, draw) {
                    faults.push(format!("{kind:?}: {number} was drawn twice: {other:?}, {draw:?}"));
                }
                if number >= last {
                    faults.push(format!("{kind:?}: {draw:?}, but the last is {last}"));
                }
            }
            Outcome::Unknown => unknown += 1,
            Outcome::Refused => {}
        }
    }
    let drawn = owners.len() as i64;
    if drawn > last {
        faults.push(format!("{kind:?}: {drawn} were drawn, but the last is {last}"));
    }
    if kind == Kind::Ours && last > drawn + unknown {
        faults
            .push(format!("{kind:?}: {drawn} were drawn and {unknown} are unknown, but the last is {last}"));
    }
    faults.extend(disorder(draws).map(|fault| format!("{kind:?}: {fault}")));
    faults
}

/// Whoever asks when another one has its number already gets a higher one.
fn disorder(draws: &[Draw]) -> Option<String> {
    let number = |draw: &Draw| match draw.outcome {
        Outcome::Drawn(number) => number,
        Outcome::Unknown | Outcome::Refused => i64::MIN,
    };
    let single: Vec<_> = draws.iter().filter(|draw| draw.is_single && number(draw) > i64::MIN).collect();
    let (mut asked, mut answered) = (single.clone(), single);
    asked.sort_by_key(|draw| draw.asked);
    answered.sort_by_key(|draw| draw.answered);
    let mut answered = answered.into_iter().peekable();
    let mut highest: Option<&Draw> = None;
    for draw in asked {
        while let Some(before) = answered.next_if(|before| before.answered < draw.asked) {
            if highest.is_none_or(|highest| number(highest) < number(before)) {
                highest = Some(before);
            }
        }
        if let Some(before) = highest.filter(|highest| number(highest) >= number(draw)) {
            return Some(format!("{draw:?} comes after {before:?}"));
        }
    }
    None
}
