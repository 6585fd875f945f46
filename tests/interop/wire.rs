//! A connection that can be cut.

use crate::support::Server;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Forwards between clients and one server. Whoever is behind it when it is cut is dead to the server: silent at once,
/// and its session expires.
pub(crate) struct Wire {
    address: String,
    cut: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Wire {
    pub(crate) async fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let cut = watch::Sender::new(false);
        let accepting = tokio::spawn(accept(listener, server.connect_string(), cut.subscribe()));
        Self { address, cut, accepting }
    }

    pub(crate) fn connect_string(&self) -> &str {
        &self.address
    }

    /// Ends all connections, and each new one.
    pub(crate) fn cut(&self) {
        self.cut.send_replace(true);
    }

    pub(crate) fn mend(&self) {
        self.cut.send_replace(false);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: String, mut cut: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (mut client, _) = accepted.unwrap();
                if *cut.borrow() {
                    continue;
                }
                let server = server.clone();
                connections.spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(server).await {
                        // Either side may close whenever it likes.
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
            changed = cut.changed() => {
                if changed.is_err() {
                    return;
                }
                if *cut.borrow_and_update() {
                    connections.shutdown().await;
                }
            }
        }
    }
}
