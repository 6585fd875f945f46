//! The requests of clients that are decoded before they are done.

use super::acl::{Acl, Id};
use super::code::Code;
use super::tree::Kind;
use crate::testing::jute::{Decoded, Malformed, Reader};
use crate::testing::opcode;

/// The first message of a connection.
#[derive(Debug)]
pub(super) struct Connect<'a> {
    pub(super) last_zxid: i64,
    /// In milliseconds.
    pub(super) timeout: i32,
    /// 0 for a new one.
    pub(super) session: i64,
    pub(super) password: &'a [u8],
    /// See [`Connection`](super::connections::Connection).
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

/// What changes nodes. It takes a number, whether it succeeds or not.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Create(Create),
    Delete {
        path: String,
        version: i32,
    },
    SetData {
        path: String,
        data: Option<Vec<u8>>,
        version: i32,
    },
    Check {
        path: String,
        version: i32,
    },
    SetAcl {
        path: String,
        acl: Vec<Acl>,
        version: i32,
    },
    /// Fails in any case.
    Refused(Code),
}

/// The node that is to be created.
#[derive(Clone, Debug)]
pub(super) struct Create {
    pub(super) path: String,
    pub(super) data: Option<Vec<u8>>,
    pub(super) acl: Vec<Acl>,
    pub(super) kind: Kind,
    pub(super) is_sequential: bool,
    pub(super) returns_stat: bool,
}

impl Write {
    /// Decodes what follows the header of a request.
    pub(super) fn decode(operation: i32, reader: &mut Reader<'_>) -> Decoded<Self> {
        if operation == opcode::RECONFIG {
            // Three lists of servers and a number, which are not needed to refuse them.
            for _ in 0..3 {
                reader.buffer()?;
            }
            reader.i64()?;
            return Ok(Self::Refused(Code::ReconfigDisabled));
        }
        let path = reader.string()?;
        Ok(match operation {
            opcode::CREATE | opcode::CREATE_2 | opcode::CREATE_CONTAINER | opcode::CREATE_TTL => {
                let data = data(reader)?;
                let acl = acl(reader)?;
                let flags = reader.i32()?;
                let ttl = if operation == opcode::CREATE_TTL { Some(reader.i64()?) } else { None };
                let returns_stat = operation != opcode::CREATE;
                match kind(operation, flags, ttl) {
                    Ok((kind, is_sequential)) => {
                        Self::Create(Create { path, data, acl, kind, is_sequential, returns_stat })
                    }
                    Err(code) => Self::Refused(code),
                }
            }
            opcode::DELETE => Self::Delete { path, version: reader.i32()? },
            opcode::SET_DATA => Self::SetData { path, data: data(reader)?, version: reader.i32()? },
            opcode::CHECK => Self::Check { path, version: reader.i32()? },
            opcode::SET_ACL => Self::SetAcl { path, acl: acl(reader)?, version: reader.i32()? },
            _ => return Err(Malformed),
        })
    }

    /// Decodes one of the writes of a transaction, in which a create that makes no sense spoils the whole request.
    pub(super) fn decode_of_several(operation: i32, reader: &mut Reader<'_>) -> Decoded<Self> {
        match Self::decode(operation, reader)? {
            Self::SetAcl { .. } | Self::Refused(_) => Err(Malformed),
            write => Ok(write),
        }
    }

    /// Returns the number that its result has in the reply to a transaction.
    pub(super) fn opcode(&self) -> i32 {
        match self {
            Self::Create(Create { returns_stat: false, .. }) => opcode::CREATE,
            Self::Create(_) => opcode::CREATE_2,
            Self::Delete { .. } => opcode::DELETE,
            Self::SetData { .. } => opcode::SET_DATA,
            Self::Check { .. } => opcode::CHECK,
            Self::SetAcl { .. } => opcode::SET_ACL,
            Self::Refused(_) => opcode::ERROR,
        }
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
