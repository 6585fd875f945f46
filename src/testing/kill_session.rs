//! Ends a session at the server.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::jute::Writer;
use super::opcode;
use crate::client::Client;

/// How long the servers together may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// After this long without an answer, the next server is asked.
const ANSWER: Duration = Duration::from_secs(2);
/// After this long without a sign of the end, the server is asked again.
const HANG_UP: Duration = Duration::from_millis(500);

const XID: i32 = 1;

/// Ends the current session of a client at the server, as if it had expired there. Its ephemeral nodes are gone
/// when this returns; the client learns of it when it next hears from the server.
///
/// Curator's `KillSession` is different: it only makes the client believe that its session has expired.
///
/// This works only with servers that accept unencrypted connections.
///
/// # Errors
/// If the client has no session; if its session is adopted, so that its servers are not known; or if no server can
/// be reached or none knows the session.
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
pub async fn kill_session(client: &Client) -> io::Result<()> {
    let Some(servers) = client.plain_servers() else {
        let reason = "the session is adopted, so its servers are not known; end it where it was made";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    };
    if servers.is_empty() {
        let reason = "its servers expect encrypted connections; end the session at a server that does not";
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    let session = client.zookeeper().await.map_err(io::Error::other)?.session_id().0;
    kill(&servers, session).await
}

/// Ends a session of any client at one of these servers.
pub(super) async fn kill(servers: &[String], session: i64) -> io::Result<()> {
    let hosts = servers.join(",");
    let killing = async {
        let mut servers = servers.to_vec();
        if !end(&mut servers, session).await? {
            let reason =
                format!("{hosts} knows no session {session:#x} with the password that it should have");
            return Err(io::Error::new(io::ErrorKind::NotFound, reason));
        }
        // The client may resume its session before the end is carried out; so repeat.
        while end(&mut servers, session).await? {}
        Ok(())
    };
    let too_late =
        || io::Error::new(io::ErrorKind::TimedOut, format!("no answer from {hosts} in {PATIENCE:?}"));
    tokio::time::timeout(PATIENCE, killing).await.unwrap_or_else(|_| Err(too_late()))
}

/// Attaches to a session and ends it. Returns whether a server may still know the session.
async fn end(servers: &mut [String], session: i64) -> io::Result<bool> {
    let mut server = connect_to_any(servers).await?;
    let timeout = i32::try_from(PATIENCE.as_millis()).unwrap_or(i32::MAX);
    let mut connect = Writer::new();
    // The version of the protocol comes first, then the last change that is known: none. This is not for a read-only server.
    connect.i32(0).i64(0).i32(timeout).i64(session).buffer(Some(&password(session))).bool(false);
    let mut end = Writer::new();
    end.i32(XID).i32(opcode::CLOSE_SESSION);
    // In one packet: the session is ended before the client can resume it.
    server.write_all(&[connect.finish(), end.finish()].concat()).await?;
    // If a client attaches to the same session at this server at the same time, the server closes the earlier
    // connection, or never answers it: a follower asks its leader for one connection per session (ZooKeeper's
    // `Learner.pendingRevalidations`).
    let Ok(Ok(response)) = tokio::time::timeout(ANSWER, read_frame(&mut server)).await else {
        servers.rotate_left(1);
        return Ok(true);
    };
    // Protocol version and timeout come first; zero means that the session is over. A server that forgets sessions
    // gives another one.
    let known = response.get(8..16).is_some_and(|known| known == session.to_be_bytes());
    // The server closes the connection when the session has ended, but not ours if the client has resumed it
    // meanwhile.
    let _ = tokio::time::timeout(HANG_UP, server.read_to_end(&mut Vec::new())).await;
    Ok(known)
}

async fn connect_to_any(servers: &[String]) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for server in servers {
        match TcpStream::connect(server).await {
            Ok(server) => return Ok(server),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Computes the password that a ZooKeeper server gives a session: 16 bytes of `java.util.Random`, seeded with the
/// session's id and a constant that is the same in every server (`ZooKeeperServer.generatePasswd`).
pub(super) fn password(session: i64) -> [u8; 16] {
    const SERVER_CONSTANT: i64 = 0xB341_5C00;
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;
    let mut state = ((session ^ SERVER_CONSTANT) as u64 ^ MULTIPLIER) & MASK;
    let mut password = [0; 16];
    for chunk in password.chunks_mut(4) {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        chunk.copy_from_slice(&((state >> 16) as u32).to_le_bytes());
    }
    password
}

async fn read_frame(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; from.read_u32().await? as usize];
    from.read_exact(&mut frame).await?;
    Ok(frame)
}
