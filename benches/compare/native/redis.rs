//! A lock in Redis, as its documentation describes it: `SET NX PX`, and a script that deletes what is still one's own.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::sleep;
use uuid::Uuid;

use super::library::{Kind, Library, unsupported};
use crate::Result;

const LEASE_MILLIS: &str = "30000";
/// How long to wait before the next look at a lock that is taken. There is no queue.
const POLLING: Duration = Duration::from_millis(1);
const UNLOCK: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

pub(crate) struct Redis;

pub(crate) struct Lock {
    connection: Arc<Mutex<Connection>>,
    key: String,
}

pub(crate) struct Held {
    connection: Arc<Mutex<Connection>>,
    key: String,
    token: String,
}

pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    /// Sends a command and returns its reply, which must be of one line: `+OK`, `:1`, `$-1` for nothing.
    async fn call(&mut self, words: &[&str]) -> Result<String> {
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.get_mut().write_all(command.as_bytes()).await?;
        let mut reply = String::new();
        self.0.read_line(&mut reply).await?;
        match reply.trim_end() {
            error if error.starts_with('-') || error.is_empty() => Err(format!("Redis: {error:?}").into()),
            reply => Ok(reply.to_owned()),
        }
    }
}

impl Library for Redis {
    type Session = Arc<Mutex<Connection>>;
    type Lock = Lock;
    type Held = Held;

    async fn connect(server: &str) -> Result<Self::Session> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        Ok(Arc::new(Mutex::new(Connection(BufReader::new(stream)))))
    }

    fn lock(connection: &Self::Session, kind: Kind, path: &str) -> Result<Lock> {
        match kind {
            Kind::Mutex => Ok(Lock { connection: connection.clone(), key: path.to_owned() }),
            kind => unsupported(kind),
        }
    }

    async fn acquire(Lock { connection, key }: &Lock) -> Result<Held> {
        let token = Uuid::new_v4().to_string();
        loop {
            let command = ["SET", key, &token, "NX", "PX", LEASE_MILLIS];
            if connection.lock().await.call(&command).await? == "+OK" {
                return Ok(Held { connection: connection.clone(), key: key.clone(), token });
            }
            sleep(POLLING).await;
        }
    }

    async fn release(Held { connection, key, token }: Held) -> Result<()> {
        match connection.lock().await.call(&["EVAL", UNLOCK, "1", &key, &token]).await?.as_str() {
            ":1" => Ok(()),
            _ => Err("the lock in Redis was lost".into()),
        }
    }

    async fn close(connection: Self::Session) {
        drop(connection);
    }
}
