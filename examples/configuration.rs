//! A service whose settings are nodes, and reload when these change. Until ctrl-c, on the servers in `ZK_CONNECT`:
//! `cargo run --example configuration /settings/of/the/service`
//!
//! Without a path, it changes settings of its own for a moment:
//! `./zk-docker/with-zookeeper cargo run --example configuration`

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use zk_recipes::cache::{Cache, CacheOptions, CacheState, Snapshot};
use zk_recipes::shared::SharedCount;
use zk_recipes::{Client, CreateMode, Error};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// How long the service waits for its settings when it starts.
const PATIENCE: Duration = Duration::from_secs(30);

/// The settings, as the service uses them: checked, and all of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Settings {
    limit: u32,
    greeting: String,
}

impl Settings {
    /// Reads the nodes below `path`. A setting without a node has its default.
    fn of(snapshot: &Snapshot, path: &str) -> Result<Self> {
        let text = |name: &str| {
            let data = snapshot.data(&format!("{path}/{name}"));
            data.map(|data| std::str::from_utf8(data).map(str::trim)).transpose()
        };
        let limit = match text("limit")? {
            Some(limit) => limit.parse().map_err(|error| format!("the limit {limit:?}: {error}"))?,
            None => 100,
        };
        Ok(Self { limit, greeting: text("greeting")?.unwrap_or("hello").to_owned() })
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match &arguments[..] {
        [] => own_settings().await,
        [path] => serve_at(path).await,
        _ => Err("give the path of the settings, or nothing; name the servers in ZK_CONNECT".into()),
    };
    if let Err(error) = outcome {
        eprintln!("configuration: {}", zk_recipes::report(&*error));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

async fn connect() -> Result<Client> {
    let servers = std::env::var("ZK_CONNECT").unwrap_or_else(|_| "127.0.0.1:2181".into());
    Ok(Client::connect(&servers).await?)
}

/// Follows the settings at `path`. The receiver has the latest that are valid. The service does not start without any;
/// later on, neither invalid settings nor lost servers stop it.
async fn follow(client: &Client, path: &str) -> Result<watch::Receiver<Arc<Settings>>> {
    let options = CacheOptions::children().max_nodes(1000).max_bytes(1 << 20);
    let cache = Cache::start(client, path, options)?;
    let first = timeout(PATIENCE, cache.wait_loaded()).await.map_err(|_| "no settings within 30 s")??;
    let (sender, receiver) = watch::channel(Arc::new(Settings::of(&first, path)?));
    let path = path.to_owned();
    tokio::spawn(async move {
        let mut changes = cache.changes();
        // Whatever has changed: the snapshot has all of it. Several changes at once are one for the service.
        while changes.next().await.is_some() {
            while changes.try_next().is_some() {}
            match Settings::of(&cache.current(), &path) {
                Ok(settings) => drop(sender.send_if_modified(|last| {
                    let is_new = **last != settings;
                    if is_new {
                        *last = Arc::new(settings);
                    }
                    is_new
                })),
                Err(error) => eprintln!("keeping the last settings: {error}"),
            }
        }
        match cache.state() {
            CacheState::Failed(Error::Closed) => {} // the service ends
            state => eprintln!("the settings are not followed any more: {state:?}"),
        }
    });
    Ok(receiver)
}

async fn serve_at(path: &str) -> Result<()> {
    let client = connect().await?;
    let mut settings = follow(&client, path).await?;
    println!("serving with {:?}", **settings.borrow_and_update());
    loop {
        tokio::select! {
            changed = settings.changed() => {
                changed?;
                println!("serving with {:?}", **settings.borrow_and_update());
            }
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                break;
            }
        }
    }
    client.close().await;
    Ok(())
}

/// Changes settings as an operator would, by another client.
async fn own_settings() -> Result<()> {
    let path = format!("/zk-recipes-examples/configuration/{}", std::process::id());
    let (client, operator) = (connect().await?, connect().await?);
    // Creates the nodes above it, too.
    let ready = SharedCount::new(&operator, &format!("{path}/ready"), 1)?;
    ready.get().await?;
    let mut settings = follow(&client, &path).await?;
    println!("serving with {:?}", **settings.borrow_and_update());
    let zookeeper = operator.zookeeper().await?;
    let open = CreateMode::Persistent.with_acls(zk_recipes::Acls::anyone_all());
    for (name, value) in [("limit", "200"), ("greeting", "good morning"), ("limit", "many"), ("limit", "300")]
    {
        let node = format!("{path}/{name}");
        println!("the operator sets {name} to {value:?}");
        if zookeeper.create(&node, value.as_bytes(), &open).await.is_err() {
            zookeeper.set_data(&node, value.as_bytes(), None).await?;
        }
        if value != "many" {
            timeout(PATIENCE, settings.changed()).await.map_err(|_| "the settings did not reload")??;
            println!("serving with {:?}", **settings.borrow_and_update());
        }
    }
    for name in ["limit", "greeting", "ready"] {
        zookeeper.delete(&format!("{path}/{name}"), None).await?;
    }
    // The session lasts while a handle on its connection does.
    drop(zookeeper);
    operator.close().await;
    client.close().await;
    Ok(())
}
