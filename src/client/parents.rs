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
    // The requests are sent in this order, so that each finds its parent made.
    let outcomes = join_all(ancestors.iter().map(|path| {
        let acl = client.acl_of(path);
        async move { session.create_container(path, &acl).await }
    }))
    .await;
    // A right may be missing on ancestors that exist. Only the end counts; and where it failed because its
    // own parent is missing, whatever kept that from being made.
    let mut failed = None;
    for (path, outcome) in ancestors.into_iter().zip(outcomes).rev() {
        match outcome {
            Ok(()) => break,
            Err(source) => {
                let missing_parent = source == zk::Error::NoNode;
                failed = Some((path.to_owned(), source));
                if !missing_parent {
                    break;
                }
            }
        }
    }
    failed.map_or(Ok(()), Err)
}
