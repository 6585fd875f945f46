//! What nodes without a queue are used for: groups, barriers, services, counters and others.
//!
//! Nothing in such a node names its recipe, so this goes by what the recipes have in common: who owns the children, what
//! they are called, and what is in them.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::time::{Duration, SystemTime};

use futures_util::future::try_join_all;
use serde_json::Value;
use uuid::Uuid;
use zk_recipes::Client;

use crate::connect::{Node, node};
use crate::exit::Failure;
use crate::tree::{AT_ONCE, Tree, full_path};

/// Nodes with more data are not looked into.
const MOST_DATA: i32 = 16 << 10;

/// A node that is used for something other than a queue.
#[derive(Debug)]
pub(crate) struct Use {
    /// Below the namespace.
    pub(crate) path: String,
    pub(crate) kind: Kind,
    /// The length of its data.
    pub(crate) bytes: usize,
    /// The last change of its data.
    pub(crate) changed: SystemTime,
}

/// What it is used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Of service discovery, with the ids of its instances.
    Service(Vec<String>),
    DoubleBarrier(Vec<String>),
    /// Ephemeral nodes of no other recipe: a group, or kept nodes.
    Group(Vec<String>),
    /// One that is below no other node.
    Ephemeral,
    /// A node that is removed when no one has touched it for a time.
    Ttl,
    /// A closed barrier.
    Barrier,
    /// A shared count or an atomic number.
    Number(i64),
    /// Any other data.
    Value,
}

/// Reads each node of the tree that belongs to no queue, and finds out what it is used for.
pub(crate) async fn uses(client: &Client, tree: &Tree) -> Result<Vec<Use>, Failure> {
    let mut nodes = BTreeMap::new();
    for some in tree.others.chunks(AT_ONCE) {
        let read = try_join_all(some.iter().map(async |path| {
            let full_path = full_path(client, path)?;
            node(client, &full_path, MOST_DATA).await
        }));
        for (path, node) in some.iter().zip(read.await?) {
            // Without one, it was deleted meanwhile.
            nodes.extend(node.map(|node| (path.as_str(), node)));
        }
    }
    Ok(found(&nodes))
}

/// Parents come first, and what is a part of them is not listed again.
fn found(nodes: &BTreeMap<&str, Node>) -> Vec<Use> {
    let mut parts = HashSet::new();
    let mut found = Vec::new();
    for (&path, node) in nodes {
        if parts.contains(path) {
            continue;
        }
        let children: Vec<_> = children(nodes, path).collect();
        let Some((kind, own)) = kind(path, node, &children) else { continue };
        parts.extend(own.into_iter().map(|name| format!("{path}/{name}")));
        let changed = SystemTime::UNIX_EPOCH + Duration::from_millis(node.stat.mtime.unsigned_abs());
        found.push(Use { path: path.to_owned(), kind, bytes: bytes(node), changed });
    }
    found
}

/// The children of a node, by name.
fn children<'a>(nodes: &'a BTreeMap<&str, Node>, path: &str) -> impl Iterator<Item = (&'a str, &'a Node)> {
    let prefix = format!("{path}/");
    let below = nodes.range::<str, _>((Bound::Excluded(&*prefix), Bound::Unbounded));
    let below = below.map_while(move |(path, node)| Some((path.strip_prefix(&*prefix)?, node)));
    below.filter(|(name, _)| !name.contains('/'))
}

/// What a node is used for, with the children that are parts of it.
fn kind<'a>(path: &str, node: &Node, children: &[(&'a str, &Node)]) -> Option<(Kind, Vec<&'a str>)> {
    let names_of = |is_part: &dyn Fn(&str, &Node) -> bool| -> Vec<&'a str> {
        children.iter().filter(|(name, node)| is_part(name, node)).map(|(name, _)| *name).collect()
    };
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let touched = names_of(&is_touched);
    if !touched.is_empty() {
        return Some((Kind::Ttl, touched));
    }
    let service = path.rsplit('/').next().unwrap_or_default();
    let instances = names_of(&|_, child| is_instance(child, service));
    if !instances.is_empty() {
        return Some((Kind::Service(owned(&instances)), instances));
    }
    let mut members = names_of(&|_, child| is_ephemeral(child));
    let is_ready = children.iter().any(|(name, child)| *name == "ready" && is_default(child));
    // Curator's members are called by UUIDs, ours by one and the marker.
    let is_member =
        |name: &&str| Uuid::parse_str(name).is_ok() || name.starts_with("_c_") && name.contains("-member-");
    if (is_ready || !members.is_empty()) && members.iter().all(is_member) {
        let kind = Kind::DoubleBarrier(owned(&members));
        members.extend(is_ready.then_some("ready"));
        return Some((kind, members));
    }
    if !members.is_empty() {
        return Some((Kind::Group(owned(&members)), members));
    }
    if !children.is_empty() {
        return None;
    }
    let kind = match node.data.as_deref() {
        // At the top: elsewhere it is a part of its parent.
        _ if is_ephemeral(node) => Kind::Ephemeral,
        _ if bytes(node) == 0 => return None,
        Some(data) if is_default_data(data) => Kind::Barrier,
        // Text is no number.
        Some(data) if !is_text(data) => number(data).map_or(Kind::Value, Kind::Number),
        _ => Kind::Value,
    };
    Some((kind, Vec::new()))
}

fn bytes(node: &Node) -> usize {
    node.stat.data_length.try_into().unwrap_or_default()
}

/// Reads a number as counters write it.
fn number(data: &[u8]) -> Option<i64> {
    let int = data.try_into().map(|int| i32::from_be_bytes(int).into());
    int.or_else(|_| data.try_into().map(i64::from_be_bytes)).ok()
}

fn is_text(data: &[u8]) -> bool {
    str::from_utf8(data).is_ok_and(|text| !text.contains(char::is_control))
}

/// Whether this is what a client writes into nodes whose data no one asks for: the address of the process, for clients of
/// this library followed by more about it.
fn is_default_data(data: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(data) else { return false };
    text.parse::<IpAddr>().is_ok()
        || text.contains("host=") && text.contains(" pid=") && text.contains(" program=")
}

fn is_ephemeral(node: &Node) -> bool {
    node.stat.ephemeral_owner != 0
}

/// Whether the parent is a TTL node. The servers do not tell, but Curator and this library touch a child of this name.
fn is_touched(name: &str, node: &Node) -> bool {
    name == "touch" && is_default(node)
}

/// Whether it is a lasting node whose data no user has given.
fn is_default(node: &Node) -> bool {
    !is_ephemeral(node) && node.data.as_deref().is_some_and(is_default_data)
}

/// Whether it is an instance of this service, in the format of Curator.
fn is_instance(node: &Node, service: &str) -> bool {
    let Some(Ok(Value::Object(fields))) = node.data.as_deref().map(serde_json::from_slice) else {
        return false;
    };
    fields.get("name").is_some_and(|name| name == service)
        && fields.contains_key("id")
        && fields.contains_key("serviceType")
}

impl Kind {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Service(_) => "service",
            Self::DoubleBarrier(_) => "double barrier",
            Self::Group(_) => "group",
            Self::Ephemeral => "ephemeral node",
            Self::Ttl => "TTL node",
            Self::Barrier => "barrier",
            Self::Number(_) => "number",
            Self::Value => "value",
        }
    }

    /// The names of its instances or members.
    pub(crate) fn members(&self) -> &[String] {
        match self {
            Self::Service(members) | Self::DoubleBarrier(members) | Self::Group(members) => members,
            Self::Ephemeral | Self::Ttl | Self::Barrier | Self::Number(_) | Self::Value => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use zk_recipes::zookeeper_client as zk;

    use super::*;

    const ADDRESS: &[u8] = b"10.0.0.7 host=web-1 pid=311 program=orders";
    const MEMBER: &str = "_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-member-0000000000";
    const UUID: &str = "3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f";

    fn node(ephemeral_owner: i64, data: &[u8]) -> Node {
        let zeroes = zk::Stat {
            czxid: 0,
            mzxid: 0,
            pzxid: 0,
            ctime: 0,
            mtime: 0,
            version: 0,
            cversion: 0,
            aversion: 0,
            ephemeral_owner,
            data_length: data.len().try_into().unwrap(),
            num_children: 0,
        };
        Node { stat: zeroes, data: Some(data.to_owned()) }
    }

    #[test]
    fn recipes_without_a_queue_are_told_apart() {
        let instance = br#"{"name":"web","id":"1","address":"10.0.0.7","serviceType":"DYNAMIC"}"#;
        let nodes = BTreeMap::from([
            ("/barrier", node(0, ADDRESS)),
            ("/barrier-of-curator", node(0, b"10.0.0.7")),
            ("/both", node(0, b"")),
            ("/both/member", node(7, b"")),
            ("/both/ready", node(0, ADDRESS)),
            ("/count", node(0, &17_i32.to_be_bytes())),
            ("/double", node(0, b"")),
            ("/double-of-curator", node(0, b"")),
            ("/double-of-curator/ready", node(0, b"10.0.0.7")),
            ("/double/_c_3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f-member-0000000000", node(7, ADDRESS)),
            ("/empty", node(0, b"")),
            ("/ephemeral", node(7, b"data")),
            ("/group", node(0, b"")),
            ("/group/a", node(7, ADDRESS)),
            ("/group/b", node(8, b"")),
            ("/number", node(0, &(-5_i64).to_be_bytes())),
            ("/plain", node(0, b"")),
            ("/plain/ready", node(0, b"yes")),
            ("/services", node(0, b"")),
            ("/services/other", node(0, b"")),
            ("/services/other/1", node(0, instance)),
            ("/services/web", node(0, b"")),
            ("/services/web/1", node(7, instance)),
            ("/text", node(0, b"12345678")),
            ("/text-too", node(0, "pässwö".as_bytes())),
            ("/touched", node(0, b"")),
            ("/touched/touch", node(0, ADDRESS)),
            ("/uuids", node(0, b"")),
            ("/uuids/3f1e2c4a-0b5d-4a6e-9c7f-1a2b3c4d5e6f", node(7, b"")),
        ]);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let expected = [
            ("/barrier", Kind::Barrier),
            ("/barrier-of-curator", Kind::Barrier),
            ("/both", Kind::Group(names(&["member"]))),
            ("/both/ready", Kind::Barrier),
            ("/count", Kind::Number(17)),
            ("/double", Kind::DoubleBarrier(names(&[MEMBER]))),
            ("/double-of-curator", Kind::DoubleBarrier(Vec::new())),
            ("/ephemeral", Kind::Ephemeral),
            ("/group", Kind::Group(names(&["a", "b"]))),
            ("/number", Kind::Number(-5)),
            ("/plain/ready", Kind::Value),
            ("/services/other/1", Kind::Value),
            ("/services/web", Kind::Service(names(&["1"]))),
            ("/text", Kind::Value),
            ("/text-too", Kind::Value),
            ("/touched", Kind::Ttl),
            ("/uuids", Kind::DoubleBarrier(names(&[UUID]))),
        ];
        let found: Vec<_> = found(&nodes).into_iter().map(|it| (it.path, it.kind)).collect();
        let expected: Vec<_> = expected.map(|(path, kind)| (path.to_owned(), kind)).into();
        assert_eq!(found, expected);
    }
}
