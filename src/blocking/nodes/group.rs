//! Groups of processes that know of each other, for threads.

use std::time::Duration;

use crate::blocking::client::Client;
use crate::blocking::wait::wait;
use crate::error::Result;
use crate::nodes::{Members, NodeState};
use crate::watch::Watch;

/// A group of processes. The blocking twin of [`nodes::Group`](crate::nodes::Group).
///
/// ```no_run
/// use zk_recipes::blocking::Client;
/// use zk_recipes::blocking::nodes::Group;
///
/// # fn example(client: Client) -> zk_recipes::Result<()> {
/// let group = Group::new(&client, "/groups/web")?;
/// let member = group.join("web-7", "10.0.0.7:8080")?;
/// for (id, member) in group.members()?.iter() {
///     println!("{id}: {:?}", member.payload());
/// }
/// member.leave()
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a group does nothing until it is joined or watched"]
pub struct Group {
    inner: crate::nodes::Group,
}

twin!(Group of crate::nodes);

/// A membership in a [`Group`]. The blocking twin of [`nodes::GroupMember`](crate::nodes::GroupMember).
#[must_use = "if unused, the group is left at once"]
pub struct GroupMember {
    inner: crate::nodes::GroupMember,
}

twin!(GroupMember of crate::nodes);

impl Group {
    /// Creates a handle on the group at `path`. Does not block. See [`Group::new`](crate::nodes::Group::new).
    ///
    /// # Errors
    /// Same as the async method.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        crate::nodes::Group::new(&client.inner, path).map(Self::from)
    }

    /// Joins the group, blocking the thread until this client is a member. The blocking version of
    /// [`Group::join`](crate::nodes::Group::join).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn join(&self, id: &str, payload: impl Into<Vec<u8>>) -> Result<GroupMember> {
        wait(self.inner.join(id, payload)).map(GroupMember::from)
    }

    /// Joins the group, waiting for the end of another member of this id. The blocking version of
    /// [`Group::join_within`](crate::nodes::Group::join_within).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn join_within(
        &self,
        id: &str,
        payload: impl Into<Vec<u8>>,
        within: Duration,
    ) -> Result<GroupMember> {
        wait(self.inner.join_within(id, payload, within)).map(GroupMember::from)
    }

    /// Reads the members. The blocking version of [`Group::members`](crate::nodes::Group::members).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks.
    pub fn members(&self) -> Result<Members> {
        wait(self.inner.members())
    }

    /// Follows the members. See
    /// [`Group::watch_members`](crate::nodes::Group::watch_members).
    pub fn watch_members(&self) -> Watch<Members> {
        self.inner.watch_members()
    }

    /// Returns the full path of the group, including the namespace.
    pub fn path(&self) -> &str {
        self.inner.path()
    }
}

impl GroupMember {
    /// Returns the id of this member.
    pub fn id(&self) -> &str {
        self.inner.id()
    }

    /// Returns the payload that this member has, or is to have. Does not block.
    pub fn payload(&self) -> Vec<u8> {
        self.inner.payload()
    }

    /// Replaces the payload, and blocks the thread until that is confirmed. The blocking version of
    /// [`GroupMember::set_payload`](crate::nodes::GroupMember::set_payload).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks. The
    ///   member keeps its earlier payload.
    pub fn set_payload(&self, payload: impl Into<Vec<u8>>) -> Result<()> {
        wait(self.inner.set_payload(payload))
    }

    /// Returns whether this client is a member now, as far as it knows. Does not block.
    pub fn is_member(&self) -> bool {
        self.inner.is_member()
    }

    /// Returns the state of the node of this member. Does not block.
    pub fn state(&self) -> NodeState {
        self.inner.state()
    }

    /// Follows the state of the node of this member.
    pub fn watch_state(&self) -> Watch<NodeState> {
        self.inner.watch_state()
    }

    /// Leaves the group, blocking the thread until that is confirmed. The blocking version of
    /// [`GroupMember::leave`](crate::nodes::GroupMember::leave).
    ///
    /// # Errors
    /// Same as the async method, and:
    /// - [`Error::WithinRuntime`](crate::Error::WithinRuntime): called on a thread that is running async tasks. The
    ///   client leaves in the background.
    pub fn leave(self) -> Result<()> {
        wait(self.inner.leave())
    }
}
