//! Who may do what: access control lists, and what clients have authenticated as.

use std::net::{IpAddr, Ipv4Addr};

use super::code::Code;
use super::digest;

pub(super) const READ: i32 = 1;
pub(super) const WRITE: i32 = 2;
pub(super) const CREATE: i32 = 4;
pub(super) const DELETE: i32 = 8;
pub(super) const ADMIN: i32 = 16;
pub(super) const ALL: i32 = READ | WRITE | CREATE | DELETE | ADMIN;

/// The scheme of an id that has every permission.
const OPERATOR: &str = "super";

/// A scheme and what it identifies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Id {
    pub(super) scheme: String,
    pub(super) id: String,
}

/// Permissions of everyone that matches an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Acl {
    pub(super) permissions: i32,
    pub(super) id: Id,
}

impl Acl {
    pub(super) fn of_everyone(permissions: i32) -> Self {
        Self { permissions, id: Id::new("world", "anyone") }
    }
}

impl Id {
    fn new(scheme: &str, id: impl Into<String>) -> Self {
        Self { scheme: scheme.into(), id: id.into() }
    }

    pub(super) fn of_address(address: IpAddr) -> Self {
        Self::new("ip", address.to_string())
    }

    /// Returns an id that no client can authenticate as.
    pub(super) fn of_operator() -> Self {
        Self::new(OPERATOR, "")
    }

    /// Returns what a client becomes by authenticating.
    pub(super) fn authenticated(scheme: &str, secret: &[u8], address: IpAddr) -> Result<Self, Code> {
        match scheme {
            "digest" => Ok(Self::new(scheme, digest::of_credentials(&String::from_utf8_lossy(secret)))),
            "ip" => Ok(Self::of_address(address)),
            _ => Err(Code::AuthFailed),
        }
    }

    /// Returns the name of the user, without a hash of the password.
    pub(super) fn user(&self) -> &str {
        match self.scheme.as_str() {
            "digest" => self.id.split(':').next().unwrap_or_default(),
            _ => &self.id,
        }
    }

    fn is_anyone(&self) -> bool {
        self.scheme == "world" && self.id == "anyone"
    }

    fn is_valid(&self) -> bool {
        match self.scheme.as_str() {
            "digest" => self.id.split(':').collect::<Vec<_>>().len() == 2,
            "ip" => network(&self.id).is_some(),
            _ => self.is_anyone(),
        }
    }

    fn is_matched_by(&self, client: &Self) -> bool {
        self.scheme == client.scheme
            && match self.scheme.as_str() {
                "ip" => is_in_network(&client.id, &self.id),
                _ => self.id == client.id,
            }
    }
}

/// Returns the list of a new node: without doubles, and with the ids of the client in place of "auth".
pub(super) fn resolve(list: &[Acl], client: &[Id]) -> Result<Vec<Acl>, Code> {
    let mut resolved = Vec::new();
    for (index, acl) in list.iter().enumerate() {
        if list[..index].contains(acl) {
            continue;
        }
        if acl.id.scheme == "auth" {
            // An address proves nothing.
            let mut own = client.iter().filter(|id| id.scheme == "digest").cloned().peekable();
            if own.peek().is_none() {
                return Err(Code::InvalidAcl);
            }
            resolved.extend(own.map(|id| Acl { permissions: acl.permissions, id }));
        } else if acl.id.is_valid() {
            resolved.push(acl.clone());
        } else {
            return Err(Code::InvalidAcl);
        }
    }
    if resolved.is_empty() { Err(Code::InvalidAcl) } else { Ok(resolved) }
}

pub(super) fn is_operator(client: &[Id]) -> bool {
    client.iter().any(|id| id.scheme == OPERATOR)
}

/// Checks that the client has one of the permissions.
pub(super) fn check(list: &[Acl], permissions: i32, client: &[Id]) -> Result<(), Code> {
    if is_operator(client) {
        return Ok(());
    }
    let is_granted = |acl: &Acl| {
        acl.permissions & permissions != 0
            && (acl.id.is_anyone() || client.iter().any(|id| acl.id.is_matched_by(id)))
    };
    if list.is_empty() || list.iter().any(is_granted) { Ok(()) } else { Err(Code::NoAuth) }
}

/// Returns the list as it is shown to a client that may not change it: without hashes of passwords.
pub(super) fn masked(list: &[Acl]) -> Vec<Acl> {
    let mask = |acl: &Acl| {
        let mut acl = acl.clone();
        if acl.id.scheme == "digest" && acl.id.id.contains(':') {
            acl.id.id = format!("{}:x", acl.id.user());
        }
        acl
    };
    list.iter().map(mask).collect()
}

/// Returns an address, and how many of its first bits others of the same network share with it.
fn network(text: &str) -> Option<(u32, u32)> {
    let (address, bits) = match text.split_once('/') {
        None => (text, 32),
        Some((address, bits)) => (address, bits.parse().ok().filter(|bits| *bits <= 32)?),
    };
    Some((address.parse::<Ipv4Addr>().ok()?.to_bits(), bits))
}

fn is_in_network(address: &str, text: &str) -> bool {
    let (Ok(address), Some((first, bits))) = (address.parse::<Ipv4Addr>(), network(text)) else {
        return false;
    };
    (address.to_bits() ^ first).checked_shr(32 - bits).unwrap_or(0) == 0
}
