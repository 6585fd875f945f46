//! Parts of a world that most steps leave as they are.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use super::checker::fingerprint;

/// Shared by the states that have it, until one changes it; and hashed once.
#[derive(Clone, Debug)]
pub(crate) struct Shared<T>(Rc<Part<T>>);

#[derive(Clone, Debug)]
struct Part<T> {
    value: T,
    fingerprint: Cell<Option<u64>>,
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Rc::new(Part { value, fingerprint: Cell::new(None) }))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        let part = Rc::make_mut(&mut self.0);
        part.fingerprint.set(None);
        &mut part.value
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl<T: Hash> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let hashed = self.0.fingerprint.get().unwrap_or_else(|| fingerprint(&**self));
        self.0.fingerprint.set(Some(hashed));
        state.write_u64(hashed);
    }
}
