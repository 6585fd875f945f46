//! A client of a simulated server that sends and receives single messages.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use zk_recipes::testing::MemoryEnsemble;

use crate::memory::operation::{CREATE, GET_DATA, SET_DATA, SYNC};
use crate::memory::wire::{Body, Event, Parts, Reply, Welcome, create};

pub(super) const PING: i32 = 11;
pub(super) const CLOSE_SESSION: i32 = -11;
pub(super) const PERSISTENT: i32 = 0;
pub(super) const EPHEMERAL: i32 = 1;
pub(super) const SEQUENTIAL: i32 = 2;
const NOTIFICATION: i32 = -1;

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Closed,
    Expired,
}

#[derive(Debug)]
pub(super) struct Client {
    stream: DuplexStream,
    xid: i32,
    pub(super) welcome: Welcome,
    /// The greatest that it has seen.
    pub(super) zxid: i64,
    pub(super) events: Vec<Event>,
}

impl Client {
    /// Opens a session.
    pub(super) async fn open(ensemble: &MemoryEnsemble, server: usize) -> Option<Self> {
        let nobody = Welcome { timeout: 1_000, session: 0, password: vec![0; 16] };
        Self::connect(ensemble, server, &nobody, 0).await.ok()
    }

    /// Continues a session at another server. `None` if it is refused.
    pub(super) async fn resume(&self, ensemble: &MemoryEnsemble, server: usize) -> Option<Self> {
        Self::connect(ensemble, server, &self.welcome, self.zxid).await.ok()
    }

    pub(super) async fn connect(
        ensemble: &MemoryEnsemble,
        server: usize,
        welcome: &Welcome,
        zxid: i64,
    ) -> Result<Self, Refusal> {
        let (stream, theirs) = tokio::io::duplex(1 << 16);
        tokio::spawn(ensemble.serve(server, theirs));
        let mut client = Self { stream, xid: 0, welcome: welcome.clone(), zxid, events: Vec::new() };
        let Welcome { timeout, session, password } = welcome;
        let request = Body::default().int(0).long(zxid).int(*timeout).long(*session).bytes(password);
        client.send(&request.bool(false).0).await;
        let answer = client.receive().await.ok_or(Refusal::Closed)?;
        let mut parts = Parts(&answer);
        assert_eq!(parts.int(), 0, "the version of the protocol");
        let (timeout, session) = (parts.int(), parts.long());
        client.welcome = Welcome { timeout, session, password: parts.bytes().unwrap().to_vec() };
        if session == 0 { Err(Refusal::Expired) } else { Ok(client) }
    }

    pub(super) async fn send(&mut self, message: &[u8]) {
        let _ = self.stream.write_all(&Body::default().bytes(message).0).await;
    }

    /// Sends a request without waiting for its reply. Returns its number.
    pub(super) async fn request(&mut self, operation: i32, body: &[u8]) -> i32 {
        self.xid += 1;
        let xid = self.xid;
        self.send(&[&Body::default().int(xid).int(operation).0, body].concat()).await;
        xid
    }

    /// Receives the next reply. `None` if the connection is closed.
    pub(super) async fn reply(&mut self) -> Option<(i32, Reply)> {
        loop {
            let message = self.receive().await?;
            let mut parts = Parts(&message);
            let (xid, zxid, error) = (parts.int(), parts.long(), parts.int());
            if xid == NOTIFICATION {
                let (kind, _, path) = (parts.int(), parts.int(), parts.text());
                self.events.push(Event { zxid, kind, path });
                continue;
            }
            assert!(zxid >= self.zxid, "zxid {zxid:#x} after {:#x}", self.zxid);
            self.zxid = zxid;
            return Some((xid, Reply { zxid, error, body: parts.0.to_vec() }));
        }
    }

    pub(super) async fn call(&mut self, operation: i32, body: Body) -> Option<Reply> {
        let xid = self.request(operation, &body.0).await;
        let (answered, reply) = self.reply().await?;
        assert_eq!(answered, xid, "replies come in the order of the requests");
        Some(reply)
    }

    /// Returns the path of the new node, or the error.
    pub(super) async fn create(&mut self, path: &str, flags: i32) -> Option<Result<String, i32>> {
        let reply = self.call(CREATE, create(path, flags)).await?;
        Some(if reply.error == 0 { Ok(Parts(&reply.body).text()) } else { Err(reply.error) })
    }

    /// Returns the error, or 0.
    pub(super) async fn set_data(&mut self, path: &str, data: &str) -> Option<i32> {
        self.call(SET_DATA, set_data(path, data)).await.map(|reply| reply.error)
    }

    /// Returns the data of a node, or the error.
    pub(super) async fn data(&mut self, path: &str) -> Option<Result<String, i32>> {
        let reply = self.call(GET_DATA, Body::default().text(path).bool(false)).await?;
        Some(if reply.error == 0 { Ok(Parts(&reply.body).text()) } else { Err(reply.error) })
    }

    pub(super) async fn sync(&mut self) -> Option<i32> {
        self.call(SYNC, Body::default().text("/")).await.map(|reply| reply.error)
    }

    pub(super) async fn ping(&mut self) -> Option<i32> {
        self.call(PING, Body::default()).await.map(|reply| reply.error)
    }

    /// Whether the server closes the connection within a time without another message.
    pub(super) async fn is_closed_within(&mut self, time: Duration) -> bool {
        matches!(tokio::time::timeout(time, self.receive()).await, Ok(None))
    }

    async fn receive(&mut self) -> Option<Vec<u8>> {
        let length = self.stream.read_u32().await.ok()?;
        let mut message = vec![0; length as usize];
        self.stream.read_exact(&mut message).await.ok()?;
        Some(message)
    }
}

pub(super) fn set_data(path: &str, data: &str) -> Body {
    Body::default().text(path).text(data).int(-1)
}
