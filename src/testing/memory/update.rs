//! What changes the database. It depends on nothing but its arguments and the changes before it, so servers that make the
//! same changes have the same tree.

use super::code::Code;
use super::connections::ConnectionId;
use super::database::Database;
use super::multi;
use super::request::Write;
use super::tree::{Requester, Stamp};
use crate::testing::jute::Writer;

impl Database {
    /// Does a write, and returns the body of the reply.
    pub(super) fn write(
        &mut self,
        stamp: Stamp,
        requester: Requester<'_>,
        write: Write,
    ) -> Result<Writer, Code> {
        let mut body = Writer::new();
        let mut transaction = self.tree.begin(stamp, requester);
        transaction.write(write, &mut body)?;
        let changes = transaction.commit();
        self.publish(changes);
        Ok(body)
    }

    /// Does all writes or none, and returns the body of the reply.
    pub(super) fn write_all(&mut self, stamp: Stamp, requester: Requester<'_>, writes: Vec<Write>) -> Writer {
        let count = writes.len();
        let mut body = Writer::new();
        let mut transaction = self.tree.begin(stamp, requester);
        for (index, mut write) in writes.into_iter().enumerate() {
            if let Write::Create(create) = &mut write
                && create.kind.is_plain()
                && !self.settings.version.has_stats_in_multi()
            {
                create.returns_stat = false;
            }
            multi::put_header(&mut body, write.opcode(), 0);
            if let Err(code) = transaction.write(write, &mut body) {
                return multi::failure(count, index, code);
            }
        }
        multi::put_end(&mut body);
        let changes = transaction.commit();
        self.publish(changes);
        body
    }

    /// Deletes a node and everything below it, as far as that is possible.
    pub(super) fn delete_all(&mut self, stamp: Stamp, requester: Requester<'_>, path: &str) {
        let below = self.tree.paths_below(path).into_iter().map(String::from);
        let doomed: Vec<_> = [path.to_owned()].into_iter().chain(below).collect();
        let mut transaction = self.tree.begin(stamp, requester);
        // Children come after their parents.
        for path in doomed.iter().rev() {
            let _ = transaction.delete(path, -1);
        }
        let changes = transaction.commit();
        self.publish(changes);
    }

    /// Removes a session with its nodes. Returns the connection that it had.
    pub(super) fn remove_session(&mut self, session: i64, zxid: i64) -> Option<ConnectionId> {
        let connection = self.sessions.remove(session).and_then(|session| session.connection);
        let changes = self.tree.end_session(session, zxid);
        self.publish(changes);
        connection
    }

    /// Removes a container without children, or a node whose time to live is over.
    pub(super) fn reap(&mut self, path: &str, stamp: Stamp) {
        let changes = self.tree.reap(path, stamp);
        self.publish(changes);
    }
}
