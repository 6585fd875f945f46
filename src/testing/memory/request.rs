//! The requests of clients, decoded.

use super::acl::{Acl, Id};
use super::code::Code;
use super::opcode;
use super::tree::{Create, Kind};
use super::watches::{Mode, Target};
use crate::testing::jute::{Decoded, Malformed, Reader};

/// The first message of a connection.
#[derive(Debug)]
pub(super) struct Connect<'a> {
    pub(super) last_zxid: i64,
    /// In milliseconds.
    pub(super) timeout: i32,
    /// 0 for a new one.
    pub(super) session: i64,
    pub(super) password: &'a [u8],
    /// Whether the client says if it would be content with a server that only reads. Old clients do not, and do not
    /// expect an answer to it.
    pub(super) tells_read_only: bool,
}

impl<'a> Connect<'a> {
    pub(super) fn decode(message: &'a [u8]) -> Decoded<Self> {
        let mut reader = Reader::new(message);
        let _protocol_version = reader.i32()?;
        let last_zxid = reader.i64()?;
        let timeout = reader.i32()?;
        let session = reader.i64()?;
        let password = reader.buffer()?.unwrap_or_default();
        Ok(Self { last_zxid, timeout, session, password, tells_read_only: !reader.is_empty() })
    }
}

/// A request that changes no node.
#[derive(Debug)]
pub(super) enum Request {
    Read(Read),
    MultiRead(Vec<Read>),
    Exists { path: String, is_watching: bool },
    GetAcl(String),
    GetChildren2 { path: String, is_watching: bool },
    GetEphemerals(String),
    GetAllChildrenNumber(String),
    Sync(String),
    Ping,
    WhoAmI,
    Auth { scheme: String, secret: Vec<u8> },
    SetWatches(Box<SetWatches>),
    AddWatch { path: String, mode: Mode },
    CheckWatches { path: String, target: Target },
    RemoveWatches { path: String, target: Target },
}

/// What can change something. It takes a number, whether it succeeds or not.
#[derive(Clone, Debug)]
pub(super) enum Update {
    Write(Write),
    Multi(Vec<Write>),
    SetAcl {
        path: String,
        acl: Vec<Acl>,
        version: i32,
    },
    Reconfig,
    /// A transaction that cannot be decoded: it takes its number before that is found.
    Malformed,
}

/// What can be part of a transaction.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Create { create: Result<Create, Code>, returns_stat: bool },
    Delete { path: String, version: i32 },
    SetData { path: String, data: Option<Vec<u8>>, version: i32 },
    Check { path: String, version: i32 },
}

/// What can be part of a read of several nodes.
#[derive(Debug)]
pub(super) enum Read {
    Data { path: String, is_watching: bool },
    Children { path: String, is_watching: bool },
}

/// The watches of a client that has reconnected.
#[derive(Debug)]
pub(super) struct SetWatches {
    /// The last change that the client knows of.
    pub(super) zxid: i64,
    pub(super) data: Vec<String>,
    pub(super) existence: Vec<String>,
    pub(super) children: Vec<String>,
    pub(super) persistent: Vec<String>,
    pub(super) recursive: Vec<String>,
}

/// Decodes what follows the header of an update.
pub(super) fn update(operation: i32, body: &[u8]) -> Decoded<Update> {
    let mut reader = Reader::new(body);
    match operation {
        opcode::MULTI => Ok(multi(&mut reader, write_of_several).map_or(Update::Malformed, Update::Multi)),
        opcode::SET_ACL => {
            Ok(Update::SetAcl { path: reader.string()?, acl: acl(&mut reader)?, version: reader.i32()? })
        }
        opcode::RECONFIG => reconfig(&mut reader),
        _ => write(operation, &mut reader).map(Update::Write),
    }
}

/// Decodes what follows the header of any other request. `None` if there is no such request.
pub(super) fn read(operation: i32, body: &[u8]) -> Option<Decoded<Request>> {
    let mut reader = Reader::new(body);
    let request = match operation {
        opcode::GET_DATA | opcode::GET_CHILDREN => one_read(operation, &mut reader).map(Request::Read),
        opcode::MULTI_READ => multi(&mut reader, one_read).map(Request::MultiRead),
        opcode::PING => Ok(Request::Ping),
        opcode::WHO_AM_I => Ok(Request::WhoAmI),
        opcode::EXISTS
        | opcode::GET_ACL
        | opcode::SYNC
        | opcode::GET_CHILDREN_2
        | opcode::GET_EPHEMERALS
        | opcode::GET_ALL_CHILDREN_NUMBER => of_a_path(operation, &mut reader),
        opcode::CHECK_WATCHES | opcode::REMOVE_WATCHES | opcode::ADD_WATCH => {
            of_watches(operation, &mut reader)
        }
        opcode::SET_WATCHES => set_watches(&mut reader, false),
        opcode::SET_WATCHES_2 => set_watches(&mut reader, true),
        opcode::AUTH => auth(&mut reader),
        // What can be decoded is an update.
        _ if opcode::is_update(operation) => Err(Malformed),
        _ => return None,
    };
    Some(request)
}

fn of_a_path(operation: i32, reader: &mut Reader<'_>) -> Decoded<Request> {
    let path = reader.string()?;
    Ok(match operation {
        opcode::EXISTS => Request::Exists { path, is_watching: reader.bool()? },
        opcode::GET_CHILDREN_2 => Request::GetChildren2 { path, is_watching: reader.bool()? },
        opcode::GET_ACL => Request::GetAcl(path),
        opcode::GET_EPHEMERALS => Request::GetEphemerals(path),
        opcode::GET_ALL_CHILDREN_NUMBER => Request::GetAllChildrenNumber(path),
        _ => Request::Sync(path),
    })
}

fn of_watches(operation: i32, reader: &mut Reader<'_>) -> Decoded<Request> {
    let (path, number) = (reader.string()?, reader.i32()?);
    if operation == opcode::ADD_WATCH {
        let mode = match number {
            0 => Mode::Persistent,
            1 => Mode::Recursive,
            _ => return Err(Malformed),
        };
        return Ok(Request::AddWatch { path, mode });
    }
    let target = match number {
        1 => Target::Children,
        2 => Target::Data,
        3 => Target::Any,
        4 => Target::Persistent,
        5 => Target::Recursive,
        _ => return Err(Malformed),
    };
    Ok(match operation {
        opcode::CHECK_WATCHES => Request::CheckWatches { path, target },
        _ => Request::RemoveWatches { path, target },
    })
}

fn set_watches(reader: &mut Reader<'_>, has_persistent: bool) -> Decoded<Request> {
    let zxid = reader.i64()?;
    let mut paths = || reader.list(Reader::string);
    let (data, existence, children) = (paths()?, paths()?, paths()?);
    let (persistent, recursive) = if has_persistent { (paths()?, paths()?) } else { Default::default() };
    Ok(Request::SetWatches(Box::new(SetWatches { zxid, data, existence, children, persistent, recursive })))
}

/// Three lists of servers and a number, which are not needed to refuse them.
fn reconfig(reader: &mut Reader<'_>) -> Decoded<Update> {
    for _ in 0..3 {
        reader.buffer()?;
    }
    reader.i64()?;
    Ok(Update::Reconfig)
}

fn auth(reader: &mut Reader<'_>) -> Decoded<Request> {
    let _type = reader.i32()?;
    Ok(Request::Auth { scheme: reader.string()?, secret: reader.buffer()?.unwrap_or_default().into() })
}

fn write(operation: i32, reader: &mut Reader<'_>) -> Decoded<Write> {
    let path = reader.string()?;
    Ok(match operation {
        opcode::CREATE | opcode::CREATE_2 | opcode::CREATE_CONTAINER | opcode::CREATE_TTL => {
            let data = data(reader)?;
            let acl = acl(reader)?;
            let flags = reader.i32()?;
            let ttl = if operation == opcode::CREATE_TTL { Some(reader.i64()?) } else { None };
            let create = kind(operation, flags, ttl);
            let create = create.map(|(kind, is_sequential)| Create { path, data, acl, kind, is_sequential });
            Write::Create { create, returns_stat: operation != opcode::CREATE }
        }
        opcode::DELETE => Write::Delete { path, version: reader.i32()? },
        opcode::SET_DATA => Write::SetData { path, data: data(reader)?, version: reader.i32()? },
        opcode::CHECK => Write::Check { path, version: reader.i32()? },
        _ => return Err(Malformed),
    })
}

/// In a transaction, a create that makes no sense spoils the whole request.
fn write_of_several(operation: i32, reader: &mut Reader<'_>) -> Decoded<Write> {
    match write(operation, reader)? {
        Write::Create { create: Err(_), .. } => Err(Malformed),
        write => Ok(write),
    }
}

fn one_read(operation: i32, reader: &mut Reader<'_>) -> Decoded<Read> {
    let (path, is_watching) = (reader.string()?, reader.bool()?);
    match operation {
        opcode::GET_DATA => Ok(Read::Data { path, is_watching }),
        opcode::GET_CHILDREN => Ok(Read::Children { path, is_watching }),
        _ => Err(Malformed),
    }
}

/// Reads operations, each with a header, up to the header that ends them.
fn multi<T>(reader: &mut Reader<'_>, one: fn(i32, &mut Reader<'_>) -> Decoded<T>) -> Decoded<Vec<T>> {
    let mut operations = Vec::new();
    loop {
        let operation = reader.i32()?;
        let is_end = reader.bool()?;
        let _error = reader.i32()?;
        if is_end {
            return Ok(operations);
        }
        operations.push(one(operation, reader)?);
    }
}

/// Returns the kind that the flags of a create stand for, and whether the node is sequential.
fn kind(operation: i32, flags: i32, ttl: Option<i64>) -> Result<(Kind, bool), Code> {
    let (kind, is_sequential) = match flags {
        0 | 2 => (Kind::Persistent, flags == 2),
        1 | 3 => (Kind::Ephemeral, flags == 3),
        4 => (Kind::Container, false),
        5 | 6 => (Kind::Ttl(ttl.unwrap_or(-1)), flags == 6),
        _ => return Err(Code::BadArguments),
    };
    // The flags must be those of the request.
    let is_consistent = match kind {
        Kind::Persistent | Kind::Ephemeral => matches!(operation, opcode::CREATE | opcode::CREATE_2),
        Kind::Container => operation == opcode::CREATE_CONTAINER,
        Kind::Ttl(_) => operation == opcode::CREATE_TTL,
    };
    if is_consistent { Ok((kind, is_sequential)) } else { Err(Code::BadArguments) }
}

fn data(reader: &mut Reader<'_>) -> Decoded<Option<Vec<u8>>> {
    Ok(reader.buffer()?.map(Into::into))
}

fn acl(reader: &mut Reader<'_>) -> Decoded<Vec<Acl>> {
    reader.list(|reader| {
        let permissions = reader.i32()?;
        let id = Id { scheme: reader.string()?, id: reader.string()? };
        Ok(Acl { permissions, id })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_request_must_fit() {
        assert_eq!(kind(opcode::CREATE, 3, None), Ok((Kind::Ephemeral, true)));
        assert_eq!(kind(opcode::CREATE_TTL, 5, Some(9)), Ok((Kind::Ttl(9), false)));
        for (operation, flags) in
            [(opcode::CREATE, 4), (opcode::CREATE_2, 5), (opcode::CREATE_2, 9), (opcode::CREATE_TTL, 0)]
        {
            assert_eq!(kind(operation, flags, Some(9)), Err(Code::BadArguments));
        }
    }
}
