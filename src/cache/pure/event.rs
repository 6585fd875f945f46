//! What goes into the core, and what comes out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use zookeeper_client as zk;

use super::super::options::{CacheOptions, Filter};
use super::super::tree::split;
use crate::error::{Error, Result};

/// A read to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cache) enum Op {
    /// The data and the stat of a node.
    Data(Arc<str>),
    /// The stat alone, which older servers tell without the permission to read.
    Stat(Arc<str>),
    /// The names of the children.
    Children(Arc<str>),
}

impl Op {
    pub(in crate::cache) fn path(&self) -> &Arc<str> {
        let (Self::Data(path) | Self::Stat(path) | Self::Children(path)) = self;
        path
    }
}

/// What a read has found.
#[derive(Clone, Debug)]
pub(in crate::cache) enum Found {
    Node(Option<Vec<u8>>, zk::Stat),
    Children(Vec<String>),
    /// There is no such node.
    Nothing,
    /// The client may not read the node.
    Forbidden,
}

/// What a cache is to hold.
pub(in crate::cache) struct Rules {
    /// Below the client's namespace, as all paths are.
    pub(in crate::cache) root: Arc<str>,
    /// The same with the namespace, for errors.
    pub(in crate::cache) full_path: Arc<str>,
    pub(in crate::cache) options: CacheOptions,
}

impl Rules {
    /// How far below the root it is; `None` if it is not the root and not below it.
    fn depth_of(&self, path: &str) -> Option<usize> {
        let below = path.strip_prefix(&*self.root)?;
        match (below.as_bytes().first(), &*self.root) {
            (None, _) => Some(0),
            (_, "/") => Some(1 + below.matches('/').count()),
            (Some(b'/'), _) => Some(below.matches('/').count()),
            _ => None,
        }
    }

    pub(super) fn is_in_depth(&self, path: &str) -> bool {
        self.depth_of(path).is_some_and(|depth| depth <= self.options.depth)
    }

    /// Whether a node whose parent is [descended into](Self::descends) is held.
    ///
    /// # Errors
    /// The filter has panicked.
    pub(super) fn accepts(&self, path: &str) -> Result<bool> {
        Ok(self.is_in_depth(path) && (path == &*self.root || self.ask(self.options.filter.as_ref(), path)?))
    }

    /// Whether the children of a node that is held are held.
    ///
    /// # Errors
    /// The filter has panicked.
    pub(super) fn descends(&self, path: &str) -> Result<bool> {
        Ok(self.depth_of(path).is_some_and(|depth| depth < self.options.depth)
            && self.ask(self.options.descend.as_ref(), path)?)
    }

    fn ask(&self, filter: Option<&Filter>, path: &str) -> Result<bool> {
        let Some(filter) = filter else { return Ok(true) };
        catch_unwind(AssertUnwindSafe(|| filter(path)))
            .map_err(|_panic| Error::CacheFilterPanicked { path: self.full_path.to_string() })
    }

    /// The parent, unless this is the root.
    pub(super) fn parent<'a>(&self, path: &'a str) -> Option<&'a str> {
        (path != &*self.root).then(|| split(path).0)
    }

    pub(super) fn child(parent: &str, name: &str) -> Arc<str> {
        match parent {
            "/" => format!("/{name}").into(),
            parent => format!("{parent}/{name}").into(),
        }
    }
}
