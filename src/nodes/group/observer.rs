//! Watches a group in the background.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep_until};
use zookeeper_client::{self as zk, EventType};

use super::super::keeping::OwnSessions;
use super::members::{Member, Members};
use super::view::View;
use crate::client::{Client, Failures, Room, Session, Watcher};
use crate::error::Error;
use crate::watch::Watched;

/// How many members are read at a time.
pub(super) const AT_ONCE: usize = 100;

/// How long a view may lack the list that the end of a member asks for.
const LONGEST_OUTDATED: Duration = Duration::from_secs(2);

/// The events of the members that are watched.
type Events = FuturesUnordered<BoxFuture<'static, (String, EventType)>>;

/// Follows the members until it is dropped.
pub(super) async fn observe(client: Client, path: Arc<str>, watched: Watched<Members>) {
    let mut failures = Failures::default();
    loop {
        let error = match client.session().await {
            Ok(session) => {
                let ended = tokio::select! {
                    ended = follow(&client, &session, &path, &watched, &mut failures) => ended.err(),
                    // A watch would report it only at the end of the session.
                    () = client.disconnected() => None,
                };
                let path = path.to_string();
                ended.map(|source| Error::ZooKeeper { operation: "watch the group", path, source })
            }
            Err(error) => Some(error),
        };
        watched.show(watched.get().stale());
        if let Some(error) = error {
            failures.pause_in_background(error).await;
        }
    }
}

/// Follows the members for as long as the connection lasts.
async fn follow(
    client: &Client,
    session: &Session,
    path: &str,
    watched: &Watched<Members>,
    failures: &mut Failures,
) -> Result<(), zk::Error> {
    let mut view = View::default();
    let mut events = Events::new();
    let mut watch = None;
    loop {
        let (names, change) = session.watch_list_or_creation(path).await?;
        // Only now the one before is dropped, so that it need not be removed at the servers.
        let change = watch.insert(change);
        // What they have reported has happened before the list, which may show the same name again.
        while let Some(Some((name, event))) = events.next().now_or_never() {
            if event == EventType::Session {
                return Ok(());
            }
            // If only its payload has changed, it is read like a new one.
            view.left(&name);
        }
        let names = view.listed(&names);
        read_and_watch(client, session, path, names, &mut view, &mut events).await?;
        failures.reset();
        watched.show(members(client, session, &view));
        let mut list_by = Instant::now() + session.watch_holds_for();
        // Whether a member is gone that may have been replaced.
        let mut is_outdated = false;
        loop {
            let (name, event) = tokio::select! {
                biased;
                event = change.changed() => match event {
                    EventType::Session => return Ok(()),
                    _ => break,
                },
                Some(event) = events.next() => event,
                () = sleep_until(list_by) => break,
            };
            match event {
                EventType::Session => return Ok(()),
                EventType::NodeDeleted => {
                    view.left(&name);
                    // It may have been replaced in the same transaction. The list that the change of the group asks for
                    // shows that.
                    is_outdated = true;
                    list_by = list_by.min(Instant::now() + LONGEST_OUTDATED);
                }
                _ => read_and_watch(client, session, path, vec![name], &mut view, &mut events).await?,
            }
            if !is_outdated {
                watched.show(members(client, session, &view));
            }
        }
    }
}

async fn read_and_watch(
    client: &Client,
    session: &Session,
    path: &str,
    names: Vec<String>,
    view: &mut View,
    events: &mut Events,
) -> Result<(), zk::Error> {
    for names in names.chunks(AT_ONCE) {
        for (name, member, watcher) in read(client, session, path, names, true, &mut view.room()).await? {
            // Without a payload, it is read again with each list.
            let has_payload = member.as_ref().is_some_and(|member| member.payload.is_some());
            if let Some(mut watcher) = watcher.filter(|_| has_payload) {
                let of = name.clone();
                events.push(async move { (of, watcher.changed().await) }.boxed());
            }
            view.read(name, member);
        }
    }
    Ok(())
}

/// Reads members, and watches those that may be read if that is asked for. Those that have left have no [`Member`].
pub(super) async fn read(
    client: &Client,
    session: &Session,
    path: &str,
    names: &[String],
    watches: bool,
    room: &mut Room,
) -> Result<Vec<(String, Option<Member>, Option<Watcher>)>, zk::Error> {
    let reading = names.iter().map(|name| {
        let path = format!("{path}/{name}");
        async move {
            let read = match watches {
                true => session.watch_data(&path).await.map(|(data, stat, watch)| (data, stat, Some(watch))),
                false => session.data(&path).await.map(|(data, stat)| (data, stat, None)),
            };
            match read {
                Ok((data, stat, watcher)) => Ok(Some((Member::hidden(&stat), Some(data), watcher))),
                Err(zk::Error::NoNode) => Ok(None),
                // Its events would not be seen either. It is read again with each list.
                Err(zk::Error::NoAuth) => {
                    Ok(hidden(session, &path).await?.map(|member| (member, None, None)))
                }
                Err(error) => Err(error),
            }
        }
    });
    let mut members = Vec::new();
    for (name, read) in names.iter().zip(join_all(reading).await) {
        let (member, watcher) = match read? {
            Some((hidden, Some(data), watcher)) => (Some(hidden.with_data(client, room, data)), watcher),
            Some((hidden, None, _)) => (Some(hidden), None),
            None => (None, None),
        };
        members.push((name.clone(), member, watcher));
    }
    Ok(members)
}

/// Looks at a member that may not be read.
async fn hidden(session: &Session, path: &str) -> Result<Option<Member>, zk::Error> {
    match session.stat(path).await {
        Err(zk::Error::NoAuth) => Ok(Some(Member::UNSEEN)),
        stat => Ok(stat?.map(|stat| Member::hidden(&stat))),
    }
}

impl Member {
    /// One of which the servers tell nothing but the name.
    const UNSEEN: Self = Self { payload: None, czxid: 0, session: 0 };

    /// The same member with what its node has, if there is room for it.
    fn with_data(self, client: &Client, room: &mut Room, data: Vec<u8>) -> Self {
        Self { payload: client.user_data_in(room, data).map(Into::into), ..self }
    }

    /// One that may not be read.
    fn hidden(stat: &zk::Stat) -> Self {
        Self { payload: None, czxid: stat.czxid, session: stat.ephemeral_owner }
    }
}

/// Returns the members. What is left over from an earlier session of this client is none: the client is a member again when
/// its present session is.
pub(super) fn members(client: &Client, session: &Session, view: &View) -> Members {
    let own = client.extension::<OwnSessions>();
    Members::current(view.members(|member| !own.has_ended(member.session, session)))
}
