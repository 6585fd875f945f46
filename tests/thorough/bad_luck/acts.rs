//! What an operator does to nodes and sessions by hand, which no holder can know in advance.
//!
//! A holder whose node is deleted, or whose session is ended, by the operator is excused from the beginning of that act
//! until it must have heard of it. Nothing else is excused: nobody but this holder, no other node, no longer time.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::{SESSION_TIMEOUT, clock};

/// How long a holder may believe after the end of the act: it watches its node when it has held for a second, and
/// believes for two thirds of its session if it hears nothing. The rest is for a busy machine.
const HEARING: Duration = SESSION_TIMEOUT.saturating_add(Duration::from_secs(2));

/// An act, from before it was begun until after it was done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Act {
    pub(crate) from: u64,
    /// Not known while it lasts.
    pub(crate) until: Option<u64>,
}

impl Act {
    fn begun() -> Self {
        Self { from: clock::now(), until: None }
    }

    /// Whether a holder may have not heard of it at that time.
    pub(crate) fn excuses_at(&self, time: u64) -> bool {
        self.from <= time && self.until.is_none_or(|until| time <= until + HEARING.as_nanos() as u64)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Acts {
    nodes: Mutex<HashMap<String, Act>>,
    sessions: Mutex<HashMap<i64, Act>>,
}

impl Acts {
    pub(crate) fn begin_to_delete(&self, node: &str) {
        // Begun twice, it began at the first time.
        self.nodes.lock().unwrap().entry(node.to_owned()).or_insert_with(Act::begun);
    }

    pub(crate) fn deleted(&self, node: &str) {
        if let Some(act) = self.nodes.lock().unwrap().get_mut(node) {
            act.until = Some(clock::now());
        }
    }

    /// The node is still there, and was there all the time.
    pub(crate) fn not_deleted(&self, node: &str) {
        self.nodes.lock().unwrap().remove(node);
    }

    pub(crate) fn begin_to_kill(&self, session: i64) {
        self.sessions.lock().unwrap().entry(session).or_insert_with(Act::begun);
    }

    pub(crate) fn killed(&self, session: i64) {
        if let Some(act) = self.sessions.lock().unwrap().get_mut(&session) {
            act.until = Some(clock::now());
        }
    }

    /// The first act that befell this node.
    pub(crate) fn on(&self, node: &str, session: i64) -> Option<Act> {
        let node = self.nodes.lock().unwrap().get(node).copied();
        let session = self.sessions.lock().unwrap().get(&session).copied();
        node.into_iter().chain(session).min_by_key(|act| act.from)
    }
}
