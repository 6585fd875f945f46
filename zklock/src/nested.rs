//! Runs below others: `zklock run` in a command that runs under `zklock run`.
//!
//! The outer lock is held until the command ends, which waits for the inner lock. The servers do not know that these two
//! sessions belong together: the name of the inner one tells it to others.

use std::convert::Infallible;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::sleep;
use zk_recipes::{Client, Participant};

use crate::exit::{Failure, HELD_OUTSIDE};
use crate::queue::role;
use crate::recipe::Role;
use crate::said::say;

/// The variable with the sessions and nodes by which this process and those above hold locks, a line each, the outermost
/// first.
pub(crate) const HELD: &str = "ZKLOCK_HELD";

/// Follows a name, before each session that it runs below.
const BELOW: &str = "<0x";

/// The most characters of a program's name.
const LONGEST_NAME: usize = 64;

/// So much of it is its own at least.
const SHORTEST_NAME: usize = 16;

/// From how long on a wait under another lock is worth a warning.
const LONG: Duration = Duration::from_secs(3);

/// How outer runs hold, or have held: a process can outlive the run that it was started by.
#[derive(Debug)]
pub(crate) struct Outer {
    /// The lines of [`HELD`].
    held: Vec<(String, String)>,
}

impl Outer {
    pub(crate) fn read() -> Self {
        Self::of(&std::env::var(HELD).unwrap_or_default())
    }

    fn of(lines: &str) -> Self {
        let held = lines.lines().filter_map(|line| line.split_once(' '));
        Self { held: held.map(|(session, node)| (session.to_owned(), node.to_owned())).collect() }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.held.is_empty()
    }

    /// What the command is told, which runs under one more hold of this client.
    pub(crate) fn and(&self, client: &Client, node: &str) -> String {
        // A session that is not connected now may be over.
        let session = client.zookeeper().now_or_never().and_then(Result::ok);
        let session = session.map_or(0, |zookeeper| zookeeper.session_id().0);
        let outer = self.held.iter().map(|(session, node)| format!("{session} {node}\n"));
        outer.chain([format!("{session:#x} {node}")]).collect()
    }

    /// A name that tells as much of what it runs below as fits, the nearest first.
    pub(crate) fn named(&self, name: &str) -> String {
        let mut below: String = self.held.iter().rev().map(|(session, _)| format!("<{session}")).collect();
        while below.len() > LONGEST_NAME - SHORTEST_NAME {
            below.truncate(below.rfind('<').unwrap_or_default());
        }
        let name: String = name.chars().take(LONGEST_NAME - below.len()).collect();
        name + &below
    }

    /// Checks that a lock with so many permits can become free while the outer runs go on. Readers share it.
    ///
    /// # Errors
    /// They hold all of it.
    pub(crate) fn ensure_free(
        &self,
        path: &str,
        participants: &[Participant],
        permits: u32,
        is_shared: bool,
    ) -> Result<(), Failure> {
        let holds = |one: &&Participant| one.is_holder() && self.holds_by(one.node_path());
        let excludes = |one: &&Participant| !is_shared || role(one) != Role::Read.name();
        let held = participants.iter().filter(holds).filter(excludes).count();
        if held < permits as usize {
            return Ok(());
        }
        Err(Failure::new(
            HELD_OUTSIDE,
            format!(
                "cannot acquire {path}: an outer zklock holds it until this command ends, which would wait without end; leave out the inner zklock, or use another path"
            ),
        ))
    }

    /// A node has a name of its own, whatever its path is relative to.
    fn holds_by(&self, node: &str) -> bool {
        let name = |node: &str| node.rsplit('/').next().map(str::to_owned);
        self.held.iter().any(|(_, outer)| name(outer) == name(node))
    }

    /// Which locks the outer runs have; `None` without any.
    pub(crate) fn held(&self) -> Option<String> {
        let path = |(_, node): &(String, String)| match node.rsplit_once('/') {
            // Of a semaphore.
            Some((path, _)) => path.strip_suffix("/leases").unwrap_or(path).to_owned(),
            None => node.clone(),
        };
        let paths: Vec<_> = self.held.iter().map(path).collect();
        (!paths.is_empty()).then(|| paths.join(", "))
    }

    /// Warns of a wait for `path` that takes long.
    pub(crate) async fn warn(&self, path: &str) -> Infallible {
        if let Some(held) = self.held() {
            sleep(LONG).await;
            say(&format!(
                "waits for {path} while an outer zklock holds {held}: if another holds {path} and waits for that, neither goes on, which `zklock deadlocks` tells; take them in the same order everywhere, or give a --timeout"
            ));
        }
        std::future::pending().await
    }
}

/// The sessions below which a participant runs.
pub(crate) fn outer_sessions(participant: &Participant) -> Vec<i64> {
    let below = participant.program().unwrap_or_default().split(BELOW).skip(1);
    below.filter_map(|session| u64::from_str_radix(session, 16).ok()).map(u64::cast_signed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_are_known_by_their_nodes() {
        let outer = Outer::of("0x1 /apps/a/_c_1-lock-0000000000\n0x2 /s/leases/_c_2-lease-0000000007");
        assert!(outer.holds_by("/a/_c_1-lock-0000000000") && !outer.holds_by("/apps/a/_c_3-lock-0000000001"));
        assert_eq!(outer.held().as_deref(), Some("/apps/a, /s"));
        assert_eq!((Outer::of("").held(), Outer::of("").is_none()), (None, true));
    }

    #[test]
    fn a_name_tells_of_the_nearest_and_has_room_for_itself() {
        assert_eq!(Outer::of("").named("ops:a"), "ops:a");
        assert_eq!(Outer::of("0x1 /a/x\n0x2 /b/x").named("ops:a"), "ops:a<0x2<0x1");
        let deep: String = (0..9).map(|n| format!("0x100000000000000{n} /a/x\n")).collect();
        let name = Outer::of(&deep).named(&"ü".repeat(100));
        assert!(name.starts_with("ü") && name.ends_with("ü<0x1000000000000008<0x1000000000000007"), "{name}");
        assert_eq!(name.chars().count(), LONGEST_NAME);
    }
}
