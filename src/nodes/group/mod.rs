//! Groups of processes that know of each other.

mod member;
mod members;
mod observer;
mod view;

use std::sync::Arc;
use std::time::Duration;

pub use self::member::GroupMember;
pub use self::members::{Member, MemberChange, Members};
use self::view::View;
use super::options::{OnStranger, PersistentNodeOptions};
use super::persistent_node::PersistentNode;
use super::state::NodeState;
use crate::client::{Client, Room};
use crate::cut::cut;
use crate::error::{Error, Result};
use crate::failure::if_exists;
use crate::watch::Watch;

/// A group of processes: each member has an ephemeral node with its id and a payload, and everyone can see who is a member.
///
/// ```no_run
/// use zk_recipes::Client;
/// use zk_recipes::nodes::{Group, MemberChange};
///
/// # async fn example() -> zk_recipes::Result<()> {
/// let client = Client::connect("zk1:2181,zk2:2181,zk3:2181").await?;
/// let group = Group::new(&client, "/groups/web")?;
/// let member = group.join("web-7", "10.0.0.7:8080").await?;
///
/// let mut members = group.watch_members();
/// let mut before = members.get();
/// while let Some(now) = members.changed().await {
///     for change in now.changes_since(&before) {
///         match change {
///             MemberChange::Joined { id, member } => println!("{id} joined: {:?}", member.payload()),
///             MemberChange::Left { id, .. } => println!("{id} left"),
///             other => println!("{other:?}"),
///         }
///     }
///     if !now.is_current() {
///         println!("not connected: this may be out of date");
///     }
///     before = now;
/// }
/// member.leave().await
/// # }
/// ```
///
/// # Cost
/// To watch the members costs a list and a read of each member, in two round trips; after that, a list and a read for each
/// member that joins, a list for each that leaves, a read for each payload that changes, and a list in one to two session
/// timeouts without a change. Every watcher has one watch on the group and one on each member at the servers: `n` members that
/// all watch have `n * (n + 1)` of them, and each join or leave makes the servers send `n` lists of `n` names. That is nothing for some tens of members, and 90,000 watches, or
/// some 10 MB of a server's memory, for 300. To read all members again at each change instead would save the watches, but
/// take `n` reads where this takes one, and would not show changes of a payload. For larger groups, let a few processes
/// watch and pass it on.
///
/// Sources: Curator's `GroupMember`, with the same nodes, which also lists itself while it is no member, does not say when
/// what it shows is out of date, and lets two members of one id overwrite each other.
#[derive(Clone)]
#[must_use = "a group does nothing until it is joined or watched"]
pub struct Group {
    client: Client,
    /// As it was given.
    given_path: Arc<str>,
    path: Arc<str>,
}

debug_by!(Group, |it| path: it.path());

impl Group {
    /// Creates a handle on the group at `path`, below the client's namespace. Makes no request.
    ///
    /// The path must not be used for anything else: every child counts as a member.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`]: `path` is not a valid path.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        let full_path = client.full_path(path)?;
        Ok(Self { client: client.clone(), given_path: path.into(), path: full_path })
    }

    /// Joins the group as the member `id`, and returns when this client is a member. It stays one until the returned value
    /// is dropped, over lost connections and ended sessions. The path and its parents are created as containers. One round
    /// trip.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: `id` is empty or contains `/`, the payload is larger than the servers accept, or this
    ///   client is a member of this id already.
    /// - [`Error::InvalidPath`]: `id` contains something else that is not allowed in a path.
    /// - [`Error::NodeTaken`]: another session is a member of this id: another process, or an earlier run of this one. For
    ///   that, see [`join_within`](Self::join_within).
    /// - [`Error::ZooKeeper`]: the servers refuse.
    /// - [`Error::NotConnected`]: the servers cannot be reached under the retry policy.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// The client does not stay a member.
    pub async fn join(&self, id: &str, payload: impl Into<Vec<u8>>) -> Result<GroupMember> {
        let node = self.start(id, payload.into(), OnStranger::Fail)?;
        self.client.unless_closed(self.client.session_under_policy()).await?;
        let joining = async {
            tokio::select! {
                biased;
                present = node.wait_present() => present.map(drop),
                error = self.client.outage() => Err(error),
            }
        };
        self.client.unless_closed(joining).await?;
        Ok(GroupMember { group: self.clone(), id: id.to_owned(), node })
    }

    /// Joins as [`join`](Self::join) does, but waits for up to `within` for the end of another session that is a member of
    /// this id. After a crash and a restart, that takes the session timeout of the run before.
    ///
    /// # Errors
    /// Same as [`join`](Self::join); [`Error::NodeTaken`] if another session is still a member when the time is over, and
    /// [`Error::NotConnected`] if the servers have not answered by then.
    ///
    /// # Cancel safety
    /// The client does not stay a member.
    pub async fn join_within(
        &self,
        id: &str,
        payload: impl Into<Vec<u8>>,
        within: Duration,
    ) -> Result<GroupMember> {
        let node = self.start(id, payload.into(), OnStranger::Wait)?;
        match self.client.within(within, node.wait_present()).await {
            Some(present) => present.map(drop)?,
            None => match node.state() {
                NodeState::Present { .. } => {}
                NodeState::Blocked(error) => return Err(error),
                NodeState::Absent | NodeState::Closed => return Err(self.client.not_connected(within)),
            },
        }
        Ok(GroupMember { group: self.clone(), id: id.to_owned(), node })
    }

    fn start(&self, id: &str, payload: Vec<u8>, on_stranger: OnStranger) -> Result<PersistentNode> {
        if id.is_empty() || id.contains('/') {
            let reason = format!("{:?} must be the name of a node: not empty, and without `/`", cut(id));
            return Err(Error::InvalidArgument { argument: "id", reason });
        }
        let options = PersistentNodeOptions::new().on_stranger(on_stranger);
        PersistentNode::start(&self.client, &format!("{}/{id}", self.given_path), payload, options)
    }

    /// Reads the members. It includes everyone who has joined before the call, as far as a `sync` goes (see [how
    /// new a value is](crate::guide::values#how-new-a-value-is)). Two round trips.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: the group cannot be read.
    /// - [`Error::NotConnected`]: the servers cannot be reached.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: this only reads.
    pub async fn members(&self) -> Result<Members> {
        let reading = self.client.request("list the members of", &self.path, |session| async move {
            let names = if_exists(session.synced(&self.path, session.list(&self.path)).await)?;
            let mut view = View::default();
            let names = view.listed(&names.unwrap_or_default());
            let mut room = Room::default();
            for names in names.chunks(observer::AT_ONCE) {
                let read = observer::read(&self.client, &session, &self.path, names, false, &mut room);
                for (name, member, _) in read.await? {
                    view.read(name, member);
                }
            }
            Ok(observer::members(&self.client, &session, &view))
        });
        self.client.unless_closed(reading).await
    }

    /// Follows the members, of whom nothing is known at first: [`is_current`](Members::is_current) becomes true with the
    /// first look at the group. Ends with the client.
    ///
    /// While there is no connection, the last members are shown, and are not current. If the group may not be read, it is
    /// tried again, with pauses of up to 5 seconds; [`members`](Self::members) returns the error.
    ///
    /// The servers tell nothing of what changes while this client is not permitted to read it. A member that joins or leaves
    /// is seen within two session timeouts nevertheless; a payload, when it changes again or on the next connection.
    pub fn watch_members(&self) -> Watch<Members> {
        let (client, path) = (self.client.detached(), self.path.clone());
        let observing = |watched| observer::observe(client, path, watched);
        // What it has shown last is not current any more.
        self.client.follow(Members::default(), observing, Members::stale)
    }

    /// Returns the full path of the group, including the namespace.
    pub fn path(&self) -> &str {
        &self.path
    }
}
