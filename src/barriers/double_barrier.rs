//! A barrier at which processes begin together, and end together.

use std::time::Duration;

use super::entered::Entered;
use super::site::Site;
use crate::client::Client;
use crate::error::{Error, Result};

/// A barrier that lets a number of processes in when all of them have come, and out when all of them want to leave. More
/// than that number may enter, also later, while a member is in.
///
/// ```no_run
/// use std::time::Duration;
/// use zk_recipes::Client;
/// use zk_recipes::barriers::DoubleBarrier;
///
/// # async fn example() -> zk_recipes::Result<()> {
/// let client = Client::connect("zk1:2181,zk2:2181,zk3:2181").await?;
/// let round = DoubleBarrier::new(&client, "/barriers/import/2026-08-01", 3)?;
/// # async fn import() {}
/// let Some(entered) = round.enter_within(Duration::from_secs(60)).await? else {
///     println!("the others have not come");
///     return Ok(());
/// };
/// import().await;
/// entered.leave().await // returns when all three have finished
/// # }
/// ```
///
/// # Rounds
/// The members are let in by a node `ready`. A process that enters while a member is in joins that round, and is let in
/// at once. When all members have left or are lost, the next ones to enter wait for each other, even if `ready` was
/// left behind. So a path can be used for one round after the other.
///
/// A member does not choose its round: one that is meant for the next round joins the present one if it comes before all
/// have left. If that matters, give each round a path of its own, such as by a date or a number.
///
/// # Who counts
/// Each member counts once, and only while its node exists. A member that gives up deletes its node; without a connection,
/// it counts until its session has expired.
///
/// If the session of a member ends after it was counted and before it has seen `ready`, it comes again: it joins the others
/// if one of them is still in, and else waits for the next round.
///
/// All members must have the permission to read `ready`. The client of the member that lets the others in sets its ACL. A
/// member that may not read it is not notified, and waits until its connection changes.
///
/// # Cost
/// Entering takes one round trip, and one more for the member that lets the others in; the others hear of it by an event.
/// A member that comes late, or finds a `ready` that was left behind, needs two more. Members whose nodes may not be read
/// take a round trip each, and are counted without a check that they are still there. Leaving takes a round trip, and then at
/// least another and an event.
///
/// Sources: Curator's `DistributedDoubleBarrier`, with the same nodes. There, a member that gives up stays in the count, a
/// short interruption or a `ready` that was left behind may let a single member in, and `leave` may return before the last
/// one has left.
#[derive(Clone)]
#[must_use = "a barrier does nothing until it is entered"]
pub struct DoubleBarrier {
    site: Site,
}

debug_by!(DoubleBarrier, |it| path: it.path(), members: it.members());

impl DoubleBarrier {
    /// Creates a handle on the barrier at `path`, below the client's namespace, for this number of members. Makes no request.
    ///
    /// The path must not be used for anything else: every child counts as a member. All members must give the same number:
    /// only the number of the one that comes last decides.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`]: `path` is not a valid path.
    /// - [`Error::InvalidArgument`]: `members` is zero.
    pub fn new(client: &Client, path: &str, members: usize) -> Result<Self> {
        if members == 0 {
            let reason = "the number of members must be greater than zero".into();
            return Err(Error::InvalidArgument { argument: "members", reason });
        }
        Ok(Self { site: Site::new(client, client.full_path(path)?, members) })
    }

    /// Enters the barrier, and waits until as many members as it is for have done so. The path and its parents are created
    /// as containers.
    ///
    /// The wait outlasts lost connections and ended sessions; after the end of a session, this member comes again. Each call
    /// is a member of its own.
    ///
    /// # Errors
    /// - [`Error::ZooKeeper`]: the servers refuse. To join members that are in, one of them must be readable.
    /// - [`Error::NotConnected`]: the servers cannot be reached under the retry policy.
    /// - [`Error::PlaceLost`]: something deletes the node of this member again and again.
    /// - [`Error::Closed`]: the client is closed.
    ///
    /// # Cancel safety
    /// The node of this member is deleted in the background, and does not count any more once the servers have received
    /// that: without a connection, when its session has expired. It never counts for later members of this client.
    pub async fn enter(&self) -> Result<Entered> {
        let letting_in = async { Ok(Entered::new(&self.site, self.site.let_in().await?)) };
        self.site.client.unless_closed(letting_in).await
    }

    /// Enters as [`enter`](Self::enter) does, and gives up after `within`. Returns `None` then; the node of this member is
    /// deleted in the background. If the last of the others comes before that, it may still be counted.
    ///
    /// # Errors
    /// Same as [`enter`](Self::enter).
    ///
    /// # Cancel safety
    /// Same as [`enter`](Self::enter).
    pub async fn enter_within(&self, within: Duration) -> Result<Option<Entered>> {
        self.site.client.within(within, self.enter()).await.transpose()
    }

    /// Returns the number of members that it is for.
    pub fn members(&self) -> usize {
        self.site.members
    }

    /// Returns the full path of the barrier, including the namespace.
    pub fn path(&self) -> &str {
        &self.site.path
    }
}
