//! Whether all are there who live, as they say, and nobody else.

use crate::kept::Nodes;

/// What is wrong with what is there.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Of ours.
    pub(crate) faults: Vec<String>,
    /// Of peers: missing, wrong, or left behind.
    pub(crate) of_peers: Vec<String>,
}

pub(crate) fn judge(ours: &Nodes, theirs: &Nodes, there: &Nodes) -> Verdict {
    let mut verdict = Verdict::default();
    for (living, faults) in [(ours, &mut verdict.faults), (theirs, &mut verdict.of_peers)] {
        for (path, node) in living {
            match there.get(path) {
                None => faults.push(format!("{path} is missing")),
                Some(found) if found.data == node.data && (node.created.is_none() || *found == *node) => {}
                Some(found) => faults.push(format!("{path} is {found:?}, not {node:?}")),
            }
        }
    }
    for path in there.keys().filter(|path| !ours.contains_key(*path) && !theirs.contains_key(*path)) {
        let faults = if path.contains("rust-") { &mut verdict.faults } else { &mut verdict.of_peers };
        faults.push(format!("{path} is left behind"));
    }
    verdict
}
