//! Real servers that one test after another uses: to start one costs half a second of computing, and it is slow at first.

use std::ops::{Deref, DerefMut};
use std::sync::Mutex;
use std::thread::panicking;
use std::time::Duration;

use zookeeper_client as zk;

use super::server::are_real;
use super::{SESSION, Server, try_nodes_below};

static IDLE: Mutex<Vec<Server>> = Mutex::new(Vec::new());

/// A server without nodes and sessions, for one test alone. A test that judges by what its server has done since its start
/// starts one instead.
pub async fn empty_server() -> PooledServer {
    loop {
        let idle = IDLE.lock().unwrap().pop();
        let server = match idle {
            Some(server) => server,
            None => lasting_server().await,
        };
        if !are_real() {
            return server.into();
        }
        // One that is paused, or has nodes that only others may delete, is not used again.
        if let Ok(Ok(())) = tokio::time::timeout(Duration::from_secs(5), empty(&server)).await {
            return PooledServer { server: Some(server), is_reusable: true };
        }
    }
}

/// A server that removes no empty containers: usually it would do so each minute, in the middle of some test.
pub async fn lasting_server() -> Server {
    let never = Duration::from_millis(i32::MAX as u64);
    Server::builder().container_check_interval(never).start().await.unwrap()
}

/// Goes back to the pool when it is dropped, unless the test has failed or might have stopped it.
#[derive(Debug)]
pub struct PooledServer {
    server: Option<Server>,
    is_reusable: bool,
}

const TAKEN: &str = "it is only taken when dropped";

impl From<Server> for PooledServer {
    /// One that is started for the test, with settings of its own.
    fn from(server: Server) -> Self {
        Self { server: Some(server), is_reusable: false }
    }
}

impl Deref for PooledServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        self.server.as_ref().expect(TAKEN)
    }
}

impl DerefMut for PooledServer {
    fn deref_mut(&mut self) -> &mut Server {
        self.is_reusable = false;
        self.server.as_mut().expect(TAKEN)
    }
}

impl Drop for PooledServer {
    fn drop(&mut self) {
        let server = self.server.take().filter(|_| self.is_reusable && !panicking());
        if let Ok(mut idle) = IDLE.lock() {
            idle.extend(server);
        }
    }
}

async fn empty(server: &Server) -> Result<(), Box<dyn std::error::Error>> {
    while let sessions @ [_, ..] = &sessions(server).await?[..] {
        for session in sessions {
            // It may end by itself meanwhile.
            let _ = server.kill_session(*session).await;
        }
    }
    let zookeeper =
        zk::Client::connector().with_session_timeout(SESSION).connect(&server.connect_string()).await?;
    for name in zookeeper.list_children("/").await?.iter().filter(|name| *name != "zookeeper") {
        for (path, _) in try_nodes_below(&zookeeper, &format!("/{name}")).await?.iter().rev() {
            zookeeper.delete(path, None).await?;
        }
    }
    drop(zookeeper);
    while !sessions(server).await?.is_empty() {}
    Ok(())
}

/// All sessions, as the server dumps them.
async fn sessions(server: &Server) -> Result<Vec<i64>, Box<dyn std::error::Error>> {
    let dump = server.four_letter_word("dump").await?;
    let tracked = dump.split("ephemeral nodes dump").next().unwrap_or_default();
    let sessions = tracked.lines().filter_map(|line| line.trim().strip_prefix("0x"));
    Ok(sessions.map(|id| i64::from_str_radix(id, 16)).collect::<Result<_, _>>()?)
}
