//! What operators do, as if they were clients that may do everything.

use super::log::{Action, Proposal};
use super::state::State;
use crate::testing::memory::acl::{self, Acl, Id};
use crate::testing::memory::database::Database;
use crate::testing::memory::request::{Update, Write};
use crate::testing::memory::tree::{Create, Kind, Requester, Stamp};

/// A change that no request of a client makes.
#[derive(Clone, Debug)]
pub(in super::super) enum Operation {
    Update(Update),
    /// Deletes a node, and what is below.
    DeleteAll(String),
    EndSession(i64),
}

impl Operation {
    pub(super) fn create(path: &str, data: &[u8], is_container: bool) -> Self {
        let acl = vec![Acl { permissions: acl::ALL, id: Id::new("world", "anyone") }];
        let kind = if is_container { Kind::Container } else { Kind::Persistent };
        let create = Create { path: path.into(), data: Some(data.to_vec()), acl, kind, is_sequential: false };
        Self::Update(Update::Write(Write::Create { create: Ok(create), returns_stat: false }))
    }

    pub(super) fn set_data(path: &str, data: &[u8]) -> Self {
        let (path, data) = (path.into(), Some(data.to_vec()));
        Self::Update(Update::Write(Write::SetData { path, data, version: -1 }))
    }

    pub(super) fn apply(self, database: &mut Database, stamp: Stamp) {
        let ids = [Id::of_operator()];
        let requester = Requester { session: 0, ids: &ids };
        match self {
            // An operator is not told whether it has failed.
            Self::Update(update) => drop(database.update(stamp, requester, update)),
            Self::DeleteAll(path) => {
                database.zxid = stamp.zxid;
                let mut doomed: Vec<_> =
                    database.tree.paths_below(&path).into_iter().map(String::from).collect();
                doomed.insert(0, path);
                let mut transaction = database.tree.begin(stamp, requester);
                // Children come after their parents.
                for path in doomed.iter().rev() {
                    let _ = transaction.delete(path, -1);
                }
                let changes = transaction.commit();
                database.publish(changes);
            }
            Self::EndSession(session) => database.close_session(session, stamp.zxid),
        }
    }
}

impl State {
    /// Has the leader propose what an operator does. Returns whether there is a leader.
    pub(in super::super) fn operate(&mut self, operation: Operation) -> bool {
        let Some(leader) = self.leader() else { return false };
        self.propose(leader, Proposal::of_leader(Action::Operate(operation), 0));
        true
    }
}
