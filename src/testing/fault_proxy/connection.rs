//! One connection through the proxy.

use std::future::Future;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, split};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::frames::{Frames, Piece};
use super::interception::{self, Fate, Interception};
use super::link::{Cut, Item, Link, Queue, link};
use super::request::Request;
use super::traffic::Traffic;

const NOTIFICATION_XID: i32 = -1;

/// The state that handles share with the task that forwards.
pub(super) struct Connection {
    traffic: watch::Sender<Traffic>,
    pub(super) cut: CancellationToken,
    /// The interceptions whose request has come on this connection, with its xid.
    intercepted: Mutex<Vec<(i32, Arc<Interception>)>>,
    /// The xids of requests in place of pings that have not been answered.
    pinged: Mutex<Vec<i32>>,
}

impl Connection {
    pub(super) fn new(traffic: Traffic) -> Self {
        Self {
            traffic: watch::Sender::new(traffic),
            cut: CancellationToken::new(),
            intercepted: Mutex::default(),
            pinged: Mutex::default(),
        }
    }

    pub(super) fn set_traffic(&self, traffic: Traffic) {
        let _ = self.traffic.send_replace(traffic);
    }

    pub(super) fn traffic(&self) -> Traffic {
        *self.traffic.borrow()
    }

    /// Forwards until both sides have closed or the connection is cut, and then closes them. The server sees a client only
    /// when traffic passes to it.
    pub(super) async fn run<S: AsyncRead + AsyncWrite>(
        &self,
        client: impl AsyncRead + AsyncWrite,
        server: impl Future<Output = io::Result<S>>,
        shared: &Shared,
    ) -> Option<Arc<Interception>> {
        tokio::select! {
            biased;
            () = self.cut.cancelled() => None,
            ended = self.forward(client, server, shared) => ended.err().flatten(),
        }
    }

    /// To be called after the connection has ended.
    pub(super) fn take_intercepted(&self) -> Vec<Arc<Interception>> {
        self.intercepted.lock().drain(..).map(|(_, interception)| interception).collect()
    }

    async fn forward<S: AsyncRead + AsyncWrite>(
        &self,
        client: impl AsyncRead + AsyncWrite,
        server: impl Future<Output = io::Result<S>>,
        shared: &Shared,
    ) -> Result<(), Cut> {
        let (from_client, to_client) = split(client);
        let (requests, mut link_to_server) = link(|traffic| traffic.to_server, self.traffic.subscribe());
        let (replies, mut link_to_client) = link(|traffic| traffic.to_client, self.traffic.subscribe());
        let requesting = async {
            self.read_requests(from_client, requests, shared).await;
            Ok(())
        };
        let serving = self.serve(&mut link_to_server, server, replies, shared);
        tokio::try_join!(requesting, serving, link_to_client.deliver(to_client))?;
        Ok(())
    }

    /// The server's side.
    async fn serve<S: AsyncRead + AsyncWrite>(
        &self,
        link: &mut Link,
        server: impl Future<Output = io::Result<S>>,
        replies: Queue,
        shared: &Shared,
    ) -> Result<(), Cut> {
        link.pass(Instant::now(), 0).await;
        let Ok(server) = server.await else {
            replies.push(Item::Cut(None));
            return Ok(());
        };
        let (from_server, to_server) = split(server);
        let replying = async {
            self.read_replies(from_server, replies, shared).await;
            Ok(())
        };
        tokio::try_join!(replying, link.deliver(to_server))?;
        Ok(())
    }

    async fn read_requests(&self, client: impl AsyncRead + Unpin, queue: Queue, shared: &Shared) {
        let mut frames = Frames::new(client, shared.first);
        while let Some(piece) = next(&mut frames, &queue).await {
            if let (Some(xid), Some(request)) = (piece.xid(), piece.request()) {
                let mut state = shared.state.lock();
                if request == Request::PING {
                    state.pings += 1;
                    self.pinged.lock().push(xid);
                } else {
                    state.requests.push(request);
                }
                if let Some(interception) = interception::take(&mut state.interceptions, request) {
                    let fate = interception.fate;
                    self.intercepted.lock().push((xid, interception.clone()));
                    if fate == Fate::LoseRequest {
                        return queue.push(Item::Cut(Some(interception)));
                    }
                }
            }
            queue.push(Item::Bytes(piece.bytes));
        }
    }

    async fn read_replies(&self, server: impl AsyncRead + Unpin, queue: Queue, shared: &Shared) {
        let mut frames = Frames::new(server, shared.first);
        while let Some(piece) = next(&mut frames, &queue).await {
            if let Some(xid) = piece.xid() {
                if xid != NOTIFICATION_XID && !self.take_pinged(xid) {
                    shared.state.lock().replies += 1;
                }
                if let Some(interception) = self.intercepted_by(xid) {
                    match interception.fate {
                        Fate::LoseRequest | Fate::LoseReply => {
                            return queue.push(Item::Cut(Some(interception)));
                        }
                        Fate::HoldReply => {
                            interception.happened.cancel();
                            queue.push(Item::Hold(interception));
                        }
                        Fate::OmitReply => {
                            interception.happened.cancel();
                            continue;
                        }
                    }
                }
            }
            queue.push(Item::Bytes(piece.bytes));
        }
    }

    /// Whether the reply with this xid belongs to a ping, or to a request in place of one.
    fn take_pinged(&self, xid: i32) -> bool {
        let mut pinged = self.pinged.lock();
        let found = pinged.iter().position(|pinged| *pinged == xid);
        found.map(|index| pinged.swap_remove(index)).is_some()
    }

    /// Returns the interception of the reply with this xid.
    fn intercepted_by(&self, xid: i32) -> Option<Arc<Interception>> {
        let mut intercepted = self.intercepted.lock();
        intercepted.retain(|(_, interception)| !interception.over.is_cancelled());
        let (_, interception) = intercepted.iter().find(|(intercepted, _)| *intercepted == xid)?;
        // An interception that does not cut the connection has happened now; xids of pings come again.
        let interception = interception.clone();
        if matches!(interception.fate, Fate::HoldReply | Fate::OmitReply) {
            intercepted.retain(|(intercepted, _)| *intercepted != xid);
        }
        Some(interception)
    }
}

/// Returns the next piece. Otherwise, tells the other side why there is none.
async fn next(frames: &mut Frames<impl AsyncRead + Unpin>, queue: &Queue) -> Option<Piece> {
    match frames.next().await {
        Ok(Some(piece)) => return Some(piece),
        Ok(None) => queue.push(Item::End),
        Err(_) => queue.push(Item::Cut(None)),
    }
    None
}
