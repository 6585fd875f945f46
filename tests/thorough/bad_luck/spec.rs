//! What the locks promise, as sequential objects for stateright's `LinearizabilityTester`.

use std::collections::BTreeMap;

use stateright::semantics::SequentialSpec;

/// A path: who holds it, and what was written under it.
///
/// A mutex is one that nobody shares; a read/write lock has both; a semaphore is one that all share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Path {
    pub(crate) capacity: usize,
    /// By the number of the hold.
    pub(crate) holders: BTreeMap<u64, Holder>,
    /// The register; `None` while it is not known.
    pub(crate) value: Option<u64>,
    pub(crate) newest_token: i64,
    pub(crate) newest_exclusive_token: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) owner: u64,
    pub(crate) exclusive: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Acquire {
        hold: u64,
        holder: Holder,
        token: i64,
    },
    Release {
        hold: u64,
    },
    Read {
        hold: u64,
    },
    Write {
        hold: u64,
        value: u64,
    },
    /// By a holder of whom it is not known when it held, since the operator interfered.
    Overwrite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ret {
    Done,
    Value(u64),
    /// It cannot be done now.
    Refused,
}

impl Path {
    pub(crate) fn new(capacity: usize) -> Self {
        let (holders, value) = (BTreeMap::new(), Some(0));
        Self { capacity, holders, value, newest_token: 0, newest_exclusive_token: 0 }
    }

    fn acquire(&mut self, hold: u64, holder: Holder, token: i64) -> Ret {
        let mut others = self.holders.values().filter(|other| other.owner != holder.owner);
        let shared = self.holders.values().filter(|other| !other.exclusive).count();
        // A reader has the token of the writer that it was.
        let (is_free, is_new) = if holder.exclusive {
            (others.next().is_none(), token > self.newest_token)
        } else {
            let is_free = others.all(|other| !other.exclusive) && shared < self.capacity;
            (is_free, token >= self.newest_exclusive_token)
        };
        if !is_free || !is_new {
            return Ret::Refused;
        }
        self.newest_token = self.newest_token.max(token);
        if holder.exclusive {
            self.newest_exclusive_token = token;
        }
        self.holders.insert(hold, holder);
        Ret::Done
    }
}

impl SequentialSpec for Path {
    type Op = Op;
    type Ret = Ret;

    fn invoke(&mut self, op: &Op) -> Ret {
        match *op {
            Op::Acquire { hold, holder, token } => self.acquire(hold, holder, token),
            Op::Release { hold } if self.holders.remove(&hold).is_some() => Ret::Done,
            Op::Read { hold } if self.holders.contains_key(&hold) => {
                self.value.map_or(Ret::Refused, Ret::Value)
            }
            Op::Write { hold, value } if self.holders.contains_key(&hold) => {
                self.value = Some(value);
                Ret::Done
            }
            Op::Overwrite => {
                self.value = None;
                Ret::Done
            }
            _ => Ret::Refused,
        }
    }

    fn is_valid_step(&mut self, op: &Op, ret: &Ret) -> bool {
        // The first read tells what is not known.
        if let (Op::Read { hold }, Ret::Value(value), None) = (op, ret, self.value)
            && self.holders.contains_key(hold)
        {
            self.value = Some(*value);
        }
        self.invoke(op) == *ret
    }
}
