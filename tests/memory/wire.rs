//! A client that sends and receives single messages, so that a test sees every byte of them.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Generous: it is only reached when something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);
const PING: (i32, i32) = (-2, 11);
const NOTIFICATION: i32 = -1;

/// Builds the body of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Body(pub(crate) Vec<u8>);

impl Body {
    pub(crate) fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn long(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn bool(mut self, value: bool) -> Self {
        self.0.push(value.into());
        self
    }

    pub(crate) fn bytes(self, value: &[u8]) -> Self {
        let mut body = self.int(value.len() as i32);
        body.0.extend(value);
        body
    }

    pub(crate) fn text(self, value: &str) -> Self {
        self.bytes(value.as_bytes())
    }

    pub(crate) fn texts(self, values: &[String]) -> Self {
        values.iter().fold(self.int(values.len() as i32), |body, value| body.text(value))
    }
}

/// The body of a create with which everyone may do everything.
pub(crate) fn create(path: &str, flags: i32) -> Body {
    Body::default().text(path).bytes(b"").int(1).int(31).text("world").text("anyone").int(flags)
}

/// Takes the body of a reply apart.
pub(crate) struct Parts<'a>(pub(crate) &'a [u8]);

impl<'a> Parts<'a> {
    pub(crate) fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    pub(crate) fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    pub(crate) fn long(&mut self) -> i64 {
        i64::from_be_bytes(self.take(8).try_into().unwrap())
    }

    pub(crate) fn bool(&mut self) -> bool {
        self.take(1) != [0]
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        match self.int() {
            -1 => None,
            length => Some(self.take(length.try_into().unwrap())),
        }
    }

    pub(crate) fn text(&mut self) -> String {
        String::from_utf8(self.bytes().expect("a text").into()).unwrap()
    }

    pub(crate) fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.int()).map(|_| one(self)).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    pub(crate) zxid: i64,
    pub(crate) kind: i32,
    pub(crate) path: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) zxid: i64,
    pub(crate) error: i32,
    pub(crate) body: Vec<u8>,
}

/// What a server says to a client that connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub(crate) timeout: i32,
    pub(crate) session: i64,
    pub(crate) password: Vec<u8>,
}

pub(crate) struct Wire {
    stream: TcpStream,
    xid: i32,
}

impl Wire {
    /// `None` if the connection is closed without a word.
    pub(crate) fn connect(
        server: &str,
        timeout: i32,
        session: i64,
        password: &[u8],
        last_zxid: i64,
    ) -> Option<(Self, Welcome)> {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut wire = Self { stream, xid: 0 };
        let request = Body::default().int(0).long(last_zxid).int(timeout).long(session).bytes(password);
        wire.send(&request.bool(false).0);
        let answer = wire.receive()?;
        let mut parts = Parts(&answer);
        assert_eq!(parts.int(), 0, "the version of the protocol");
        let (timeout, session) = (parts.int(), parts.long());
        let password = parts.bytes().unwrap().to_vec();
        assert!(!parts.bool() && parts.0.is_empty(), "not read-only, and nothing more");
        Some((wire, Welcome { timeout, session, password }))
    }

    /// Sends a request and receives all up to its reply, which is `None` if the connection is closed instead.
    pub(crate) fn call(&mut self, operation: i32, body: &[u8]) -> (Vec<Event>, Option<Reply>) {
        self.xid += 1;
        self.call_as((self.xid, operation), body)
    }

    /// Returns the events that have been sent so far.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        let (events, reply) = self.ping();
        assert_eq!(reply.expect("an answer to a ping").error, 0);
        events
    }

    /// Receives all up to the reply to a ping, which is `None` if the connection is closed instead.
    pub(crate) fn ping(&mut self) -> (Vec<Event>, Option<Reply>) {
        self.call_as(PING, &[])
    }

    fn call_as(&mut self, (xid, operation): (i32, i32), body: &[u8]) -> (Vec<Event>, Option<Reply>) {
        self.send(&[&Body::default().int(xid).int(operation).0, body].concat());
        let mut events = Vec::new();
        loop {
            let Some(message) = self.receive() else { return (events, None) };
            let mut parts = Parts(&message);
            let (id, zxid, error) = (parts.int(), parts.long(), parts.int());
            if id == NOTIFICATION {
                let (kind, state, path) = (parts.int(), parts.int(), parts.text());
                assert_eq!(state, 3, "connected");
                events.push(Event { zxid, kind, path });
                continue;
            }
            assert_eq!(id, xid, "the reply to another request");
            return (events, Some(Reply { zxid, error, body: parts.0.to_vec() }));
        }
    }

    pub(crate) fn send(&mut self, message: &[u8]) {
        self.send_raw(&Body::default().bytes(message).0);
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        // If the server has closed the connection, that is found when the answer is read.
        let _ = self.stream.write_all(bytes);
    }

    /// `None` if the connection is closed.
    pub(crate) fn receive(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        self.read(&mut length)?;
        let mut message = vec![0; u32::from_be_bytes(length) as usize];
        self.read(&mut message)?;
        Some(message)
    }

    fn read(&mut self, bytes: &mut [u8]) -> Option<()> {
        match self.stream.read_exact(bytes) {
            Ok(()) => Some(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("no answer within {PATIENCE:?}")
            }
            Err(_) => None,
        }
    }
}
