//! An ephemeral node in a queue, from before its create is sent until it is known to be gone.

pub(super) mod deletes;
mod together;

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use uuid::Uuid;
use zookeeper_client::{self as zk, CreateMode};

use self::deletes::DeleteTogether;
pub(crate) use self::together::Guard;
use super::handle::Client;
use super::retry::Failures;
use super::session::{NewNode, Session, Sharing, Watcher};
use super::size;
use super::sweeper::Lost;
use super::write::Write;
use crate::error::{Error, Result};
use crate::failure::Failure;

/// A node created under protection: its name begins with a fresh id, so that it can be identified when the reply to
/// its create is lost. Dropping this removes the node if it may exist.
///
/// This is Curator's `withProtection`, with the same names.
#[derive(Debug)]
pub(crate) struct EphemeralNode {
    client: Client,
    session: Arc<Session>,
    parent: Arc<str>,
    /// `_c_<uuid>-`
    id: String,
    form: NodeForm,
    state: State,
    watch: Option<OwnWatch>,
    /// Of its next delete. One after the first may find it gone, and so goes alone.
    delete_sharing: Sharing,
    /// Dropped when the node is known to be gone.
    kept: Option<Box<dyn Any + Send + Sync>>,
}

/// A watch on a node of ours, and the data that it had when the watch was set, with its version.
#[derive(Debug)]
pub(crate) struct OwnWatch {
    pub(crate) data: Vec<u8>,
    pub(crate) version: i32,
    pub(crate) watcher: Watcher,
}

/// What a node looks like, apart from its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeForm {
    /// The part of the name that identifies the recipe.
    pub(crate) marker: Cow<'static, str>,
    /// The number at the end of the name; `None` for the next one that the server assigns.
    pub(crate) number: Option<i32>,
    /// `None` for the client's identity.
    pub(crate) data: Option<Arc<[u8]>>,
}

impl NodeForm {
    /// Returns the size of a request that creates such a node.
    pub(crate) fn size(&self, client: &Client, parent: &str) -> usize {
        // All ids have the same length.
        let path = format!("{parent}/_c_{}-{}", Uuid::nil(), self.marker);
        let (acl, data) = (client.acl_of(&path), self.data(client));
        let mode = CreateMode::EphemeralSequential;
        size::of_write(&Write::Create { path: &path, data: &data, mode, acl: &acl })
    }

    /// Returns the data as it is written.
    fn data<'a>(&'a self, client: &'a Client) -> Cow<'a, [u8]> {
        client.node_data(self.data.as_deref().unwrap_or(client.identity()))
    }
}

#[derive(Debug)]
enum State {
    Unsent,
    Unknown,
    Exists { name: String, czxid: Option<i64> },
    Gone,
}

/// The outcome of a create.
#[derive(Debug)]
pub(crate) enum CreateOutcome {
    Created,
    ParentMissing,
    /// What the create was conditional on is not so.
    GuardMissing,
    /// The servers do not accept a request of that size. Nothing was sent.
    TooLarge,
    /// The reply was lost, and the node may exist. [`EphemeralNode::settle`] finds out.
    Unknown(zk::Error),
}

impl EphemeralNode {
    /// Prepares a node with a fresh id. Nothing is sent.
    pub(crate) fn new(client: &Client, session: Arc<Session>, parent: &Arc<str>, form: NodeForm) -> Self {
        let id = format!("_c_{}-", Uuid::new_v4());
        Self {
            client: client.clone(),
            session,
            parent: parent.clone(),
            id,
            form,
            state: State::Unsent,
            watch: None,
            delete_sharing: Sharing::IfBusy,
            kept: None,
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    pub(crate) fn form(&self) -> &NodeForm {
        &self.form
    }

    /// Whether its create was not sent yet, so that the server cannot have it.
    pub(crate) fn is_unsent(&self) -> bool {
        matches!(self.state, State::Unsent)
    }

    /// Returns the name of the node, if it is known to have been created.
    pub(crate) fn name(&self) -> Option<&str> {
        match &self.state {
            State::Exists { name, .. } => Some(name),
            State::Unsent | State::Unknown | State::Gone => None,
        }
    }

    /// Returns the transaction that created the node, if it is known.
    pub(crate) fn czxid(&self) -> Option<i64> {
        match self.state {
            State::Exists { czxid, .. } => czxid,
            State::Unsent | State::Unknown | State::Gone => None,
        }
    }

    /// Creates the node. Its name is the id, the marker and the number. The request is sent at the first poll, or with
    /// others, if it may wait for them.
    ///
    /// # Errors
    /// The reason why the node does not exist.
    ///
    /// # Cancel safety
    /// The node may exist; dropping `self` removes it.
    pub(crate) async fn create(&mut self, sharing: Sharing) -> Result<CreateOutcome, zk::Error> {
        self.state = State::Unknown;
        let create = self.to_create();
        if !self.client.fits([size::of_write(&create.to_write())]) {
            self.state = State::Gone;
            return Ok(CreateOutcome::TooLarge);
        }
        let error = match self.session.create(&create, sharing).await {
            Ok(created) => {
                self.exists(&created.path, created.czxid);
                return Ok(CreateOutcome::Created);
            }
            Err(error) => error,
        };
        self.not_created(error)
    }

    /// Determines what a failed create means for the node.
    fn not_created(&mut self, error: zk::Error) -> Result<CreateOutcome, zk::Error> {
        if Failure::of(&error) == Failure::Unknown {
            return Ok(CreateOutcome::Unknown(error));
        }
        self.state = State::Gone;
        match error {
            zk::Error::NoNode => Ok(CreateOutcome::ParentMissing),
            error => Err(error),
        }
    }

    fn to_create(&self) -> NewNode<'_> {
        let NodeForm { marker, number, .. } = &self.form;
        let mut path = format!("{}/{}{marker}", self.parent, self.id);
        if let Some(number) = number {
            path += &format!("{number:010}");
        }
        let acl = self.client.acl_of(&path);
        NewNode { acl, path, numbered: number.is_none(), data: self.data() }
    }

    /// Returns the full path with which the create is sent: that of the node, unless the server appends a number.
    pub(crate) fn path_to_create(&self) -> String {
        self.to_create().path
    }

    /// Returns the data that the node is created with.
    pub(crate) fn data(&self) -> Cow<'_, [u8]> {
        self.form.data(&self.client)
    }

    fn exists(&mut self, path: &str, czxid: Option<i64>) {
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        self.state = State::Exists { name, czxid };
    }

    /// Fetches the transaction that created the node, if the reply to its create did not contain it.
    pub(crate) async fn date(&mut self) -> Result<(), zk::Error> {
        let path = self.path();
        if let State::Exists { czxid: czxid @ None, .. } = &mut self.state {
            *czxid = Some(self.session.stat(&path).await?.ok_or(zk::Error::NoNode)?.czxid);
        }
        Ok(())
    }

    /// Finds out whether the node exists, after a create with an unknown outcome.
    ///
    /// # Cancel safety
    /// Dropping `self` removes the node if it exists.
    pub(crate) async fn settle(&mut self) -> Result<(), zk::Error> {
        Self::settle_together(std::slice::from_mut(self)).await?;
        if self.name().is_none() {
            return Ok(());
        }
        let path = self.path();
        match self.session.stat(&path).await {
            Ok(Some(stat)) if stat.ephemeral_owner == self.session.id() => {
                self.exists(&path, Some(stat.czxid));
            }
            // It was deleted, and perhaps created again by another client.
            Ok(_) => self.is_gone(),
            // It may not be read, but has just been listed as a node of the session.
            Err(zk::Error::NoAuth) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Watches the existing node for its deletion or a change of its data.
    pub(crate) async fn watch(&mut self) -> Result<(), zk::Error> {
        let (data, stat, watcher) = self.session.watch_data(&self.path()).await?;
        self.watch = Some(OwnWatch { data, version: stat.version, watcher });
        Ok(())
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Returns the watch on the node, if there is one.
    pub(crate) fn watcher(&mut self) -> Option<&mut Watcher> {
        self.watch.as_mut().map(|watch| &mut watch.watcher)
    }

    pub(crate) fn take_watch(&mut self) -> Option<OwnWatch> {
        self.watch.take()
    }

    /// Keeps another value from being dropped until the node is known to be gone, or its session is over.
    pub(crate) fn keep_until_gone(&mut self, kept: impl Send + Sync + 'static) {
        let before = self.kept.take();
        self.kept = Some(Box::new((kept, before)));
    }

    /// Drops the values that were [kept](Self::keep_until_gone).
    pub(crate) fn keep_nothing(&mut self) {
        self.kept = None;
    }

    /// Creates the parents of the node as containers.
    pub(crate) async fn make_parents(&self) -> Result<(), (String, zk::Error)> {
        self.client.make_parents(&self.session, &self.parent).await
    }

    /// From now on, its delete may wait for the next write of the session, but not for long.
    pub(crate) fn may_stay_a_moment(&mut self) {
        self.delete_sharing = Sharing::WithNext;
    }

    /// Gives up the node, which is known to be gone.
    pub(crate) fn forget(mut self) {
        self.is_gone();
    }

    fn is_gone(&mut self) {
        self.session.disown(&self.path());
        self.state = State::Gone;
    }

    /// Leaves the node to the caller from now on. Returns its path.
    pub(crate) fn leave(mut self) -> String {
        let path = self.path();
        self.state = State::Gone;
        path
    }

    /// Deletes the node and waits for the confirmation. Returns whether the node still existed. `until_sent` is
    /// dropped when the delete has been sent.
    ///
    /// # Errors
    /// The server refuses, or cannot be reached under the retry policy. The janitor keeps trying.
    ///
    /// # Cancel safety
    /// The delete is sent at the first poll, and the janitor ensures that it completes.
    pub(crate) async fn remove<T>(self, until_sent: T) -> Result<bool> {
        self.remove_with(None, until_sent, Failures::default()).await
    }

    /// [Removes](Self::remove) the node. The first attempt is the transaction, which has been sent, if it deletes this
    /// node. The failures are those of attempts that were made before.
    pub(crate) async fn remove_with<T>(
        mut self,
        mut transaction: Option<DeleteTogether>,
        until_sent: T,
        mut failures: Failures,
    ) -> Result<bool> {
        // The name of a node that may exist is not known yet.
        while matches!(self.state, State::Unknown) {
            let (client, session) = (self.client.clone(), self.session.clone());
            let Err(source) = client.attempt_one(&session, self.settle()).await else {
                failures.reset();
                break;
            };
            if Failure::of(&source) == Failure::SessionOver {
                self.state = State::Gone;
                break;
            }
            let error = Error::ZooKeeper { operation: "find", path: self.path(), source };
            failures.pause_after(error, self.client.retry_policy()).await?;
        }
        if self.name().is_none() {
            return Ok(false);
        }
        let path = self.path();
        let mut in_doubt = false;
        let mut until_sent = Some(until_sent);
        loop {
            let sharing = std::mem::replace(&mut self.delete_sharing, Sharing::None);
            let sent_before = transaction.as_ref().map(|transaction| transaction.before);
            let before = sent_before.unwrap_or_else(|| self.session.before_sending());
            let deleted = match transaction.take() {
                Some(transaction) => {
                    drop(until_sent.take());
                    match self.client.attempt_one(&self.session, transaction.outcome).await {
                        Ok(false) => continue,
                        deleted => deleted.map(drop),
                    }
                }
                None => {
                    let deleting = self.session.send_delete(&path, sharing);
                    drop(until_sent.take());
                    self.client.attempt_one(&self.session, deleting).await
                }
            };
            let error = match deleted {
                Ok(()) => {
                    self.state = State::Gone;
                    return Ok(true);
                }
                Err(error) => error,
            };
            match Failure::of(&error) {
                Failure::SessionOver => {
                    self.state = State::Gone;
                    return Ok(false);
                }
                Failure::Refused if error == zk::Error::NoNode => {
                    self.state = State::Gone;
                    // If an earlier attempt is in doubt, it has deleted the node.
                    return Ok(in_doubt);
                }
                Failure::Unknown => in_doubt |= self.session.may_have_sent(before),
                Failure::Refused | Failure::Postponed => {}
            }
            let error = Error::ZooKeeper { operation: "delete", path: path.clone(), source: error };
            failures.pause_after(error, self.client.retry_policy()).await?;
        }
    }

    /// Returns the full path; for a node that is not known to exist, the part of it that is known.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.parent, self.name().unwrap_or(&self.id))
    }
}

impl Drop for EphemeralNode {
    fn drop(&mut self) {
        if self.session.is_over() {
            return;
        }
        let janitor = self.client.janitor();
        match &self.state {
            State::Unsent | State::Gone => {}
            State::Unknown => janitor.sweep(self.session.clone(), Lost::new(self.parent.clone(), &self.id)),
            State::Exists { .. } => {
                let until_gone = (self.watch.take(), self.kept.take());
                let path = self.path();
                let sent = self.session.send_delete(&path, self.delete_sharing);
                janitor.delete(self.session.clone(), path, sent, until_gone);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::super::clock::Moment;
    use super::super::validity::{Terms, Validity};
    use super::deletes::Deletes;
    use super::*;

    fn session() -> Arc<Session> {
        let validity = Validity::new(Duration::from_secs(10), Terms::default(), Moment::now(), true);
        Arc::new(Session::new(1, 1, validity))
    }

    #[test]
    fn only_what_one_request_can_delete_is_deleted_in_one_transaction() {
        let client = Client::connect_lazily("127.0.0.1:1").unwrap();
        let node = |session: &Arc<Session>, parent: &str, exists: bool| {
            let form = NodeForm { marker: "lock-".into(), number: None, data: None };
            let mut node = EphemeralNode::new(&client, session.clone(), &parent.into(), form);
            if exists {
                node.exists("/a/1", None);
            }
            node
        };
        let (one, other) = (session(), session());
        let long = format!("/{}", "x".repeat(1 << 19));
        let is_deleted = |nodes: &[EphemeralNode]| {
            let deletes = Deletes::send(nodes);
            nodes.iter().map(|node| deletes.of(node).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(is_deleted(&[node(&one, "/a", true), node(&one, "/b", true)]), [true, true]);
        assert_eq!(is_deleted(&[node(&one, "/a", true)]), [false]);
        let nodes = [node(&one, "/a", true), node(&other, "/b", true), node(&one, "/c", true)];
        assert_eq!(is_deleted(&nodes), [true, false, true], "another session");
        let nodes = [node(&one, "/a", true), node(&one, "/b", false), node(&one, "/c", true)];
        assert_eq!(is_deleted(&nodes), [true, false, true], "nothing is known of it");
        let nodes = [node(&one, &long, true), node(&one, "/b", true), node(&one, &long, true)];
        assert_eq!(is_deleted(&nodes), [false; 3], "too large");
        one.end();
        assert_eq!(is_deleted(&[node(&one, "/a", true), node(&one, "/b", true)]), [false, false]);
    }

    /// The server would close the connection, on which others have requests as well.
    #[test]
    fn a_create_that_is_too_large_is_not_sent() {
        let client = Client::connect_lazily("127.0.0.1:1").unwrap();
        let session = session();
        let node = |bytes: usize| {
            let form = NodeForm { marker: "lock-".into(), number: None, data: Some(vec![0; bytes].into()) };
            EphemeralNode::new(&client, session.clone(), &"/a".into(), form)
        };
        let create = |mut node: EphemeralNode| node.create(Sharing::None).now_or_never().unwrap();
        // Without a connection, what is sent is lost.
        assert!(matches!(create(node(1)), Ok(CreateOutcome::Unknown(_))));
        assert!(matches!(create(node(1 << 20)), Ok(CreateOutcome::TooLarge)));
        let together = |bytes: usize| {
            let nodes = vec![node(bytes), node(bytes)];
            let (_, outcome) =
                EphemeralNode::create_together(&client, nodes, &session, None).now_or_never().unwrap();
            outcome
        };
        assert!(matches!(together(1), Ok(CreateOutcome::Unknown(_))));
        assert!(matches!(together(1 << 19), Ok(CreateOutcome::TooLarge)));
    }
}
