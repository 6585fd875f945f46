//! What each request does.

use std::sync::Arc;

use super::acl::{self, Acl, Id};
use super::code::Code;
use super::connections::ConnectionId;
use super::database::{Database, NO_ZXID};
use super::opcode;
use super::request::{Read, Request, SetWatches};
use super::tree::{Event, Stat};
use super::watches::Mode;
use super::writes;
use crate::testing::jute::Writer;

impl Database {
    /// Executes a request of a connection, and returns the body of the reply. Events are sent before it returns, so
    /// that a client sees an event before a reply that shows the change.
    pub(super) fn execute(
        &mut self,
        id: ConnectionId,
        session: i64,
        request: Request,
    ) -> Result<Writer, Code> {
        let ids = self.connections.get(&id).map(|connection| connection.ids.clone()).unwrap_or_default();
        let ids = ids.as_slice();
        let mut body = Writer::new();
        match request {
            Request::Read(read) => {
                self.read(id, &read)?.put(&mut body);
            }
            Request::MultiRead(reads) => {
                for read in &reads {
                    match self.read(id, read) {
                        Ok(found) => {
                            writes::put_header(&mut body, found.opcode(), 0);
                            found.put(&mut body);
                        }
                        Err(code) => writes::put_error(&mut body, code as i32),
                    }
                }
                writes::put_end(&mut body);
            }
            Request::Exists { path, is_watching } => {
                if path.contains('\0') {
                    return Err(Code::BadArguments);
                }
                let found = self.tree.stat(&path, ids);
                // Also a node that is not there can be watched.
                if is_watching && matches!(found, Ok(_) | Err(Code::NoNode)) {
                    self.watches.watch_data(&path, id);
                }
                found?.put(&mut body);
            }
            Request::GetChildren2 { path, is_watching } => {
                let (names, stat) = self.tree.children(&path, ids)?;
                put_strings(&mut body, &names);
                stat.put(&mut body);
                if is_watching {
                    self.watches.watch_children(&path, id);
                }
            }
            Request::GetAcl(path) => {
                let (list, stat) = self.tree.acl(&path, ids)?;
                put_acl(&mut body, &list);
                stat.put(&mut body);
            }
            Request::GetEphemerals(prefix) => {
                put_strings(&mut body, &self.tree.ephemerals_of(session, &prefix));
            }
            Request::GetAllChildrenNumber(path) => {
                let count = self.tree.count_below(&path, ids)?;
                body.i32(i32::try_from(count).unwrap_or(i32::MAX));
            }
            Request::Sync(path) => {
                body.string(&path);
            }
            Request::Ping => {}
            Request::WhoAmI => {
                body.list(ids, |body, id| {
                    body.string(&id.scheme).string(id.user());
                });
            }
            Request::Auth { scheme, secret } => self.authenticate(id, &scheme, &secret)?,
            Request::SetWatches(watches) => self.set_watches(id, &watches),
            Request::AddWatch { path, mode } => {
                self.watches.watch(&path, id, mode);
                // The reply has an error code of its own.
                body.i32(0);
            }
            Request::CheckWatches { path, target } => {
                if !self.watches.contains(&path, id, target) {
                    return Err(Code::NoWatcher);
                }
            }
            Request::RemoveWatches { path, target } => {
                if !self.watches.remove(&path, id, target) {
                    return Err(Code::NoWatcher);
                }
            }
        }
        Ok(body)
    }

    fn read(&mut self, id: ConnectionId, read: &Read) -> Result<Found<'_>, Code> {
        let ids = self.connections.get(&id).map(|connection| connection.ids.as_slice()).unwrap_or_default();
        match read {
            Read::Data { path, is_watching } => {
                let (data, stat) = self.tree.data(path, ids)?;
                if *is_watching {
                    self.watches.watch_data(path, id);
                }
                Ok(Found::Data(data, stat))
            }
            Read::Children { path, is_watching } => {
                let (names, _) = self.tree.children(path, ids)?;
                if *is_watching {
                    self.watches.watch_children(path, id);
                }
                Ok(Found::Children(names))
            }
        }
    }

    fn authenticate(&mut self, id: ConnectionId, scheme: &str, secret: &[u8]) -> Result<(), Code> {
        let connection = self.connections.get_mut(&id).ok_or(Code::AuthFailed)?;
        let identity = Id::authenticated(scheme, secret, connection.peer.ip())?;
        if !connection.ids.contains(&identity) {
            Arc::make_mut(&mut connection.ids).push(identity);
        }
        Ok(())
    }

    /// Sets the watches of a client that has reconnected, or sends the events that it has missed.
    fn set_watches(&mut self, id: ConnectionId, watches: &SetWatches) {
        let SetWatches { zxid, data, existence, children, persistent, recursive } = watches;
        for path in data {
            match self.tree.last_changes(path) {
                None => self.send_missed(id, Event::Deleted, path),
                Some((mzxid, _)) if mzxid > *zxid => self.send_missed(id, Event::DataChanged, path),
                Some(_) => self.watches.watch_data(path, id),
            }
        }
        for path in existence {
            match self.tree.last_changes(path) {
                Some(_) => self.send_missed(id, Event::Created, path),
                None => self.watches.watch_data(path, id),
            }
        }
        for path in children {
            match self.tree.last_changes(path) {
                None => self.send_missed(id, Event::Deleted, path),
                Some((_, pzxid)) if pzxid > *zxid => self.send_missed(id, Event::ChildrenChanged, path),
                Some(_) => self.watches.watch_children(path, id),
            }
        }
        for path in persistent {
            self.watches.watch(path, id, Mode::Persistent);
        }
        for path in recursive {
            self.watches.watch(path, id, Mode::Recursive);
        }
    }

    fn send_missed(&mut self, id: ConnectionId, event: Event, path: &str) {
        self.send_event(id, event, path, NO_ZXID);
    }
}

/// What a read has found.
enum Found<'a> {
    Data(Option<&'a [u8]>, Stat),
    Children(Vec<&'a str>),
}

impl Found<'_> {
    fn opcode(&self) -> i32 {
        match self {
            Self::Data(..) => opcode::GET_DATA,
            Self::Children(_) => opcode::GET_CHILDREN,
        }
    }

    fn put(&self, body: &mut Writer) {
        match self {
            Self::Data(data, stat) => stat.put(body.buffer(*data)),
            Self::Children(names) => put_strings(body, names),
        }
    }
}

fn put_strings(body: &mut Writer, texts: &[&str]) {
    body.list(texts, |body, text| {
        body.string(text);
    });
}

fn put_acl(body: &mut Writer, list: &[Acl]) {
    body.list(list, |body, Acl { permissions, id: acl::Id { scheme, id } }| {
        body.i32(*permissions).string(scheme).string(id);
    });
}
