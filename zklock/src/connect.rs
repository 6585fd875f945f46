//! The client, as the options of the command line have it.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;
use zk_recipes::{Client, ClientBuilder, ConnectionState, Watch, zookeeper_client as zk};

use crate::args::Connection;
use crate::exit::Failure;
use crate::said::say;
use crate::tls::Files;

/// The variable with `user:password`.
pub(crate) const AUTH: &str = "ZKLOCK_AUTH";

/// How often a read is tried whose connection breaks.
const TRIES: u32 = 4;

/// An outage that is over by then is not worth a word.
const SHORT: Duration = Duration::from_secs(1);

/// A node that was read.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) stat: zk::Stat,
    /// `None` if they are too long.
    pub(crate) data: Option<Vec<u8>>,
}

impl Connection {
    /// Connects, within the time of one attempt. Says when there is no connection any more.
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        let client = self.connect_quietly().await?;
        tokio::spawn(say_outages(client.watch_connection()));
        Ok(client)
    }

    /// Connects, does something, and closes the client.
    pub(crate) async fn with_client<T>(
        &self,
        work: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let client = self.connect().await?;
        let done = work(&client).await;
        client.close().await;
        done
    }

    /// Connects for what shows by itself how old it is.
    pub(crate) async fn connect_quietly(&self) -> Result<Client, Failure> {
        Ok(self.builder()?.connect(self.servers()?).await?)
    }

    /// Connects in the background: for calls that have a time limit of their own. Says when there is no connection.
    pub(crate) fn connect_lazily(&self) -> Result<Client, Failure> {
        let client = self.builder()?.connect_lazily(self.servers()?)?;
        tokio::spawn(say_outages(client.watch_connection()));
        Ok(client)
    }

    /// Says it if others may use the nodes that are about to be created, although this client authenticates.
    ///
    /// # Errors
    /// The credentials cannot be read.
    pub(crate) fn say_if_open(&self) -> Result<(), Failure> {
        if !self.creator_only && self.credentials()?.is_some() {
            say(
                "the nodes are open to everyone, who may take the lock away: the password reserves them only with --creator-only",
            );
        }
        Ok(())
    }

    /// How long a wait goes on while no server can be reached: its session, and then the attempts of the default policy.
    pub(crate) fn patience(&self) -> Duration {
        self.session_timeout.saturating_add(self.connect_timeout.saturating_mul(TRIES))
    }

    pub(crate) fn servers(&self) -> Result<&str, Failure> {
        self.connect.as_deref().filter(|servers| !servers.is_empty()).ok_or_else(|| {
            Failure::usage("which servers? Give --connect host:port[,host:port...], or set ZK_CONNECT")
        })
    }

    fn builder(&self) -> Result<ClientBuilder, Failure> {
        let mut builder = Client::builder()
            .session_timeout(self.session_timeout)
            .connection_timeout(self.connect_timeout)
            .namespace(&self.namespace);
        if let Some(name) = &self.name {
            builder = builder.program_name(name);
        }
        builder = match self.credentials()? {
            None if self.sasl => {
                return Err(Failure::usage(format!(
                    "--sasl needs credentials: give --auth-file, or set {AUTH}"
                )));
            }
            None => builder,
            Some((user, password)) if self.sasl => builder.sasl(zk::SaslOptions::digest_md5(user, password)),
            Some((user, password)) => builder.auth("digest", format!("{user}:{password}")),
        };
        if self.creator_only {
            builder = builder.creator_only();
        }
        self.encrypted(builder)
    }

    /// Whether the options of the command line ask for encryption.
    pub(crate) fn is_encrypted(&self) -> bool {
        // An empty variable is as good as none.
        self.tls_ca.as_ref().is_some_and(|ca| !ca.as_os_str().is_empty())
    }

    fn encrypted(&self, builder: ClientBuilder) -> Result<ClientBuilder, Failure> {
        let Some(ca) = self.tls_ca.clone().filter(|_| self.is_encrypted()) else { return Ok(builder) };
        let identity = self.tls_cert.clone().zip(self.tls_key.clone()).map(<[_; 2]>::from);
        let certs = Files { ca, identity }.follow()?;
        Ok(builder.tls(zk::TlsOptions::new().with_certs(certs)))
    }

    /// From a file or the environment only: everyone can read the command lines of others.
    fn credentials(&self) -> Result<Option<(String, String)>, Failure> {
        let (credentials, from) = match &self.auth_file {
            Some(file) => {
                let read = std::fs::read_to_string(file);
                let read = read.map_err(|error| {
                    Failure::usage(format!("cannot read the credentials in {}: {error}", file.display()))
                })?;
                (read, file.display().to_string())
            }
            None => match std::env::var(AUTH) {
                Ok(credentials) if !credentials.is_empty() => (credentials, AUTH.to_owned()),
                _ => return Ok(None),
            },
        };
        let credentials = credentials.trim_end_matches(['\r', '\n']);
        match credentials.split_once(':').filter(|_| !credentials.contains('\n')) {
            Some((user, password)) => Ok(Some((user.to_owned(), password.to_owned()))),
            None => {
                Err(Failure::usage(format!("the credentials in {from} are not user:password, on one line")))
            }
        }
    }
}

/// Says when there is no connection, and when there is one again: who waits knows nothing meanwhile.
async fn say_outages(mut connection: Watch<ConnectionState>) {
    use ConnectionState::Closed;

    while connection.wait_for(|state| !state.is_connected()).await.is_some() {
        let mut again = pin!(async {
            let state = connection.wait_for(|state| state.is_connected() || *state == Closed).await;
            state.is_some_and(|state| state != Closed)
        });
        match timeout(SHORT, &mut again).await {
            Ok(true) => continue,
            Ok(false) => return,
            Err(_) => say("not connected to any server, so nothing new is known; tries to connect again"),
        }
        if !again.await {
            return;
        }
        say("connected again");
    }
}

/// Reads the children of a node, as they are after everything that was done before; `None` if there is no such node.
pub(crate) async fn children(client: &Client, path: &str) -> Result<Option<Vec<String>>, Failure> {
    found("list", path, read(client, async |zookeeper| zookeeper.list_children(path).await).await?)
}

/// Reads a node, with its data if they are no longer than `most_data`; `None` if there is no such node, or it may not be
/// read any more.
pub(crate) async fn node(client: &Client, path: &str, most_data: i32) -> Result<Option<Node>, Failure> {
    let node = read(client, async |zookeeper| {
        let stat = zookeeper.check_stat(path).await?.ok_or(zk::Error::NoNode)?;
        if stat.data_length > most_data {
            return Ok(Node { stat, data: None });
        }
        let (data, stat) = zookeeper.get_data(path).await?;
        Ok(Node { stat, data: Some(data) })
    });
    match node.await? {
        Err(zk::Error::NoAuth) => Ok(None),
        node => found("read", path, node),
    }
}

/// Reads something, again if the connection breaks.
async fn read<T>(
    client: &Client,
    read: impl AsyncFn(zk::Client) -> Result<T, zk::Error>,
) -> Result<Result<T, zk::Error>, Failure> {
    for _ in 1..TRIES {
        match read(client.zookeeper().await?).await {
            Err(zk::Error::ConnectionLoss | zk::Error::SessionExpired) => {}
            read => return Ok(read),
        }
    }
    Ok(read(client.zookeeper().await?).await)
}

fn found<T>(operation: &str, path: &str, read: Result<T, zk::Error>) -> Result<Option<T>, Failure> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(zk::Error::NoNode) => Ok(None),
        Err(zk::Error::NoAuth) => Err(Failure::other(format!(
            "cannot {operation} {path}: no permission; authenticate with --auth-file or {AUTH} as a user who may read it"
        ))),
        Err(error) => Err(Failure::unreachable(format!(
            "cannot {operation} {path}: {error}; check that the servers run, and try again"
        ))),
    }
}

/// Has the server of this client catch up with the others, so that what it shows is not old.
pub(crate) async fn catch_up(client: &Client) -> Result<(), Failure> {
    let zookeeper = client.zookeeper().await?;
    // A server that cannot will show in the requests that follow.
    let _ = zookeeper.sync("/").await;
    Ok(())
}
