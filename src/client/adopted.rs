//! Follows an adopted session, which `zookeeper-client` itself reconnects.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::sleep;
use zookeeper_client::{self as zk, SessionState};

use super::connection::{Connection, Server};
use super::link::{Link, Status};
use super::retry::PAUSE;
use super::serving::Serving;
use super::session::Session;
use super::state::ConnectionState;

/// Follows the session until it is over, and returns how it ended. Must run on the runtime that serves the session.
pub(super) async fn follow(
    session: &Arc<Session>,
    zookeeper: &zk::Client,
    serving: &Arc<Serving>,
    link: &Arc<Link>,
) -> zk::Error {
    let mut states = tell_states(zookeeper.state_watcher());
    let mut state = ConnectionState::Connected;
    let mut is_first = true;
    loop {
        let number = serving.changes();
        let told = *states.borrow_and_update();
        let (public, writable) = match told {
            SessionState::SyncConnected => {
                // No lock is held under the session before its first connection.
                if std::mem::replace(&mut is_first, false) {
                    session.verified(number);
                } else {
                    let catching_up = async {
                        loop {
                            match catch_up(session, zookeeper, number).await {
                                Ok(is_continued) => return is_continued,
                                Err(_) => sleep(PAUSE).await,
                            }
                        }
                    };
                    tokio::select! {
                        Ok(()) = states.changed() => continue,
                        is_continued = catching_up => if !is_continued {
                            return zk::Error::SessionExpired;
                        },
                    }
                }
                // The change of the state may be reported here before it is counted.
                if serving.changes() != number {
                    continue;
                }
                let server = Server::Adopted(serving.clone());
                session.connect(Arc::new(Connection::new(number, zookeeper.clone(), server)));
                (std::mem::replace(&mut state, ConnectionState::Reconnected), true)
            }
            SessionState::ConnectedReadOnly => (ConnectionState::ReadOnly, false),
            SessionState::Disconnected => (ConnectionState::Suspended, false),
            SessionState::Expired => return zk::Error::SessionExpired,
            SessionState::AuthFailed => return zk::Error::AuthFailed,
            SessionState::Closed => return zk::Error::ClientClosed,
        };
        link.publish(public, Status::Live { session: session.clone(), writable });
        if states.changed().await.is_err() {
            // The runtime of the session is shut down.
            return zk::Error::ClientClosed;
        }
        session.disconnect();
    }
}

/// Brings the server of the connection after this many changes up to date. Returns false if the connection is of another
/// session.
async fn catch_up(session: &Session, zookeeper: &zk::Client, changes: u64) -> Result<bool, zk::Error> {
    // Before any reply counts for the session.
    let is_continued = session.is_continued_on(zookeeper).await?;
    if is_continued {
        session.verified(changes);
        session.confirm_on(zookeeper).await?;
    }
    Ok(is_continued)
}

/// Publishes the states of a session, from a task of its own.
///
/// In `asyncs-sync` 0.4, through which `zookeeper-client` publishes them, a waiter that is dropped while another
/// thread changes the state writes into that thread's stack. So this task is the only waiter, and it waits to the
/// end.
fn tell_states(mut watcher: zk::StateWatcher) -> watch::Receiver<SessionState> {
    let (states, receiver) = watch::channel(watcher.state());
    tokio::spawn(async move {
        while !states.borrow().is_terminated() {
            let state = watcher.changed().await;
            states.send_replace(state);
        }
    });
    receiver
}
