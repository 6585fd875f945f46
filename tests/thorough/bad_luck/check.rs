//! Checks what was recorded of a path for linearizability, by the tester of stateright.
//!
//! Recorded is of each hold: its acquire, from the call to the moment at which its task had the guard; its release, from
//! the last look that found the guard valid; the reads of the register that were done while it was valid; and its
//! transactions. A hold whose maximum time was over is released at that time, as `valid_until` tells; one that was lost
//! otherwise, after the last look that found it valid. One that the operator ended is released from the beginning of
//! that act. Not recorded are acquires that give no guard, guards of an owner that holds already, what was not done for
//! certain (refused transactions), and a hold that begins when the operator has deleted its node already.
//!
//! A transaction of which it is not known whether it was done may take effect at any later time, or never; and a hold that
//! was lost while one was on its way is released at any time after the loss. Until then nobody else may hold: that is the
//! specification's rule, and so a write that takes effect under the next holder is refused.
//!
//! The tester is exponential, so it is given no more freedom than matters. An acquire may take effect when it returns, and
//! a release without such a transaction when it begins: nobody else sees the difference, except that others could come in
//! sooner. And a history is cut into windows, where no write is open, behind a read, so that the state is known there:
//! those who hold, and what the register says. An acquire that is open there is one of the next window, and a read is left
//! out if it began before the last write of the window ended.

use std::collections::VecDeque;

use stateright::semantics::{ConsistencyTester, LinearizabilityTester};

use crate::spec::{Holder, Op, Path, Ret};

/// After so many steps a window is closed when it can be.
const LENGTH: usize = 24;
/// After so many it is closed even if the register's value is not known then.
const LONGEST: usize = 60;
/// So many steps later, none is of the same time.
const NEAR: usize = 200;

/// A step of a history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) op: Op,
    pub(crate) from: u64,
    /// `None` if it was never confirmed.
    pub(crate) until: Option<u64>,
    pub(crate) ret: Ret,
}

impl Step {
    fn is_write(&self) -> bool {
        matches!(self.op, Op::Write { .. } | Op::Overwrite)
    }

    /// When it takes effect as far as can be told: only the order in which the tester tries.
    fn probably_at(&self) -> u64 {
        match self.op {
            Op::Release { .. } => self.from,
            _ => self.until.unwrap_or(u64::MAX),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) windows: u64,
    pub(crate) steps: u64,
    /// Windows that were closed without knowing the register.
    pub(crate) forgetful: u64,
    pub(crate) faults: Vec<String>,
}

/// Checks the whole history of one path.
pub(crate) fn check(name: &str, path: Path, steps: Vec<Step>) -> Checked {
    let mut checked = Checked::default();
    let mut history = History::of(steps);
    let mut state = path;
    while let Some(window) = history.next_window(&state) {
        checked.windows += 1;
        checked.steps += window.steps.len() as u64;
        checked.forgetful += u64::from(history.keeps_register && window.after.value.is_none());
        if !is_linearizable(&state, &window.steps) {
            checked.faults.push(describe(name, &state, &window.steps));
        }
        state = window.after;
    }
    checked
}

/// What is left of the history of one path.
struct History {
    /// In the order in which they probably took effect.
    steps: VecDeque<Step>,
    /// Transactions of which it is not known whether they were done.
    unknown: Vec<Step>,
    keeps_register: bool,
}

struct Window {
    steps: Vec<Step>,
    after: Path,
}

impl History {
    fn of(mut steps: Vec<Step>) -> Self {
        steps.sort_by_key(Step::probably_at);
        for index in 1..steps.len() {
            let before = steps[index - 1].probably_at();
            if matches!(steps[index].op, Op::Acquire { .. }) {
                steps[index].from = steps[index].from.max(before);
            }
        }
        let keeps_register = steps.iter().any(|step| matches!(step.op, Op::Read { .. } | Op::Write { .. }));
        let (unknown, steps) =
            steps.into_iter().partition(|step: &Step| step.is_write() && step.until.is_none());
        Self { steps: Vec::into(steps), unknown, keeps_register }
    }

    fn next_window(&mut self, before: &Path) -> Option<Window> {
        let mut end = self.steps.len();
        let mut value = None;
        for (index, step) in self.steps.iter().enumerate().skip(LENGTH) {
            let at = step.probably_at();
            let is_last_at_that_time = self.steps.get(index + 1).is_none_or(|next| next.probably_at() > at);
            let is_read = matches!(step.op, Op::Read { .. });
            let closes = !self.keeps_register || is_read || index >= LONGEST;
            if is_last_at_that_time && closes && self.is_quiet(index, at) {
                end = index + 1;
                value = match step.ret {
                    Ret::Value(value) => Some(value),
                    _ => None,
                };
                break;
            }
        }
        let mut steps: Vec<Step> = self.steps.drain(..end).collect();
        let at = steps.last()?.probably_at();
        let is_last = self.steps.is_empty();
        // What was begun belongs here, since it is settled.
        let (begun, later) = self.unknown.drain(..).partition(|step| is_last || step.from <= at);
        self.unknown = later;
        steps.extend::<Vec<Step>>(begun);
        // A read that goes on may tell what was there before a write of this window. It is left out.
        let written = steps.iter().filter(|step| step.is_write()).map(|step| step.until.unwrap_or(at)).max();
        self.steps.retain(|step| !matches!(step.op, Op::Read { .. }) || Some(step.from) > written);
        let after = state_after(before, &steps, value, self.keeps_register);
        Some(Window { steps, after })
    }

    /// Whether no write is open from the beginning of the step with this index on until it ends, at that time.
    fn is_quiet(&self, index: usize, at: u64) -> bool {
        let begin = self.steps[index].from;
        let mut near = self.steps.iter().take(index + NEAR);
        let is_open = |step: &Step| step.is_write() && step.from <= at && step.until >= Some(begin);
        let is_unknown_open = |step: &Step| step.from <= at && !self.is_settled(step, begin);
        !near.any(is_open) && !self.unknown.iter().any(is_unknown_open)
    }

    /// Whether somebody else had got the lock for itself by that time, so that a write of which nothing is known was done
    /// before, or never will be. A reader that was a writer writes as well, and another reader does not wait for it.
    fn is_settled(&self, write: &Step, time: u64) -> bool {
        let Op::Write { hold, .. } = write.op else { return true };
        let mut released = false;
        self.steps.iter().take_while(|step| step.probably_at() < time).any(|step| match step.op {
            Op::Release { hold: other } if other == hold => {
                released = true;
                false
            }
            Op::Acquire { hold: other, holder, .. } => released && holder.exclusive && other != hold,
            _ => false,
        })
    }
}

/// What is certain at the end of a window.
fn state_after(before: &Path, steps: &[Step], value: Option<u64>, keeps_register: bool) -> Path {
    let mut after = before.clone();
    for step in steps {
        match step.op {
            Op::Acquire { hold, holder, token } => {
                after.holders.insert(hold, holder);
                after.newest_token = after.newest_token.max(token);
                if holder.exclusive {
                    after.newest_exclusive_token = after.newest_exclusive_token.max(token);
                }
            }
            Op::Release { hold } => {
                after.holders.remove(&hold);
            }
            Op::Read { .. } | Op::Write { .. } | Op::Overwrite => {}
        }
    }
    if keeps_register {
        after.value = value;
    }
    after
}

fn is_linearizable(before: &Path, steps: &[Step]) -> bool {
    /// In the order of time; of the same time a beginning is before an end, so that both are at once.
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum Moment {
        Begin,
        End,
    }
    let mut moments = Vec::new();
    for (thread, step) in steps.iter().enumerate() {
        moments.push((step.from, Moment::Begin, thread));
        moments.extend(step.until.map(|until| (until.max(step.from), Moment::End, thread)));
    }
    moments.sort();
    let mut tester = LinearizabilityTester::new(before.clone());
    for (_, moment, thread) in moments {
        let step = &steps[thread];
        // Each is a thread of its own: who does what is the specification's business.
        let taken = match moment {
            Moment::Begin => tester.on_invoke(thread, step.op).map(|_| ()),
            Moment::End => tester.on_return(thread, step.ret).map(|_| ()),
        };
        taken.expect("a step begins before it ends, and once");
    }
    tester.is_consistent()
}

fn describe(name: &str, before: &Path, steps: &[Step]) -> String {
    let origin = steps.iter().map(|step| step.from).min().unwrap_or_default();
    let time = |time: u64| time.saturating_sub(origin) as f64 / 1e9;
    let mut text = format!("NOT LINEARIZABLE at {name}, from {before:?}:");
    for step in steps {
        let until = step.until.map_or("?".to_owned(), |until| format!("{:.6}", time(until)));
        text += &format!("\n  {:.6} to {until}: {:?} {:?}", time(step.from), step.op, step.ret);
    }
    text
}

/// Shows that a broken history is refused, and a sound one is not.
pub(crate) fn refuses_broken_histories() {
    const WRITER: Holder = Holder { owner: 0, exclusive: true };
    let step = |op, from, until: u64, ret| Step { op, from, until: (until > 0).then_some(until), ret };
    let acquire = |hold, from, until| {
        let holder = Holder { owner: hold, ..WRITER };
        step(Op::Acquire { hold, holder, token: hold as i64 }, from, until, Ret::Done)
    };
    let share = |hold, from, until| {
        let holder = Holder { owner: hold, exclusive: false };
        step(Op::Acquire { hold, holder, token: hold as i64 }, from, until, Ret::Done)
    };
    let release = |hold, from, until| step(Op::Release { hold }, from, until, Ret::Done);
    let read = |hold, from, until, value| step(Op::Read { hold }, from, until, Ret::Value(value));
    let write = |hold, from, until, value| step(Op::Write { hold, value }, from, until, Ret::Done);
    let verdict = |what: &str, capacity, is_sound: bool, steps: &[Step]| {
        // At the end of many sound steps, so that it is found in a later window as well.
        for sound_before in [0, 50] {
            let mut all = Vec::new();
            for hold in 0..sound_before {
                let at = 10 * hold;
                all.push(share(hold + 1, at, at + 1));
                all.push(read(hold + 1, at + 2, at + 3, 0));
                all.push(release(hold + 1, at + 4, at + 5));
            }
            let later = 10 * sound_before;
            all.extend(steps.iter().map(|step| {
                let later_hold = |hold| hold + sound_before;
                let op = match step.op {
                    Op::Acquire { hold, holder, token } => Op::Acquire {
                        hold: later_hold(hold),
                        holder: Holder { owner: later_hold(holder.owner), ..holder },
                        token: token + sound_before as i64,
                    },
                    Op::Release { hold } => Op::Release { hold: later_hold(hold) },
                    Op::Read { hold } => Op::Read { hold: later_hold(hold) },
                    Op::Write { hold, value } => Op::Write { hold: later_hold(hold), value },
                    Op::Overwrite => Op::Overwrite,
                };
                Step { op, from: step.from + later, until: step.until.map(|until| until + later), ..*step }
            }));
            let checked = check("the self-check", Path::new(capacity), all);
            assert_eq!(checked.faults.is_empty(), is_sound, "{what}: {checked:#?}");
        }
    };
    let queue = [acquire(1, 1, 3), acquire(2, 2, 7), release(1, 5, 6), release(2, 9, 10)];
    verdict("one after the other", 1, true, &queue);
    verdict(
        "two holders",
        1,
        false,
        &[acquire(1, 1, 3), acquire(2, 2, 4), release(1, 5, 6), release(2, 9, 10)],
    );
    verdict(
        "a smaller token",
        1,
        false,
        &[acquire(2, 1, 3), release(2, 5, 6), acquire(1, 7, 8), release(1, 9, 10)],
    );
    verdict(
        "a reader beside a writer",
        9,
        false,
        &[acquire(1, 1, 3), share(2, 2, 4), release(1, 5, 6), release(2, 9, 10)],
    );
    let three = [share(1, 1, 3), share(2, 2, 4), share(3, 2, 5), release(1, 8, 9), release(2, 8, 9)];
    verdict("three of three permits", 3, true, &three);
    verdict("three of two permits", 2, false, &three);
    let loss = [acquire(1, 1, 3), write(1, 4, 9, 7), release(1, 5, 0)];
    let reads = |first, second| {
        [acquire(2, 2, 10), read(2, 11, 12, first), read(2, 13, 14, second), release(2, 15, 16)]
    };
    verdict("a write before the next holder", 1, true, &[&loss[..], &reads(7, 7)].concat());
    verdict("a write that is not read", 1, false, &[&loss[..], &reads(0, 0)].concat());
    let unknown = [acquire(1, 1, 3), write(1, 4, 0, 7), release(1, 5, 0)];
    verdict("a write that was done or not: done", 1, true, &[&unknown[..], &reads(7, 7)].concat());
    verdict("a write that was done or not: not", 1, true, &[&unknown[..], &reads(0, 0)].concat());
    verdict("a write under the next holder, unconfirmed", 1, false, &[&unknown[..], &reads(0, 7)].concat());
    let reads_on = |value| {
        let mut steps = vec![share(1, 1, 3), share(2, 2, 4), write(2, 6, 9, 7), read(1, 5, 99, value)];
        steps.extend((5..35).map(|at| read(2, 2 * at, 2 * at + 1, 7)));
        steps.extend([release(1, 100, 101), release(2, 100, 101)]);
        steps
    };
    verdict("a read that began before a write, and ends long after it", 9, true, &reads_on(0));
    let beside = |first: u64| {
        let mut steps =
            vec![share(1, 1, 3), share(2, 2, 4), write(1, 5, 0, 7), release(1, 6, 0), share(3, 8, 9)];
        steps.extend((5..35).map(|at| read(2, 2 * at, 2 * at + 1, if at < first { 0 } else { 7 })));
        steps.extend([release(2, 80, 81), release(3, 80, 81)]);
        steps
    };
    verdict("a reader's write, unconfirmed, that takes effect late", 9, true, &beside(34));
    let late = [acquire(1, 1, 3), write(1, 4, 20, 7), release(1, 5, 0)];
    verdict("a write under the next holder, confirmed", 1, false, &[&late[..], &reads(0, 7)].concat());
    println!("self-check: broken histories are refused, two holders and a late write among them");
}
