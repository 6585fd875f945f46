//! The thread of a server, which accepts connections and looks at the clock.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime;
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::ensemble::Core;
use super::serve;
use crate::testing::ports::Port;

/// The pause after a failed accept: the system is short of something, such as file descriptors.
const RECOVERY: Duration = Duration::from_millis(10);

/// A running server. Dropping it ends the thread and closes all connections.
#[derive(Debug)]
pub(super) struct Running {
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts a thread that serves the clients of a port. They can connect as soon as this returns.
    pub(super) fn start(core: Arc<Core>, port: &Port) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _entered = runtime.enter();
            port.listen()?
        };
        core.start(0);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let serve = move || {
            runtime.spawn(accept(core.clone(), listener));
            // A task, as those of the connections are: if the thread is late, what clients have sent is done before
            // what is due.
            let driving = runtime.spawn(core.drive(stopped));
            let _ = runtime.block_on(driving);
        };
        let thread = thread::Builder::new().name("zk-memory-server".into()).spawn(serve)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // It has no more than a few messages to finish. A panic was printed by its thread.
            let _ = thread.join();
        }
    }
}

async fn accept(core: Arc<Core>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Replies are small, and clients wait for them.
                let _ = stream.set_nodelay(true);
                let core = core.clone();
                tokio::spawn(async move { serve::serve(&core, 0, stream, peer).await });
            }
            Err(_) => time::sleep(RECOVERY).await,
        }
    }
}
