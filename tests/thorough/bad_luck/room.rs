//! The witness: lets holders in, and looks at all guards that are there at that very moment.
//!
//! It looks at those who are inside first, and then at the guard that comes in. A guard that is lost stays so, and the
//! one that comes in was granted before the look: so both were valid at the moment of the first look.

use std::sync::{Arc, Mutex};

use crate::acts::Acts;
use crate::claim::Claim;
use crate::clock;

/// One path.
pub(crate) struct Room {
    pub(crate) path: String,
    /// How many may share it.
    pub(crate) capacity: usize,
    /// What is written under the lock only.
    pub(crate) register: Option<String>,
    inside: Mutex<Vec<Arc<Claim>>>,
}

impl Room {
    pub(crate) fn new(path: &str, capacity: usize, has_register: bool) -> Arc<Self> {
        let name = path.rsplit_once('/').expect("a path below a root").1;
        let register = has_register.then(|| format!("/registers/{name}"));
        Arc::new(Self { path: path.to_owned(), capacity, register, inside: Mutex::default() })
    }

    /// Lets a holder in.
    ///
    /// # Errors
    /// The overlap, if there is one that is not excused.
    pub(crate) fn enter(&self, claim: Arc<Claim>, acts: &Acts) -> Result<(), String> {
        // No clone of a claim leaves this lock, or it would keep a guard for longer than its task does.
        let mut inside = self.inside.lock().unwrap();
        // A writer that reads is one.
        let others = inside.iter().filter(|other| other.owner != claim.owner);
        let valid: Vec<_> = others.filter(|other| other.look()).collect();
        let overlap = if claim.look() { self.overlap(&claim, &valid, acts) } else { None };
        inside.push(claim);
        overlap.map_or(Ok(()), Err)
    }

    fn overlap(&self, claim: &Claim, valid: &[&Arc<Claim>], acts: &Acts) -> Option<String> {
        let now = clock::now();
        let is_excused = |claim: &Claim| claim.act(acts).is_some_and(|act| act.excuses_at(now));
        let beside: Vec<_> = valid.iter().filter(|other| !is_excused(other)).collect();
        let kinds: Vec<_> = beside.iter().map(|other| other.exclusive).collect();
        if is_excused(claim) || fits(&kinds, claim.exclusive, self.capacity) {
            return None;
        }
        let beside: Vec<_> = beside.iter().map(ToString::to_string).collect();
        Some(format!("OVERLAP at {}: {claim} beside {}", self.path, beside.join(" and ")))
    }

    pub(crate) fn leave(&self, claim: &Arc<Claim>) {
        self.inside.lock().unwrap().retain(|other| !Arc::ptr_eq(other, claim));
    }
}

/// Whether one more fits beside these, of each of which it is known whether it is exclusive.
fn fits(beside: &[bool], exclusive: bool, capacity: usize) -> bool {
    let excludes = beside.iter().any(|other| *other || exclusive);
    !excludes && beside.len() < capacity
}

/// Shows that the witness knows an overlap.
pub(crate) fn notices_overlaps() {
    let (shared, exclusive) = (false, true);
    assert!(fits(&[], exclusive, 1) && fits(&[shared], shared, 2));
    assert!(!fits(&[exclusive], exclusive, 1) && !fits(&[exclusive], shared, 9));
    assert!(!fits(&[shared], exclusive, 9) && !fits(&[shared, shared], shared, 2));
}
