//! One direction of a connection: what is in transit, in order.

use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::time::{self, Instant};

use super::interception::Interception;
use super::traffic::{Flow, Traffic};

/// Something in transit.
pub(super) enum Item {
    Bytes(Vec<u8>),
    /// Whatever follows waits until the interception is over.
    Hold(Arc<Interception>),
    /// Nothing follows: the sender has closed its socket.
    End,
    /// Ends both directions.
    Cut(Cut),
}

/// Why both directions end: by an interception, or because one side is gone.
pub(super) type Cut = Option<Arc<Interception>>;

/// The sending end.
pub(super) struct Queue(mpsc::UnboundedSender<(Instant, Item)>);

/// The receiving end.
pub(super) struct Link {
    items: mpsc::UnboundedReceiver<(Instant, Item)>,
    /// Selects the direction.
    flow: fn(&Traffic) -> Flow,
    traffic: watch::Receiver<Traffic>,
    /// Nothing more is sent before: the link is still sending earlier bytes, or was a black hole until then.
    free_at: Instant,
}

pub(super) fn link(flow: fn(&Traffic) -> Flow, traffic: watch::Receiver<Traffic>) -> (Queue, Link) {
    let (queue, items) = mpsc::unbounded_channel();
    (Queue(queue), Link { items, flow, traffic, free_at: Instant::now() })
}

impl Queue {
    pub(super) fn push(&self, item: Item) {
        // An error means that there is no receiver, because the connection is ending.
        let _ = self.0.send((Instant::now(), item));
    }
}

impl Link {
    /// Delivers everything until the end.
    pub(super) async fn deliver(&mut self, mut target: impl AsyncWrite + Unpin) -> Result<(), Cut> {
        while let Some((since, item)) = self.items.recv().await {
            match item {
                Item::Bytes(bytes) => {
                    self.pass(since, bytes.len()).await;
                    // An error means that the target is gone, which the other direction reports.
                    let _ = target.write_all(&bytes).await;
                }
                Item::Hold(interception) => interception.over.cancelled().await,
                Item::End => {
                    self.pass(since, 0).await;
                    let _ = target.shutdown().await;
                    return Ok(());
                }
                Item::Cut(cut) => {
                    self.pass(since, 0).await;
                    return Err(cut);
                }
            }
        }
        Ok(())
    }

    /// Waits until `bytes` bytes, in transit since `since`, have arrived. Changes of the traffic apply to them as
    /// well.
    pub(super) async fn pass(&mut self, since: Instant, bytes: usize) {
        loop {
            let flow = (self.flow)(&self.traffic.borrow_and_update());
            if !flow.passes {
                changed(&mut self.traffic).await;
                self.free_at = Instant::now();
                continue;
            }
            let sent = since.max(self.free_at).checked_add(flow.sending(bytes));
            let arrives = sent.and_then(|sent| sent.checked_add(flow.delay));
            let arrival = async {
                match arrives {
                    Some(arrives) if arrives <= Instant::now() => {}
                    Some(arrives) => time::sleep_until(arrives).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = changed(&mut self.traffic) => {}
                () = arrival => {
                    self.free_at = sent.unwrap_or(self.free_at);
                    return;
                }
            }
        }
    }
}

async fn changed(traffic: &mut watch::Receiver<Traffic>) {
    if traffic.changed().await.is_err() {
        // No one can change it any more.
        std::future::pending::<()>().await;
    }
}
