//! What changes the database.

use super::code::Code;
use super::connections::ConnectionId;
use super::database::Database;
use super::request::Update;
use super::tree::{Requester, Stamp};
use super::writes;
use crate::testing::jute::Writer;

impl Database {
    /// Makes an update, and returns the body of the reply. What it does depends on nothing but its arguments and the
    /// updates before it, so servers that make the same updates have the same tree.
    pub(super) fn update(
        &mut self,
        stamp: Stamp,
        requester: Requester<'_>,
        update: Update,
    ) -> Result<Writer, Code> {
        self.zxid = stamp.zxid;
        let mut body = Writer::new();
        match update {
            Update::Write(write) => {
                let mut transaction = self.tree.begin(stamp, requester);
                let outcome = writes::write(&mut transaction, write, &self.settings)?;
                let changes = transaction.commit();
                outcome.put(&mut body);
                self.publish(changes);
            }
            Update::Multi(writes) => {
                let transaction = self.tree.begin(stamp, requester);
                let changes = writes::write_all(transaction, writes, &self.settings, &mut body);
                self.publish(changes);
            }
            Update::SetAcl { path, acl, version } => {
                let mut transaction = self.tree.begin(stamp, requester);
                transaction.set_acl(&path, &acl, version)?.put(&mut body);
                transaction.commit();
            }
            Update::Reconfig => return Err(Code::ReconfigDisabled),
            Update::Malformed => return Err(Code::Marshalling),
        }
        Ok(body)
    }

    /// Removes a session with its nodes. Returns the connection that it had.
    pub(super) fn remove_session(&mut self, session: i64, zxid: i64) -> Option<ConnectionId> {
        self.zxid = zxid;
        let connection = self.sessions.remove(session).and_then(|session| session.connection);
        let changes = self.tree.end_session(session, zxid);
        self.publish(changes);
        connection
    }

    /// Ends a session and closes its connection.
    pub(super) fn close_session(&mut self, session: i64, zxid: i64) {
        if let Some(connection) = self.remove_session(session, zxid) {
            self.disconnect(connection);
        }
    }

    /// Removes a container without children, or a node whose time to live is over.
    pub(super) fn remove_overdue(&mut self, path: &str, zxid: i64) {
        self.zxid = zxid;
        let changes = self.tree.reap(path, zxid);
        self.publish(changes);
    }
}
