//! Ending a session at the server.

use zookeeper_client as zk;

use crate::client::Client;
use crate::error::{Error, Result};

/// Ends the present session of a client at the server, as if it had expired there: its ephemeral nodes are
/// gone when this returns, and the client learns of it when it next hears from the server.
///
/// Unlike Curator's `KillSession`, which only makes the client believe it.
///
/// # Errors
/// [`Error::InvalidArgument`] for a client on an adopted session, whose servers are not known; otherwise as
/// [`Client::zookeeper`], and [`Error::ZooKeeper`] when the servers cannot be reached.
///
/// ```no_run
/// use zk_recipes::Client;
/// use zk_recipes::testing::{TestingServer, kill_session};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestingServer::start().await?;
/// let client = Client::connect(&server.connect_string()).await?;
/// kill_session(&client).await?;
/// # Ok(())
/// # }
/// ```
pub async fn kill_session(client: &Client) -> Result<()> {
    let Some(servers) = client.connect_string() else {
        let reason =
            "its session is adopted, so its servers are not known; end the session where it was made";
        return Err(Error::InvalidArgument { argument: "client", reason: reason.into() });
    };
    let session = client.zookeeper().await?.into_session();
    loop {
        // Whoever attaches to a session may end it. The client may take it back meanwhile: then once more.
        let attached =
            zk::Client::connector().with_session(session.clone()).with_fail_eagerly().connect(servers).await;
        match attached {
            Ok(attached) => {
                let mut state = attached.state_watcher();
                drop(attached);
                state.changed().await;
            }
            Err(zk::Error::SessionExpired) => return Ok(()),
            Err(source) => {
                let path = session.id().to_string();
                return Err(Error::ZooKeeper { operation: "end session", path, source });
            }
        }
    }
}
