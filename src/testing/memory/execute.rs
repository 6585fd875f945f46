//! What each request does that changes no node.

use std::sync::Arc;

use super::acl::{Acl, Id};
use super::code::Code;
use super::connections::ConnectionId;
use super::database::{Database, NO_ZXID};
use super::multi;
use super::tree::Event;
use super::watches::Watch;
use crate::testing::jute::{Decoded, Malformed, Reader, Writer};
use crate::testing::opcode;

impl Database {
    /// Reads a request of a connection, does it, and returns the body of the reply. Events are sent before it returns, so
    /// that a client sees an event before a reply that shows the change.
    pub(super) fn execute(
        &mut self,
        id: ConnectionId,
        session: i64,
        operation: i32,
        request: &mut Reader<'_>,
    ) -> Result<Writer, Code> {
        let ids = self.connections.get(&id).map(|connection| connection.ids.clone()).unwrap_or_default();
        let ids = ids.as_slice();
        let mut body = Writer::new();
        match operation {
            opcode::GET_DATA | opcode::GET_CHILDREN => {
                self.read(id, ids, &Read::decode(operation, request)?, &mut body)?;
            }
            opcode::MULTI_READ => {
                for read in multi::read(request, Read::decode_of_several)? {
                    let mut found = Writer::new();
                    match self.read(id, ids, &read, &mut found) {
                        Ok(()) => {
                            multi::put_header(&mut body, read.operation, 0);
                            body.append(&found);
                        }
                        Err(code) => multi::put_error(&mut body, code as i32),
                    }
                }
                multi::put_end(&mut body);
            }
            opcode::EXISTS => {
                let (path, is_watching) = (request.string()?, request.bool()?);
                if path.contains('\0') {
                    return Err(Code::BadArguments);
                }
                let found = self.tree.readable(&path, ids);
                // Also a node that is not there can be watched.
                if is_watching && matches!(found, Ok(_) | Err(Code::NoNode)) {
                    self.watches.add(&path, id, Watch::Data);
                }
                found?.put_stat(&mut body);
            }
            opcode::GET_CHILDREN_2 => {
                let read = Read::decode(operation, request)?;
                self.read(id, ids, &read, &mut body)?;
                self.tree.node(&read.path)?.put_stat(&mut body);
            }
            opcode::GET_ACL => {
                let (list, node) = self.tree.acl(&request.string()?, ids)?;
                body.list(&list, |body, Acl { permissions, id: Id { scheme, id } }| {
                    body.i32(*permissions).string(scheme).string(id);
                });
                node.put_stat(&mut body);
            }
            opcode::GET_EPHEMERALS => {
                put_strings(&mut body, &self.tree.ephemerals_of(session, &request.string()?));
            }
            opcode::GET_ALL_CHILDREN_NUMBER => {
                let count = self.tree.count_below(&request.string()?, ids)?;
                body.i32(i32::try_from(count).unwrap_or(i32::MAX));
            }
            opcode::SYNC => _ = body.string(&request.string()?),
            opcode::PING => {}
            opcode::WHO_AM_I => {
                body.list(ids, |body, id| {
                    body.string(&id.scheme).string(id.user());
                });
            }
            opcode::AUTH => self.authenticate(id, request)?,
            opcode::SET_WATCHES | opcode::SET_WATCHES_2 => self.set_watches(id, operation, request)?,
            opcode::ADD_WATCH => {
                let path = request.string()?;
                let watch = match request.i32()? {
                    0 => Watch::Persistent,
                    1 => Watch::Recursive,
                    _ => return Err(Code::Marshalling),
                };
                self.watches.add(&path, id, watch);
                // The reply has an error code of its own.
                body.i32(0);
            }
            opcode::CHECK_WATCHES | opcode::REMOVE_WATCHES => {
                let path = request.string()?;
                let watch = match request.i32()? {
                    1 => Some(Watch::Children),
                    2 => Some(Watch::Data),
                    3 => None,
                    4 => Some(Watch::Persistent),
                    5 => Some(Watch::Recursive),
                    _ => return Err(Code::Marshalling),
                };
                let is_found = match operation {
                    opcode::CHECK_WATCHES => self.watches.contains(&path, id, watch),
                    _ => self.watches.remove(&path, id, watch),
                };
                if !is_found {
                    return Err(Code::NoWatcher);
                }
            }
            // What can be decoded is proposed to the leader.
            _ if opcode::is_update(operation) => return Err(Code::Marshalling),
            _ => return Err(Code::Unimplemented),
        }
        Ok(body)
    }

    fn read(&mut self, id: ConnectionId, ids: &[Id], read: &Read, body: &mut Writer) -> Result<(), Code> {
        let Read { operation, path, is_watching } = read;
        let node = self.tree.readable(path, ids)?;
        let watch = if *operation == opcode::GET_DATA {
            node.put_stat(body.buffer(node.data.as_deref()));
            Watch::Data
        } else {
            put_strings(body, &node.names());
            Watch::Children
        };
        if *is_watching {
            self.watches.add(path, id, watch);
        }
        Ok(())
    }

    fn authenticate(&mut self, id: ConnectionId, request: &mut Reader<'_>) -> Result<(), Code> {
        let _type = request.i32()?;
        let (scheme, secret) = (request.string()?, request.buffer()?.unwrap_or_default());
        let connection = self.connections.get_mut(&id).ok_or(Code::AuthFailed)?;
        let identity = Id::authenticated(&scheme, secret, connection.peer.ip())?;
        if !connection.ids.contains(&identity) {
            Arc::make_mut(&mut connection.ids).push(identity);
        }
        Ok(())
    }

    /// Sets the watches of a client that has reconnected, or sends the events that it has missed.
    fn set_watches(
        &mut self,
        id: ConnectionId,
        operation: i32,
        request: &mut Reader<'_>,
    ) -> Result<(), Code> {
        // The last change that the client knows of.
        let zxid = request.i64()?;
        let mut paths = || request.list(Reader::string);
        let (data, existence, children) = (paths()?, paths()?, paths()?);
        let (persistent, recursive) =
            if operation == opcode::SET_WATCHES_2 { (paths()?, paths()?) } else { Default::default() };
        for path in &data {
            match self.tree.node(path) {
                Err(_) => self.send_missed(id, Event::Deleted, path),
                Ok(node) if node.mzxid > zxid => self.send_missed(id, Event::DataChanged, path),
                Ok(_) => self.watches.add(path, id, Watch::Data),
            }
        }
        for path in &existence {
            match self.tree.node(path) {
                Ok(_) => self.send_missed(id, Event::Created, path),
                Err(_) => self.watches.add(path, id, Watch::Data),
            }
        }
        for path in &children {
            match self.tree.node(path) {
                Err(_) => self.send_missed(id, Event::Deleted, path),
                Ok(node) if node.pzxid > zxid => self.send_missed(id, Event::ChildrenChanged, path),
                Ok(_) => self.watches.add(path, id, Watch::Children),
            }
        }
        persistent.iter().for_each(|path| self.watches.add(path, id, Watch::Persistent));
        recursive.iter().for_each(|path| self.watches.add(path, id, Watch::Recursive));
        Ok(())
    }

    fn send_missed(&mut self, id: ConnectionId, event: Event, path: &str) {
        self.send_event(id, event, path, NO_ZXID);
    }
}

/// A read of one node.
struct Read {
    operation: i32,
    path: String,
    is_watching: bool,
}

impl Read {
    fn decode(operation: i32, request: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { operation, path: request.string()?, is_watching: request.bool()? })
    }

    fn decode_of_several(operation: i32, request: &mut Reader<'_>) -> Decoded<Self> {
        match operation {
            opcode::GET_DATA | opcode::GET_CHILDREN => Self::decode(operation, request),
            _ => Err(Malformed),
        }
    }
}

fn put_strings(body: &mut Writer, texts: &[&str]) {
    body.list(texts, |body, text| {
        body.string(text);
    });
}
