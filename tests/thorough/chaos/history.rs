//! Who was inside, when, and by which right.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use crate::contested::Contested;
use crate::stage::Participant;

/// One hold of one worker: a task of a client of ours, or a thread of a peer. All times are of the shared clock.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) participant: Arc<Participant>,
    pub(crate) worker: Arc<str>,
    pub(crate) contested: Contested,
    pub(crate) exclusive: bool,
    pub(crate) asked: u64,
    /// When it was inside for the first time, as far as it knew.
    pub(crate) from: u64,
    /// Until when it believed to hold.
    pub(crate) believed_until: u64,
    /// If its node was ever seen while it believed so.
    pub(crate) proof: Option<Proof>,
    /// When the answer had come that the node was gone, if a guard of ours was still valid.
    pub(crate) without_node_at: Option<u64>,
}

/// What the server says about a hold.
#[derive(Debug)]
pub(crate) struct Proof {
    /// The last moment at which the node was there for certain; it was from the beginning, since no node comes back.
    pub(crate) until: u64,
    /// The `czxid` of the node.
    pub(crate) token: i64,
    pub(crate) session: i64,
}

/// A session that the server was told to end before its time.
#[derive(Debug)]
pub(crate) struct Kill {
    /// The name of the participant.
    pub(crate) victim: String,
    pub(crate) session: i64,
    pub(crate) from: u64,
    /// When the server had done it: the victim may take its session back, and then it is tried again.
    pub(crate) until: u64,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    sections: Mutex<Vec<Section>>,
    kills: Mutex<Vec<Kill>>,
    losses: AtomicUsize,
}

impl History {
    pub(crate) fn record(&self, section: Section) {
        self.sections.lock().unwrap().push(section);
    }

    /// A holder of ours noticed that it had lost the lock.
    pub(crate) fn record_loss(&self) {
        self.losses.fetch_add(1, SeqCst);
    }

    pub(crate) fn losses(&self) -> usize {
        self.losses.load(SeqCst)
    }

    pub(crate) fn record_kill(&self, kill: Kill) {
        self.kills.lock().unwrap().push(kill);
    }

    /// Whether this worker was granted something after that moment.
    pub(crate) fn has_served(&self, worker: &str, since: u64) -> bool {
        let sections = self.sections.lock().unwrap();
        sections.iter().rev().any(|section| *section.worker == *worker && section.from > since)
    }

    pub(crate) fn take(&self) -> (Vec<Section>, Vec<Kill>) {
        let sections = std::mem::take(&mut *self.sections.lock().unwrap());
        (sections, std::mem::take(&mut self.kills.lock().unwrap()))
    }
}
