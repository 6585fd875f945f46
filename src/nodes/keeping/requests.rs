//! The requests about a kept node.

use std::sync::Arc;

use futures_util::future::join;
use tokio::time::Instant;
use zookeeper_client::{self as zk, CreateMode};

use super::decision::{self, Data, Known, Lifetime, Seen, Sight, Step};
use super::keeper::Keeper;
use super::progress::Wanted;
use crate::client::{
    Client, CreateOutcome, EphemeralNode, NewNode, NodeForm, Session, Sharing, Watcher, Write, parent,
};
use crate::error::{Error, Result};
use crate::failure::Failure;

/// What came of a step.
pub(super) enum Found {
    /// Another step is to be made.
    Next(Step),
    /// The own node is there with the wanted data.
    Own { czxid: i64 },
    Strangers {
        /// `None` if it may not be read.
        owner: Option<i64>,
    },
}

/// Whether a step could not be made for another reason than the connection or the session.
pub(super) fn is_refusal(error: &Error) -> bool {
    !error.is_retryable() && !error.ends_session()
}

impl Seen {
    pub(super) fn of(stat: &zk::Stat) -> Self {
        Self { owner: stat.ephemeral_owner, czxid: stat.czxid, version: stat.version }
    }
}

impl Known {
    fn of(stat: &zk::Stat, data: Data) -> Self {
        Self { czxid: stat.czxid, version: stat.version, data }
    }
}

impl Sight {
    /// # Errors
    /// It is not known what is there.
    pub(super) fn of(looked: Result<Option<zk::Stat>, zk::Error>) -> Result<Self, zk::Error> {
        match looked {
            Ok(stat) => Ok(stat.map_or(Self::Nothing, |stat| Self::Node(Seen::of(&stat)))),
            Err(zk::Error::NoAuth) => Ok(Self::Hidden { is_own: false }),
            Err(error) => Err(error),
        }
    }

    pub(super) fn is_hidden(self) -> bool {
        matches!(self, Self::Hidden { .. })
    }
}

/// Whether a node belongs to this session. That needs no permission. Servers before 3.6 do not tell, nor do they hide nodes.
pub(super) async fn is_own(client: &Client, session: &Session, path: &str) -> Result<bool, zk::Error> {
    let own = client.attempt_one(session, session.own_paths(path)).await?;
    Ok(own.is_some_and(|own| own.iter().any(|own| own == path)))
}

impl Keeper {
    /// Makes a step, and watches the node in the same round trip.
    pub(super) async fn perform(
        &mut self,
        session: &Arc<Session>,
        step: Step,
        wanted: &Wanted,
    ) -> Result<Found> {
        let Some(path) = self.path.clone() else { return self.number(session, wanted).await };
        let seen_on = session.connection();
        let looking = session.watch_stat(&path);
        let looked = match step {
            // Not steps to be made: they are what the last one has found.
            Step::Look | Step::Rest | Step::Yield => self.client.attempt_one(session, looking).await,
            Step::Create => {
                self.may_exist = true;
                let sent = Instant::now();
                let creating = self.create(session, &path, wanted);
                let (created, looked) = self.both(session, creating, looking).await;
                match created {
                    Ok(made) => {
                        (self.known, self.is_write_lost) = (made, false);
                        self.held = made.map(|made| made.czxid);
                        if let Some(touch) = &mut self.touch {
                            touch.touched(sent);
                        }
                        self.ours = vec![wanted.data.clone()];
                    }
                    Err(zk::Error::NodeExists) => {
                        if let Some(touch) = &mut self.touch {
                            touch.lapses();
                        }
                    }
                    Err(zk::Error::NoNode) if self.creates_parents => {
                        return self.make_parents(session).await;
                    }
                    Err(error) => {
                        if Failure::of(&error) != Failure::Refused {
                            self.may_have(&wanted.data);
                        }
                        return Err(self.create_failed(session, wanted, "create", error));
                    }
                }
                looked
            }
            Step::Replace { version } => {
                self.may_exist = true;
                let replacing = self.replace(session, &path, version, wanted);
                let (replaced, looked) = self.both(session, replacing, looking).await;
                if let Err(error) = replaced {
                    return Err(self.create_failed(session, wanted, "replace", error));
                }
                // If it was replaced, no one else can have made a node of this session.
                let stat = looked.as_ref().ok().and_then(|(stat, _)| stat.as_ref());
                let made = stat.filter(|stat| stat.ephemeral_owner == session.id());
                let made = made.filter(|stat| replaced == Ok(true) && stat.version == 0);
                self.known = made.map(|stat| Known::of(stat, Data::Of(wanted.generation)));
                looked
            }
            Step::Compare => {
                let comparing = self.compare(session, &path, wanted);
                let (compared, looked) = self.both(session, comparing, looking).await;
                match compared {
                    Ok(known) => {
                        (self.known, self.is_write_lost) = (Some(known), false);
                        if let Data::Of(_) = known.data {
                            self.ours = vec![wanted.data.clone()];
                        }
                        self.readable = Some(known.czxid);
                    }
                    Err(zk::Error::NoNode) => self.known = None,
                    Err(zk::Error::NoAuth) => {
                        if let Ok((Some(stat), _)) = &looked
                            && !self.known.is_some_and(|known| known.is_of(&Seen::of(stat)))
                        {
                            // It is written to without having been read, unless it is ours by its data alone.
                            let data = self.is_same.map_or(Data::Other, |_| Data::Strangers);
                            self.known = Some(Known::of(stat, data));
                        }
                    }
                    Err(error) => return Err(self.error("read", error)),
                }
                looked
            }
            Step::Write { version } => {
                let data = self.client.node_data(&wanted.data);
                let writing = session.set_data(&path, &data, version);
                let (written, looked) = self.both(session, writing, looking).await;
                let known = self.known.take();
                match written {
                    Ok(stat) => {
                        (self.ours, self.is_write_lost) = (vec![wanted.data.clone()], false);
                        self.known = Some(Known::of(&stat, Data::Of(wanted.generation)));
                    }
                    Err(zk::Error::NoNode) => {}
                    // Nothing shows whose a node is that may not be read, unless it was our own write.
                    Err(zk::Error::BadVersion) if matches!(looked, Err(zk::Error::NoAuth)) => {
                        self.known =
                            known.filter(|_| std::mem::take(&mut self.is_write_lost)).map(Known::written);
                    }
                    // It may still be ours. The look shows it, unless it fails.
                    Err(zk::Error::BadVersion) => self.known = known.map(Known::of_unknown_data),
                    Err(error) => {
                        // What it has is not known any more if the reply was lost. Its version shows whether it was written.
                        let is_refused = Failure::of(&error) == Failure::Refused;
                        if !is_refused {
                            self.may_have(&wanted.data);
                            self.is_write_lost = true;
                        }
                        self.known =
                            known.map(|known| if is_refused { known } else { known.of_unknown_data() });
                        return Err(self.error("write to", error));
                    }
                }
                looked
            }
            Step::Touch => {
                let sent = Instant::now();
                let touching = self.write_to_child(session);
                let (touched, looked) = self.both(session, touching, looking).await;
                match touched {
                    Ok(()) => {
                        if let Some(touch) = &mut self.touch {
                            touch.touched(sent);
                        }
                    }
                    // The look shows it.
                    Err(zk::Error::NoNode) => {}
                    Err(error) => {
                        let error = self.error("touch", error);
                        if is_refusal(&error) {
                            // It is there, but not for long.
                            self.known = None;
                        }
                        return Err(error);
                    }
                }
                looked
            }
        };
        let mut sight = self.saw(looked).map_err(|error| self.error("look for", error))?;
        if self.is_to_be_asked_for(sight) {
            let is_own = is_own(&self.client, session, &path).await;
            sight = Sight::Hidden { is_own: is_own.map_err(|error| self.error("look for", error))? };
        }
        self.note(session, &path, sight, seen_on).await.map_err(|error| self.error("look for", error))?;
        Ok(self.decide(session, sight, wanted))
    }

    /// Notes the own node of an adopted session. If a create with an unknown outcome has made the node, for another session
    /// that has replaced it, this ends the session.
    pub(super) async fn note(
        &self,
        session: &Session,
        path: &str,
        sight: Sight,
        seen_on: u64,
    ) -> Result<(), zk::Error> {
        match sight {
            _ if self.lifetime != Lifetime::Session || !session.is_adopted() => {}
            Sight::Hidden { is_own: true } => return session.note(path, seen_on),
            Sight::Node(seen) if seen.owner == session.id() => return session.note(path, seen_on),
            Sight::Node(_)
                if self.doubt.lasts(Instant::now()) && is_own(&self.client, session, path).await? =>
            {
                return session.recognise(path, seen_on).await;
            }
            Sight::Node(_) | Sight::Nothing | Sight::Hidden { .. } => session.disown(path),
        }
        Ok(())
    }

    /// Whether only the list of the nodes of the session shows whose a node is.
    pub(super) fn is_to_be_asked_for(&self, sight: Sight) -> bool {
        self.lifetime == Lifetime::Session && sight.is_hidden()
    }

    /// Keeps the watch of a look.
    fn saw(&mut self, looked: Result<(Option<zk::Stat>, Watcher), zk::Error>) -> Result<Sight, zk::Error> {
        Sight::of(looked.map(|(stat, watcher)| {
            self.watch = Some(watcher);
            stat
        }))
        .inspect(|sight| {
            if sight.is_hidden() {
                // Its watch may keep silent from now on.
                self.watch = None;
                self.readable = None;
            }
        })
    }

    fn decide(&mut self, session: &Session, sight: Sight, wanted: &Wanted) -> Found {
        let has_ended = |id| self.sessions.has_ended(id, session);
        let (known, left_over) = (self.known, self.left_over.take());
        let generation = wanted.generation;
        let step =
            decision::next(self.lifetime, sight, known, left_over, session.id(), has_ended, generation);
        self.is_taken = step == Step::Yield;
        if !sight.is_hidden() && step != Step::Compare {
            self.doubt.settles();
        }
        match (step, sight, self.known) {
            (Step::Rest, _, Some(known)) => Found::Own { czxid: known.czxid },
            (Step::Yield, Sight::Node(seen), _) => {
                self.known = None;
                self.ours.clear();
                Found::Strangers { owner: Some(seen.owner) }
            }
            (Step::Yield, ..) => {
                self.known = None;
                Found::Strangers { owner: None }
            }
            (step, Sight::Node(seen), _) => {
                self.left_over = Some(seen.czxid);
                Found::Next(step)
            }
            (step, Sight::Nothing, _) => {
                self.known = None;
                Found::Next(step)
            }
            (step, Sight::Hidden { .. }, _) => Found::Next(step),
        }
    }

    /// Notes data that the node may have got.
    fn may_have(&mut self, data: &Arc<[u8]>) {
        if self.is_same.is_some() && !self.ours.contains(data) {
            self.ours.push(data.clone());
        }
    }

    /// Makes two requests at once, in this order.
    async fn both<A, B>(
        &self,
        session: &Session,
        first: impl Future<Output = Result<A, zk::Error>>,
        second: impl Future<Output = Result<B, zk::Error>>,
    ) -> (Result<A, zk::Error>, Result<B, zk::Error>) {
        let lost = || (Err(zk::Error::ConnectionLoss), Err(zk::Error::ConnectionLoss));
        self.client.attempt(session, join(first, second)).await.unwrap_or_else(lost)
    }

    /// Returns what is known of the node that was created.
    async fn create(
        &self,
        session: &Arc<Session>,
        path: &str,
        wanted: &Wanted,
    ) -> Result<Option<Known>, zk::Error> {
        let (data, acl) = (self.client.node_data(&wanted.data), self.client.acl_of(path));
        let czxid = if let Some(touch) = &self.touch {
            touch.create_both(&self.client, session, path, &data).await?
        } else if self.lifetime == Lifetime::Value {
            Some(session.create_persistent(path, &data, &acl).await?.czxid)
        } else {
            let node = NewNode { path: path.to_owned(), numbered: false, data, acl };
            session.create(&node, Sharing::None).await?.czxid
        };
        let data = Data::Of(wanted.generation);
        Ok(czxid.map(|czxid| Known { czxid, version: 0, data }))
    }

    async fn write_to_child(&self, session: &Session) -> Result<(), zk::Error> {
        match &self.touch {
            Some(touch) => touch.write(&self.client, session).await,
            None => Ok(()),
        }
    }

    /// Replaces the node of an earlier session in one transaction. Returns false if the node has changed meanwhile.
    async fn replace(
        &self,
        session: &Session,
        path: &str,
        version: i32,
        wanted: &Wanted,
    ) -> Result<bool, zk::Error> {
        let (data, acl) = (self.client.node_data(&wanted.data), self.client.acl_of(path));
        let delete = Write::Delete { path, version: Some(version) };
        let create = Write::Create { path, data: &data, mode: CreateMode::Ephemeral, acl: &acl };
        match session.commit(&[delete, create]).await {
            Ok(_) => Ok(true),
            Err(zk::MultiWriteError::OperationFailed {
                source: zk::Error::NoNode | zk::Error::BadVersion | zk::Error::NodeExists,
                ..
            }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn compare(
        &self,
        session: &Session,
        path: &str,
        wanted: &Wanted,
    ) -> Result<Known, zk::Error> {
        let client = &self.client;
        let (data, stat) = session.data(path).await?;
        let data = match self.is_same {
            Some(is_same) if is_same(&data, &wanted.data) => Data::Of(wanted.generation),
            Some(is_same) if self.ours.iter().any(|ours| is_same(&data, ours)) => Data::Other,
            Some(_) => Data::Strangers,
            // The same data may be compressed in another way.
            None if data == *client.node_data(&wanted.data) || client.user_data(data) == *wanted.data => {
                Data::Of(wanted.generation)
            }
            None => Data::Other,
        };
        Ok(Known::of(&stat, data))
    }

    /// Creates the node under protection, so that the server numbers it. It keeps the name for good.
    async fn number(&mut self, session: &Arc<Session>, wanted: &Wanted) -> Result<Found> {
        let mut node = match self.unnamed.take() {
            Some(mut node) => {
                let settled = self.client.attempt_one(session, node.settle()).await;
                if let Err(error) = settled {
                    self.unnamed = Some(node);
                    return Err(self.error("find", error));
                }
                if node.name().is_some() {
                    return Ok(self.named(node, None));
                }
                self.new_node(session, wanted)
            }
            None => self.new_node(session, wanted),
        };
        self.may_exist = true;
        let created = self.client.attempt_one(session, node.create(Sharing::None)).await;
        match created {
            Ok(CreateOutcome::Created) => Ok(self.named(node, Some(wanted.generation))),
            Ok(CreateOutcome::ParentMissing) if self.creates_parents => self.make_parents(session).await,
            Ok(CreateOutcome::ParentMissing | CreateOutcome::GuardMissing) => {
                Err(self.error("create", zk::Error::NoNode))
            }
            Ok(CreateOutcome::TooLarge) => {
                let path = self.given_path.to_string();
                Err(Error::RequestTooLarge { operation: "create", path })
            }
            Ok(CreateOutcome::Unknown(error)) => {
                self.unnamed = Some(node);
                Err(self.error("create", error))
            }
            Err(error) => {
                if !node.is_unsent() {
                    self.unnamed = Some(node).filter(|_| Failure::of(&error) != Failure::Refused);
                }
                Err(self.error("create", error))
            }
        }
    }

    fn new_node(&self, session: &Arc<Session>, wanted: &Wanted) -> EphemeralNode {
        let (parent, name) = self.given_path.rsplit_once('/').unwrap_or_default();
        let form = NodeForm { marker: name.to_owned().into(), number: None, data: Some(wanted.data.clone()) };
        EphemeralNode::new(&self.client, session.clone(), &parent.into(), form)
    }

    /// Keeps the node at its path from now on.
    pub(super) fn named(&mut self, node: EphemeralNode, generation: Option<u64>) -> Found {
        self.known = node.czxid().zip(generation).map(|(czxid, generation)| Known {
            czxid,
            version: 0,
            data: Data::Of(generation),
        });
        self.path = Some(node.leave().into());
        Found::Next(Step::Look)
    }

    async fn make_parents(&self, session: &Arc<Session>) -> Result<Found> {
        let Some(parent) = parent(&self.given_path) else {
            return Err(self.error("create", zk::Error::NoNode));
        };
        self.client.attempt_to_make_parents(session, parent).await?;
        Ok(Found::Next(Step::Create))
    }

    fn create_failed(
        &mut self,
        session: &Session,
        wanted: &Wanted,
        operation: &'static str,
        source: zk::Error,
    ) -> Error {
        if Failure::of(&source) == Failure::Unknown {
            self.doubt.begins(&wanted.data, Instant::now(), session.timeout());
        }
        self.error(operation, source)
    }

    fn error(&self, operation: &'static str, source: zk::Error) -> Error {
        let path = self.path().to_string();
        if self.touch.is_some() && source == zk::Error::Unimplemented {
            return Error::TtlUnsupported { path };
        }
        Error::ZooKeeper { operation, path, source }
    }
}
