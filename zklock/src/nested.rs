//! Runs below others: `zklock run` in a command that runs under `zklock run`.
//!
//! The outer lock is held until the command ends, which waits for the inner lock. No server sees that these two sessions
//! belong together, so the inner one looks for what it can know by itself.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::sleep;
use zk_recipes::Participant;

use crate::exit::{Failure, OTHER, say};

/// The variable with the nodes by which this process and those above hold locks, a line each, the outermost first.
pub(crate) const HELD: &str = "ZKLOCK_HELD";

/// From how long on a wait under another lock is worth a warning.
const LONG: Duration = Duration::from_secs(3);

/// The nodes by which outer runs hold, or have held: a process can outlive the run that it was started by.
#[derive(Debug)]
pub(crate) struct Outer {
    nodes: Vec<String>,
}

impl Outer {
    pub(crate) fn read() -> Self {
        let held = std::env::var(HELD).unwrap_or_default();
        Self { nodes: held.lines().map(str::to_owned).collect() }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.nodes.is_empty()
    }

    /// What the command is told, which runs under one more.
    pub(crate) fn and(&self, node: &str) -> String {
        let nodes = self.nodes.iter().map(String::as_str).chain([node]);
        nodes.collect::<Vec<_>>().join("\n")
    }

    /// Checks that a lock with so many permits can become free while the outer runs go on.
    ///
    /// # Errors
    /// They hold all of it.
    pub(crate) fn ensure_free(
        &self,
        path: &str,
        participants: &[Participant],
        permits: usize,
    ) -> Result<(), Failure> {
        let held =
            participants.iter().filter(|one| one.is_holder() && self.holds_by(one.node_path())).count();
        if held < permits {
            return Ok(());
        }
        Err(Failure::new(
            OTHER,
            format!(
                "cannot acquire {path}: an outer zklock holds it until this command ends, which would wait without end; leave out the inner zklock, or use another path"
            ),
        ))
    }

    /// A node has a name of its own, whatever its path is relative to.
    fn holds_by(&self, node: &str) -> bool {
        let name = |node: &str| node.rsplit('/').next().map(str::to_owned);
        self.nodes.iter().any(|outer| name(outer) == name(node))
    }

    /// Which locks the outer runs have; `None` without any.
    pub(crate) fn held(&self) -> Option<String> {
        let path = |node: &String| match node.rsplit_once('/') {
            // Of a semaphore.
            Some((path, _)) => path.strip_suffix("/leases").unwrap_or(path).to_owned(),
            None => node.clone(),
        };
        let paths: Vec<_> = self.nodes.iter().map(path).collect();
        (!paths.is_empty()).then(|| paths.join(", "))
    }

    /// Warns of a wait for `path` that takes long.
    pub(crate) async fn warn(&self, path: &str) -> Infallible {
        if let Some(held) = self.held() {
            sleep(LONG).await;
            say(&format!(
                "waits for {path} while an outer zklock holds {held}: if another holds {path} and waits for that, neither goes on, and `zklock deadlocks` cannot see it; take them in the same order everywhere, or give a --timeout"
            ));
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_are_known_by_their_nodes() {
        let outer = Outer {
            nodes: vec!["/apps/a/_c_1-lock-0000000000".into(), "/s/leases/_c_2-lease-0000000007".into()],
        };
        assert!(outer.holds_by("/a/_c_1-lock-0000000000") && !outer.holds_by("/apps/a/_c_3-lock-0000000001"));
        assert_eq!(outer.held().as_deref(), Some("/apps/a, /s"));
        assert_eq!(outer.and("/b/x").lines().count(), 3);
        let none = Outer { nodes: Vec::new() };
        assert_eq!((none.held(), none.and("/b/x")), (None, "/b/x".to_owned()));
    }
}
