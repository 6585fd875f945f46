//! The operations of one process on one number, which are written together. Decides what is written, and what each
//! operation is answered. No I/O, no clock.

use std::collections::BTreeMap;

/// An operation on the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Add(i64),
    /// Writes `new` if the number is `expected`.
    Exchange {
        expected: i64,
        new: i64,
    },
    Swap(i64),
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It was done; the number was this before.
    Done(i64),
    /// The number is this one, so nothing was done.
    Mismatch(i64),
    /// The number is this one, and the sum is none.
    Overflow(i64),
}

/// The number of an operation, in the order of their arrival.
pub(super) type Id = u64;

/// An operation, and what it has met so far.
#[derive(Clone, Copy, Debug)]
struct Entry {
    op: Op,
    conflicts: u32,
    has_lock_to_try: bool,
}

/// An operation that is part of the write under way, with its answer if that succeeds.
#[derive(Debug)]
struct Sent {
    id: Id,
    entry: Entry,
    answer: Answer,
    /// Its caller is gone, so it must not be sent again.
    is_withdrawn: bool,
}

/// Operations that wait for their turn, and those that are being written.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// In the order of their arrival, as those that were sent are.
    waiting: BTreeMap<Id, Entry>,
    sent: Vec<Sent>,
    /// What those that were sent write.
    new: i64,
    next: Id,
}

/// What to do about the operations that wait.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Composed {
    /// Write this number, if the node still is as it was read.
    pub(super) write: Option<i64>,
    /// Answer these: there is nothing to write for them.
    pub(super) answers: Vec<(Id, Answer)>,
}

impl Op {
    /// Returns the answer and the number after it.
    fn apply(self, value: i64) -> (Answer, i64) {
        match self {
            Self::Add(delta) => match value.checked_add(delta) {
                Some(sum) => (Answer::Done(value), sum),
                None => (Answer::Overflow(value), value),
            },
            Self::Exchange { expected, new } if expected == value => (Answer::Done(value), new),
            Self::Exchange { .. } => (Answer::Mismatch(value), value),
            Self::Swap(new) => (Answer::Done(value), new),
        }
    }
}

impl Answer {
    fn is_done(self) -> bool {
        matches!(self, Self::Done(_))
    }
}

impl Batch {
    /// Adds an operation. When it keeps failing, it is one of the [`failing`](Self::failing) if it has a lock to try.
    pub(super) fn enqueue(&mut self, op: Op, has_lock_to_try: bool) -> Id {
        let id = self.next;
        self.next += 1;
        self.waiting.insert(id, Entry { op, conflicts: 0, has_lock_to_try });
        id
    }

    /// Returns the id that the next operation will have.
    pub(super) fn next_id(&self) -> Id {
        self.next
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.sent.is_empty()
    }

    /// Takes an operation back. One that is being written is not sent again; any other is never done.
    pub(super) fn withdraw(&mut self, id: Id) {
        self.waiting.remove(&id);
        if let Ok(at) = self.sent.binary_search_by_key(&id, |sent| sent.id) {
            self.sent[at].is_withdrawn = true;
        }
    }

    /// Decides what to write over `value`, on behalf of all operations that wait. If none of them has anything to
    /// write, answers those that arrived before `fresh_before`, since the value was read after that.
    pub(super) fn compose(&mut self, value: i64, fresh_before: Id) -> Composed {
        debug_assert!(self.sent.is_empty(), "one write at a time");
        let mut now = value;
        let mut is_to_be_written = false;
        let answers: Vec<Answer> = self
            .waiting
            .values()
            .map(|entry| {
                let (answer, after) = entry.op.apply(now);
                is_to_be_written |= answer.is_done();
                now = after;
                answer
            })
            .collect();
        if is_to_be_written {
            let sent = std::mem::take(&mut self.waiting).into_iter().zip(answers);
            let sent = sent.map(|((id, entry), answer)| Sent { id, entry, answer, is_withdrawn: false });
            self.sent = sent.collect();
            self.new = now;
            return Composed { write: Some(now), answers: Vec::new() };
        }
        Composed { write: None, answers: self.take_before(fresh_before).zip(answers).collect() }
    }

    /// Returns what the number will be when all operations are written over what is `known`, in the order in which they
    /// stand.
    pub(super) fn foresee(&self, known: Option<i64>) -> Option<i64> {
        let value = if self.is_sending() { self.new } else { known? };
        Some(self.waiting.values().fold(value, |value, entry| entry.op.apply(value).1))
    }

    /// The write was done. Returns the answers.
    pub(super) fn written(&mut self) -> Vec<(Id, Answer)> {
        self.sent.drain(..).map(|sent| (sent.id, sent.answer)).collect()
    }

    /// The write was not sent: all operations that were not withdrawn wait again.
    pub(super) fn unsent(&mut self) {
        let again = self.sent.drain(..).filter(|sent| !sent.is_withdrawn);
        self.waiting.extend(again.map(|sent| (sent.id, sent.entry)));
    }

    /// Whether operations are being written.
    pub(super) fn is_sending(&self) -> bool {
        !self.sent.is_empty()
    }

    /// The write was not done, because somebody else has written: all operations wait again, in the same order.
    pub(super) fn conflict(&mut self) {
        for sent in self.sent.drain(..).filter(|sent| !sent.is_withdrawn) {
            let conflicts = sent.entry.conflicts.saturating_add(1);
            self.waiting.insert(sent.id, Entry { conflicts, ..sent.entry });
        }
    }

    /// Takes back those that wait, have a lock to try, and have met this many conflicts. They are not done.
    pub(super) fn failing(&mut self, conflicts: u32) -> Vec<Id> {
        let mut failing = Vec::new();
        self.waiting.retain(|id, entry| {
            let is_failing = entry.has_lock_to_try && entry.conflicts >= conflicts;
            if is_failing {
                failing.push(*id);
            }
            !is_failing
        });
        failing
    }

    /// The write failed, or may have failed. Returns the operations that it was for; the others wait again.
    pub(super) fn failed(&mut self) -> Vec<Id> {
        let mut failed = Vec::new();
        for sent in self.sent.drain(..) {
            if sent.answer.is_done() {
                failed.push(sent.id);
            } else if !sent.is_withdrawn {
                self.waiting.insert(sent.id, sent.entry);
            }
        }
        failed
    }

    /// Gives up all operations that wait and arrived before this one, and returns them.
    pub(super) fn give_up(&mut self, before: Id) -> Vec<Id> {
        self.take_before(before).collect()
    }

    fn take_before(&mut self, id: Id) -> impl Iterator<Item = Id> {
        let later = self.waiting.split_off(&id);
        std::mem::replace(&mut self.waiting, later).into_keys()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Enqueue(Op, bool),
        Withdraw(usize),
        /// Takes back those that have met two conflicts.
        Promote,
        /// Somebody else adds.
        Other(i64),
        /// Composes by a value that is fresh, or by the last one known.
        Compose {
            fresh: bool,
        },
        /// What was composed cannot be sent.
        Unsent,
        /// The reply to the write: as it is, or lost.
        Reply {
            lost: bool,
            arrived: bool,
        },
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (1_i64..4).prop_map(Op::Add),
            1 => Just(Op::Add(i64::MAX)),
            2 => (0_i64..6, 0_i64..6).prop_map(|(expected, new)| Op::Exchange { expected, new }),
            1 => (0_i64..6).prop_map(Op::Swap),
        ]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (op(), any::<bool>()).prop_map(|(op, has_lock)| Step::Enqueue(op, has_lock)),
            1 => Just(Step::Promote),
            1 => (0_usize..8).prop_map(Step::Withdraw),
            1 => (1_i64..3).prop_map(Step::Other),
            4 => any::<bool>().prop_map(|fresh| Step::Compose { fresh }),
            1 => Just(Step::Unsent),
            4 => (prop::bool::weighted(0.2), any::<bool>()).prop_map(|(lost, arrived)| Step::Reply { lost, arrived }),
        ]
    }

    /// A server with one number, and what was done to it in order.
    struct Play {
        batch: Batch,
        value: i64,
        version: u64,
        known: (i64, u64),
        write: Option<i64>,
        ops: Vec<Op>,
        /// Which have a lock to try.
        locks: Vec<bool>,
        conflicts: BTreeMap<Id, u32>,
        /// Those that the server has carried out, with the number before each.
        done: BTreeMap<Id, i64>,
        unknown: BTreeSet<Id>,
        answered: BTreeMap<Id, Answer>,
        /// Withdrawn or promoted while they waited.
        never: BTreeSet<Id>,
    }

    impl Play {
        fn write(&mut self, value: i64) {
            self.value = value;
            self.version += 1;
        }

        /// The server carries out what the batch has sent.
        fn carry_out(&mut self, new: i64) -> bool {
            if self.known.1 != self.version {
                return false;
            }
            let mut now = self.value;
            for sent in &self.batch.sent {
                let (answer, after) = self.ops[sent.id as usize].apply(now);
                assert_eq!(answer, sent.answer, "each answer is that of the order in which they stand");
                if answer.is_done() {
                    let again = self.done.insert(sent.id, now);
                    assert!(again.is_none(), "done twice");
                }
                now = after;
            }
            assert_eq!(now, new);
            self.write(new);
            true
        }

        fn answer(&mut self, answers: Vec<(Id, Answer)>) {
            for (id, answer) in answers {
                assert!(self.answered.insert(id, answer).is_none(), "answered twice");
            }
        }

        fn play(&mut self, step: Step) {
            match step {
                Step::Enqueue(op, has_lock) => {
                    self.batch.enqueue(op, has_lock);
                    self.ops.push(op);
                    self.locks.push(has_lock);
                }
                Step::Promote => {
                    for id in self.batch.failing(2) {
                        assert!(self.locks[id as usize], "it has no lock");
                        assert!(self.conflicts.get(&id) >= Some(&2), "it has not failed twice");
                        self.never.insert(id);
                    }
                }
                Step::Withdraw(nth) if nth < self.ops.len() => {
                    let id = nth as Id;
                    if self.batch.waiting.contains_key(&id) {
                        self.never.insert(id);
                    }
                    self.batch.withdraw(id);
                }
                Step::Withdraw(_) => {}
                Step::Other(delta) => self.write(self.value.wrapping_add(delta)),
                Step::Compose { fresh } if self.write.is_none() => {
                    if fresh {
                        self.known = (self.value, self.version);
                    }
                    let fresh_before = if fresh { self.batch.next_id() } else { 0 };
                    let foreseen = self.batch.foresee(Some(self.known.0));
                    let composed = self.batch.compose(self.known.0, fresh_before);
                    self.write = composed.write;
                    assert_eq!(foreseen, Some(self.write.unwrap_or(self.known.0)));
                    assert!(composed.answers.iter().all(|(_, answer)| !answer.is_done()));
                    self.answer(composed.answers);
                    if fresh && self.write.is_none() {
                        assert!(self.batch.is_idle(), "a fresh value is enough to go on");
                    }
                }
                Step::Compose { .. } => {}
                Step::Unsent => {
                    self.write = None;
                    let sent = self.batch.sent.iter().filter(|sent| sent.is_withdrawn);
                    self.never.extend(sent.map(|sent| sent.id));
                    self.batch.unsent();
                }
                Step::Reply { lost, arrived } => {
                    let Some(new) = self.write.take() else { return };
                    if lost {
                        if arrived {
                            self.carry_out(new);
                        }
                        let failed = self.batch.failed();
                        self.unknown.extend(failed);
                    } else if self.carry_out(new) {
                        self.known = (new, self.version);
                        let answers = self.batch.written();
                        self.answer(answers);
                    } else {
                        for sent in &self.batch.sent {
                            *self.conflicts.entry(sent.id).or_default() += 1;
                        }
                        self.batch.conflict();
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn each_operation_is_done_once_or_not_at_all(steps in prop::collection::vec(step(), 1..40)) {
            let mut play = Play {
                batch: Batch::default(), value: 0, version: 0, known: (0, 0), write: None, ops: Vec::new(),
                locks: Vec::new(), conflicts: BTreeMap::new(),
                done: BTreeMap::new(), unknown: BTreeSet::new(), answered: BTreeMap::new(), never: BTreeSet::new(),
            };
            for step in steps {
                play.play(step);
            }
            for (id, answer) in &play.answered {
                match answer {
                    Answer::Done(before) => prop_assert_eq!(play.done.get(id), Some(before)),
                    _ => prop_assert!(!play.done.contains_key(id)),
                }
            }
            for id in play.done.keys() {
                let is_told = play.answered.contains_key(id) || play.unknown.contains(id);
                prop_assert!(is_told, "{id} was done, and nobody knows");
                prop_assert!(!play.never.contains(id), "{id} was taken back before it was sent");
            }
        }
    }

    #[test]
    fn an_overflow_concerns_one_operation_only() {
        let mut batch = Batch::default();
        for delta in [1, i64::MAX, 2] {
            batch.enqueue(Op::Add(delta), false);
        }
        assert_eq!(batch.compose(5, 0).write, Some(8));
        let answers = [(0, Answer::Done(5)), (1, Answer::Overflow(6)), (2, Answer::Done(6))];
        assert_eq!(batch.written(), answers);
    }

    #[test]
    fn an_old_value_answers_nothing() {
        let mut batch = Batch::default();
        batch.enqueue(Op::Exchange { expected: 1, new: 2 }, false);
        assert_eq!(batch.compose(5, 0), Composed::default());
        assert_eq!(batch.compose(5, 1).answers, [(0, Answer::Mismatch(5))]);
        assert!(batch.is_idle());
    }

    #[test]
    fn the_number_is_foreseen_behind_all_operations() {
        let mut batch = Batch::default();
        assert_eq!((batch.foresee(None), batch.foresee(Some(5))), (None, Some(5)));
        batch.enqueue(Op::Add(1), false);
        batch.enqueue(Op::Exchange { expected: 6, new: 9 }, false);
        assert_eq!((batch.foresee(None), batch.foresee(Some(5))), (None, Some(9)));
        batch.compose(5, 0);
        // By what is being written, and not by what was known before.
        batch.enqueue(Op::Add(1), false);
        assert_eq!((batch.foresee(None), batch.foresee(Some(5))), (Some(10), Some(10)));
        batch.written();
        assert_eq!((batch.foresee(None), batch.foresee(Some(9))), (None, Some(10)));
    }

    /// Searching for each of them would take minutes.
    #[test]
    fn many_operations_are_withdrawn_quickly() {
        const MANY: u64 = 100_000;
        let begin = std::time::Instant::now();
        let mut batch = Batch::default();
        for _ in 0..MANY {
            batch.enqueue(Op::Add(1), false);
        }
        batch.compose(0, 0);
        for _ in 0..MANY {
            batch.enqueue(Op::Add(1), false);
        }
        for id in (0..2 * MANY).rev() {
            batch.withdraw(id);
        }
        batch.conflict();
        assert!(batch.is_idle());
        assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{:?}", begin.elapsed());
    }
}
