//! How often what a model is for has happened.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A counter for each of the things that are to be seen.
#[derive(Debug)]
pub(crate) struct Seen(Vec<(&'static str, AtomicUsize)>);

impl Seen {
    pub(crate) fn none_of(things: &[&'static str]) -> Self {
        Self(things.iter().map(|thing| (*thing, AtomicUsize::new(0))).collect())
    }

    pub(crate) fn note(&self, thing: &'static str) {
        let counter = self.0.iter().find(|(counted, _)| *counted == thing);
        counter.expect("it is one of the things to be seen").1.fetch_add(1, Ordering::Relaxed);
    }

    /// What has never happened.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        let missing = self.0.iter().find(|(_, count)| count.load(Ordering::Relaxed) == 0);
        missing.map(|(thing, _)| *thing)
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.0.iter().map(|(thing, count)| format!("{} {thing}", count.load(Ordering::Relaxed)));
        write!(f, "{}", counts.collect::<Vec<_>>().join(", "))
    }
}
