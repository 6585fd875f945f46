//! Writes that are applied only while the lock is held.

use std::sync::Arc;

use futures_util::FutureExt;
use zookeeper_client::{self as zk, CreateMode, MultiWriteError, MultiWriteResult};

use super::held_node::HeldNode;
use crate::client::{Write, of_write};
use crate::error::{Error, LossReason, Result};
use crate::failure::Failure;

/// A set of writes to ZooKeeper that are applied together, and only if the lock is still held at that moment: the
/// servers check that the nodes by which it is held exist. Created by [`LockGuard::transaction`](crate::LockGuard::transaction).
///
/// Even a holder that was paused or lost its connection cannot use it to change what the next holder relies on.
///
/// Paths are below the client's namespace. Operations are numbered from 0, in the order in which you add them, and
/// each sees the effects of those before it.
///
/// ```no_run
/// # async fn example(guard: zk_recipes::LockGuard) -> zk_recipes::Result<()> {
/// use zk_recipes::{CreateMode, Error};
///
/// let done = guard
///     .transaction()
///     .check("/orders/config", 7)
///     .set_data("/orders/last", b"4711", None)
///     .create("/orders/4711", b"shipped", CreateMode::Persistent)
///     .commit()
///     .await;
/// match done {
///     Ok(_) => println!("done, while the lock was held"),
///     Err(Error::LockLost { reason, .. }) => println!("not done: the lock is gone: {reason}"),
///     Err(Error::OperationFailed { index, source, .. }) => println!("not done: operation {index} failed: {source}"),
///     Err(Error::OutcomeUnknown { .. }) => println!("done or not: look before doing it again"),
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
///
/// See also ZooKeeper's `multi`, and CURATOR-689, which asks Curator for this.
#[must_use = "a transaction does nothing before `commit`"]
pub struct Transaction<'a> {
    /// Those by which the lock is held; at least one.
    holds: Vec<&'a Arc<HeldNode>>,
    /// With the paths as they were given.
    operations: Vec<(String, Operation)>,
}

debug_by!(Transaction<'_>, |it| node_path: it.holds[0].path(), operations: it.operations.len());

#[derive(Debug)]
enum Operation {
    Check { version: i32 },
    Create { data: Vec<u8>, mode: CreateMode },
    SetData { data: Vec<u8>, version: Option<i32> },
    Delete { version: Option<i32> },
}

impl<'a> Transaction<'a> {
    pub(super) fn new(holds: Vec<&'a Arc<HeldNode>>) -> Self {
        Self { holds, operations: Vec::new() }
    }

    /// Requires the data of a node to have this version.
    pub fn check(self, path: &str, version: i32) -> Self {
        self.with(path, Operation::Check { version })
    }

    /// Creates a node, with the client's ACL for that path. For a sequential node, the server appends its next
    /// number to the path.
    pub fn create(self, path: &str, data: impl Into<Vec<u8>>, mode: CreateMode) -> Self {
        self.with(path, Operation::Create { data: data.into(), mode })
    }

    /// Replaces the data of a node if the data has this version; `None` accepts any version.
    pub fn set_data(self, path: &str, data: impl Into<Vec<u8>>, version: impl Into<Option<i32>>) -> Self {
        self.with(path, Operation::SetData { data: data.into(), version: version.into() })
    }

    /// Deletes a node without children if its data has this version; `None` accepts any version.
    pub fn delete(self, path: &str, version: impl Into<Option<i32>>) -> Self {
        self.with(path, Operation::Delete { version: version.into() })
    }

    fn with(mut self, path: &str, operation: Operation) -> Self {
        self.operations.push((path.to_owned(), operation));
        self
    }

    /// Applies all operations, or none. Returns the result of each operation, in their order; the paths in the
    /// results are full paths.
    ///
    /// Without operations, this only verifies that the lock is held. Servers before 3.8.2 do not return
    /// the `Stat` of a created node: it is then [invalid](zookeeper_client::Stat::is_invalid).
    ///
    /// The transaction is sent once, on the session of the lock. It is not retried, because a retry might apply it
    /// twice. The answer is awaited for as long as in [one attempt](crate::RetryPolicy).
    ///
    /// # Errors
    /// With the following errors, nothing was applied:
    /// - [`Error::InvalidPath`]: a path is not valid; nothing was sent.
    /// - [`Error::InvalidArgument`]: the request is not possible, for example because it exceeds the 1 MiB that
    ///   servers accept; nothing was sent.
    /// - [`Error::LockLost`]: the lock is lost, which the guard knows from now on.
    /// - [`Error::OperationFailed`]: one of the operations failed.
    /// - [`Error::ZooKeeper`]: the servers refuse the transaction as a whole.
    /// - [`Error::Closed`]: the client was closed before the transaction was sent.
    ///
    /// With [`Error::OutcomeUnknown`], no answer arrived: the transaction was applied, was not applied, or may
    /// still be applied.
    ///
    /// # Cancel safety
    /// The transaction is sent at the first poll. If cancelled after that, it may or may not be applied.
    pub async fn commit(self) -> Result<Vec<MultiWriteResult>> {
        let holds = &self.holds;
        for hold in holds {
            hold.ensure_held()?;
        }
        let (client, session) = (holds[0].client(), holds[0].session());
        if holds.iter().any(|hold| !Arc::ptr_eq(hold.session(), session)) {
            let reason = "members of several clients cannot be checked together; make one for each of them";
            return Err(Error::InvalidArgument { argument: "transaction", reason: reason.into() });
        }
        let paths = self.operations.iter().map(|(path, _)| client.full_path(path));
        let paths = paths.collect::<Result<Vec<_>>>()?;
        let acls: Vec<_> = paths.iter().map(|path| client.acl_of(path)).collect();
        let checks = holds.iter().map(|hold| Write::Check { path: hold.path(), version: None });
        let writes =
            self.operations.iter().zip(&paths).zip(&acls).map(
                |(((_, operation), path), acl)| match operation {
                    Operation::Check { version } => Write::Check { path, version: Some(*version) },
                    Operation::Create { data, mode } => Write::Create { path, data, mode: *mode, acl },
                    Operation::SetData { data, version } => Write::SetData { path, data, version: *version },
                    Operation::Delete { version } => Write::Delete { path, version: *version },
                },
            );
        let writes: Vec<Write<'_>> = checks.chain(writes).collect();
        client.ensure_fits("transaction", writes.iter().map(of_write))?;
        note_sending(holds)?;
        let attempted = client.attempt(session, session.commit(&writes)).map(|committed| {
            Ok(committed.unwrap_or(Err(MultiWriteError::RequestFailed { source: zk::Error::ConnectionLoss })))
        });
        let committed = client.unless_closed(attempted).await;
        let is_decided = committed.as_ref().is_ok_and(|committed| !is_in_doubt(committed));
        holds.iter().for_each(|hold| hold.transaction_answered(is_decided));
        let Ok(committed) = committed else {
            return Err(in_doubt(holds[0], zk::Error::ClientClosed));
        };
        let error = match committed {
            Ok(mut results) => return Ok(results.split_off(holds.len())),
            Err(error) => error,
        };
        Err(match error {
            MultiWriteError::OperationFailed { index, source: zk::Error::NoNode } if index < holds.len() => {
                holds[index].deleted()
            }
            MultiWriteError::OperationFailed { index, source } if index >= holds.len() => {
                let index = index - holds.len();
                let operation = self.operations[index].1.name();
                Error::OperationFailed { index, operation, path: paths[index].to_string(), source }
            }
            error => match zk::Error::from(error) {
                source if Failure::of(&source) == Failure::Unknown => in_doubt(holds[0], source),
                source if Failure::of(&source) == Failure::SessionOver => {
                    holds[0].lose(LossReason::Expired);
                    holds[0].deleted()
                }
                source => Error::ZooKeeper {
                    operation: "commit the transaction of",
                    path: holds[0].path().to_string(),
                    source,
                },
            },
        })
    }
}

/// Notes in all holds of a transaction that it is about to be sent, or in none.
///
/// # Errors
/// One of them is lost.
fn note_sending(holds: &[&Arc<HeldNode>]) -> Result<()> {
    for (index, hold) in holds.iter().enumerate() {
        if let Err(lost) = hold.sends_transaction() {
            // The transaction is not sent after all.
            holds[..index].iter().for_each(|hold| hold.transaction_answered(true));
            return Err(lost);
        }
    }
    Ok(())
}

/// Whether the transaction may have been applied, or may still be.
fn is_in_doubt<T>(committed: &Result<T, MultiWriteError>) -> bool {
    match committed {
        Ok(_) | Err(MultiWriteError::OperationFailed { .. }) => false,
        Err(error) => Failure::of(&zk::Error::from(error.clone())) == Failure::Unknown,
    }
}

impl Operation {
    fn name(&self) -> &'static str {
        match self {
            Self::Check { .. } => "check",
            Self::Create { .. } => "create",
            Self::SetData { .. } => "write",
            Self::Delete { .. } => "delete",
        }
    }
}

fn in_doubt(hold: &HeldNode, source: zk::Error) -> Error {
    Error::OutcomeUnknown { path: hold.path().to_string(), source }
}
