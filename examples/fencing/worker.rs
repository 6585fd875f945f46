//! A worker: writes twice under the lock, and looks in between whether it still has it.

use std::path::Path;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::block_in_place;
use zk_recipes::{Client, Error, InterProcessMutex};

use crate::Result;
use crate::store::Store;

/// For how long the servers shall keep the session, and so the lock, of one who is stopped. A proposal: with
/// ZooKeeper's defaults, they make 4 s of it.
const SESSION_TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) const REFUSED: &str = "protected row: refused";

/// What a worker writes the first or the second time.
pub(crate) fn value(name: &str, time: u32) -> String {
    format!("{name}'s value {time}")
}

/// Each line that it prints is told to the parent process.
pub(crate) async fn run(name: &str, lock: &str, store: &Path) -> Result<()> {
    let mut parent = parent();
    let servers = std::env::var("ZK_CONNECT").unwrap_or_else(|_| "127.0.0.1:2181".into());
    let client = Client::builder().identity(name).session_timeout(SESSION_TIMEOUT).connect(&servers).await?;
    let mutex = InterProcessMutex::new(&client, lock)?;
    let store = Store::open(store)?;

    parent.recv().await;
    let ticket = mutex.enqueue().await?;
    println!("waits for the lock, behind {}", ticket.position().await?);
    let guard = ticket.acquired().await?;
    let token = guard.fencing_token();
    println!("holds the lock, token {token}");
    write(&store, &value(name, 1), token)?;

    // Whom it asks does not matter: the answer is old when it is there.
    let holder = mutex.holder().await?.filter(|holder| holder.fencing_token() == token);
    holder.ok_or("the lock was lost too early")?;
    println!("looks: it holds the lock");
    // Here it may be stopped, and hears nothing of it.
    parent.recv().await;
    write(&store, &value(name, 2), token)?;

    match guard.release().await {
        Ok(()) => println!("releases the lock"),
        Err(Error::LockLost { .. }) => println!("finds that it has lost the lock"),
        Err(error) => return Err(error.into()),
    }
    client.close().await;
    Ok(())
}

/// Writes to both rows.
fn write(store: &Store, value: &str, token: i64) -> Result<()> {
    // SQLite may wait, and must not hold up other tasks of this runtime.
    let taken = block_in_place(|| {
        store.write_unprotected(value)?;
        store.write_protected(value, token)
    })?;
    let protected = if taken { "protected row: taken" } else { REFUSED };
    println!("writes {value}, token {token}; unprotected row: taken, {protected}");
    Ok(())
}

/// The lines from the parent process. When that is gone, this process ends.
fn parent() -> mpsc::UnboundedReceiver<String> {
    let (send, receive) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
        std::process::exit(1);
    });
    receive
}
