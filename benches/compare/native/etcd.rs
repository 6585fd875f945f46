//! etcd's lock service, by its JSON gateway: one request to acquire, which waits in a queue, and one to release.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::library::{Kind, Library, unsupported};
use crate::Result;

/// Longer than any case takes, as nobody keeps it alive.
const LEASE_SECONDS: u32 = 900;

pub(crate) struct Etcd;

pub(crate) struct Session {
    connection: Arc<Mutex<Connection>>,
    lease: Value,
}

pub(crate) struct Lock {
    connection: Arc<Mutex<Connection>>,
    lease: Value,
    name: String,
}

pub(crate) struct Held {
    connection: Arc<Mutex<Connection>>,
    key: Value,
}

/// HTTP as far as etcd's answers need it.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    async fn post(&mut self, path: &str, body: &Value) -> Result<Value> {
        let body = body.to_string();
        let head = format!("POST {path} HTTP/1.1\r\nHost: etcd\r\nContent-Length: {}\r\n\r\n", body.len());
        self.0.get_mut().write_all((head + &body).as_bytes()).await?;
        let mut length = None;
        let mut line = String::new();
        loop {
            line.clear();
            if self.0.read_line(&mut line).await? == 0 {
                return Err(format!("etcd closed the connection at {path}").into());
            }
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = Some(value.parse()?);
                }
                None if line.trim_end().is_empty() => break,
                _ => {}
            }
        }
        let mut answer = vec![0; length.ok_or("etcd answers without a length")?];
        self.0.read_exact(&mut answer).await?;
        let answer: Value = serde_json::from_slice(&answer)?;
        match answer.get("error") {
            Some(error) => Err(format!("etcd at {path}: {error}").into()),
            None => Ok(answer),
        }
    }
}

impl Library for Etcd {
    type Session = Session;
    type Lock = Lock;
    type Held = Held;

    async fn connect(server: &str) -> Result<Session> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let mut connection = Connection(BufReader::new(stream));
        let mut granted = connection.post("/v3/lease/grant", &json!({ "TTL": LEASE_SECONDS })).await?;
        Ok(Session { connection: Arc::new(Mutex::new(connection)), lease: granted["ID"].take() })
    }

    fn lock(session: &Session, kind: Kind, path: &str) -> Result<Lock> {
        if kind != Kind::Mutex {
            return unsupported(kind);
        }
        // A name goes as Base64, and any text of its alphabet is some name.
        let mut name = path.replace('-', "+");
        while !name.len().is_multiple_of(4) {
            name.push('/');
        }
        Ok(Lock { connection: session.connection.clone(), lease: session.lease.clone(), name })
    }

    async fn acquire(Lock { connection, lease, name }: &Lock) -> Result<Held> {
        let request = json!({ "name": name, "lease": lease });
        let mut answer = connection.lock().await.post("/v3/lock/lock", &request).await?;
        Ok(Held { connection: connection.clone(), key: answer["key"].take() })
    }

    async fn release(Held { connection, key }: Held) -> Result<()> {
        connection.lock().await.post("/v3/lock/unlock", &json!({ "key": key })).await?;
        Ok(())
    }

    async fn close(session: Session) {
        drop(session);
    }
}
