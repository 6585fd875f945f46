//! What each change at the servers is compared with.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;
use zk_recipes::testing::{MemoryEnsemble, Observed, ObservedKind};

use crate::log::violation;
use crate::plan::Plan;

type Valid = Rc<dyn Fn() -> bool>;
type History = Vec<(Instant, Option<Vec<u8>>)>;

#[derive(Default)]
struct Judge {
    /// Nodes that no one but an operator may delete, and for how long.
    kept: BTreeMap<String, Vec<(String, Valid)>>,
    registers: BTreeMap<String, Register>,
    /// What the data of nodes became, and when.
    histories: BTreeMap<String, History>,
    /// What operators have deleted, and when.
    taken_away: BTreeMap<String, Instant>,
    /// How soon a holder must have heard of that.
    hearing: Duration,
}

/// A node that only holders write, with their tokens.
#[derive(Debug, Default)]
struct Register {
    written: (i64, u64),
    granted: (i64, u64),
}

thread_local! {
    static JUDGE: RefCell<Judge> = RefCell::default();
}

/// So many nodes may be kept before those that are over are looked for.
const MANY: usize = 4_000;

pub(crate) fn watch(servers: &MemoryEnsemble, plan: &Plan) {
    // A hold is watched after a second; who hears nothing believes for two thirds of the session timeout.
    let hearing = plan.session_timeout + Duration::from_secs(2);
    JUDGE.with_borrow_mut(|judge| judge.hearing = if plan.is_prompt() { hearing } else { Duration::MAX });
    servers.observe(|change| {
        remember(change);
        match (&change.kind, &change.data) {
            (ObservedKind::Deleted, _) => deleted(change),
            (ObservedKind::DataChanged, Some(data)) => written(change, data),
            _ => {}
        }
    });
}

/// Forgets what was before.
pub(crate) fn reset() {
    JUDGE.take();
}

/// While something is valid, no one but an operator deletes its node.
pub fn keep(path: &str, what: String, valid: impl Fn() -> bool + 'static) {
    // Whether they are valid, the judge may be asked.
    let mut kept = JUDGE.with_borrow_mut(|judge| mem::take(&mut judge.kept));
    if kept.len() > MANY {
        kept.retain(|_, keepers| {
            keepers.retain(|(_, valid)| valid());
            !keepers.is_empty()
        });
    }
    kept.entry(path.to_owned()).or_default().push((what, Rc::new(valid)));
    JUDGE.with_borrow_mut(|judge| judge.kept = kept);
}

/// From now on, a node is written only with tokens that grow.
pub fn register(path: &str) {
    JUDGE.with_borrow_mut(|judge| judge.registers.insert(path.to_owned(), Register::default()));
}

/// From now on, nothing with a smaller token is written to a register.
pub fn granted(path: &str, token: (i64, u64)) {
    JUDGE.with_borrow_mut(|judge| {
        if let Some(register) = judge.registers.get_mut(path) {
            register.granted = register.granted.max(token);
        }
    });
}

/// From now on, it is remembered what the data of a node becomes. There is no such node yet.
pub fn record(path: &str) {
    JUDGE.with_borrow_mut(|judge| judge.histories.insert(path.to_owned(), vec![(Instant::now(), None)]));
}

/// Whether the data of a node was such at some time since then. What is read in between must have been.
pub fn was(path: &str, since: Instant, is: impl Fn(Option<&[u8]>) -> bool) -> bool {
    JUDGE.with_borrow(|judge| {
        let history = &judge.histories[path];
        let later = history.iter().rev().take_while(|(at, _)| *at >= since).count();
        history.iter().rev().take(later + 1).any(|(_, data)| is(data.as_deref()))
    })
}

/// Whether such data took the place of such other data at some time since then. What is written in between must have.
pub fn became(path: &str, since: Instant, is: impl Fn(Option<&[u8]>, Option<&[u8]>) -> bool) -> bool {
    JUDGE.with_borrow(|judge| {
        let changes = judge.histories[path].windows(2).rev();
        changes
            .take_while(|pair| pair[1].0 >= since)
            .any(|pair| is(pair[0].1.as_deref(), pair[1].1.as_deref()))
    })
}

fn remember(change: &Observed) {
    JUDGE.with_borrow_mut(|judge| {
        if let Some(history) = judge.histories.get_mut(&change.path) {
            history.push((Instant::now(), change.data.clone()));
        }
    });
}

/// Whether an operator took a node away so shortly ago that who held by it may have not heard of it.
pub fn is_excused(path: &str) -> bool {
    JUDGE.with_borrow(|judge| judge.taken_away.get(path).is_some_and(|at| at.elapsed() < judge.hearing))
}

/// What a holder writes to a register.
pub fn to_data((token, turn): (i64, u64)) -> Vec<u8> {
    [token.to_be_bytes(), turn.to_be_bytes()].concat()
}

fn of_data(data: &[u8]) -> Option<(i64, u64)> {
    let (token, turn) = data.split_first_chunk()?;
    Some((i64::from_be_bytes(*token), u64::from_be_bytes(turn.try_into().ok()?)))
}

fn deleted(change: &Observed) {
    let kept = JUDGE.with_borrow_mut(|judge| judge.kept.remove(&change.path));
    if change.is_by_operator {
        JUDGE.with_borrow_mut(|judge| judge.taken_away.insert(change.path.clone(), Instant::now()));
        return;
    }
    for (what, _) in kept.into_iter().flatten().filter(|(_, valid)| valid()) {
        violation(format!("{} is deleted (zxid {:#x}) while {what} is valid", change.path, change.zxid));
    }
}

fn written(change: &Observed, data: &[u8]) {
    JUDGE.with_borrow_mut(|judge| {
        let Some(register) = judge.registers.get_mut(&change.path) else { return };
        let Some(token) = of_data(data) else { return };
        let Register { written, granted } = register;
        if token < *written || token < *granted {
            let path = &change.path;
            violation(format!(
                "{path} is written with {token:?} after {written:?} and the grant of {granted:?}"
            ));
        }
        *written = token.max(*written);
    });
}
