//! The parents of a queue: containers, which the server removes when they have been empty for a while.

use futures_util::future::join_all;
use zookeeper_client as zk;

use super::Client;
use super::path;
use super::session::Session;

/// Makes `path` and all its ancestors, in one round trip, each with its own ACL and without data.
///
/// # Errors
/// Which ancestor could not be made, and why: the highest one that is missing.
pub(crate) async fn make(client: &Client, session: &Session, path: &str) -> Result<(), (String, zk::Error)> {
    let mut ancestors: Vec<&str> = std::iter::successors(Some(path), |path| path::parent(path)).collect();
    ancestors.reverse();
    loop {
        // The requests are sent in this order, so that each finds its parent made.
        let outcomes = join_all(ancestors.iter().map(|path| {
            let acl = client.acl_of(path);
            async move { session.create_container(path, &acl).await }
        }))
        .await;
        match outcome_of(&ancestors, outcomes) {
            Making::Done => return Ok(()),
            Making::Vanished => {}
            Making::Failed(path, source) => return Err((path.to_owned(), source)),
        }
    }
}

enum Making<'a> {
    Done,
    /// The server has removed an empty ancestor before its child was made.
    Vanished,
    Failed(&'a str, zk::Error),
}

/// A right may be missing on ancestors that exist. Only the end counts; and where it failed because its own
/// parent is missing, whatever kept that from being made.
fn outcome_of<'a>(ancestors: &[&'a str], outcomes: Vec<Result<(), zk::Error>>) -> Making<'a> {
    let mut failed = Making::Done;
    for (path, outcome) in ancestors.iter().zip(outcomes).rev() {
        match (outcome, &failed) {
            (Ok(()), Making::Done) => break,
            (Ok(()), _) => return Making::Vanished,
            (Err(zk::Error::NoNode), _) => failed = Making::Failed(path, zk::Error::NoNode),
            (Err(source), _) => return Making::Failed(path, source),
        }
    }
    failed
}
