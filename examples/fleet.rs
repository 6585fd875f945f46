//! Shows the members of a group as they come and go. Until ctrl-c, on the servers in `ZK_CONNECT`:
//! `cargo run --example fleet /path/of/the/group`
//!
//! The same as a member of it: `cargo run --example fleet /path/of/the/group web-7 10.0.0.7:8080`
//!
//! Without arguments, it shows a small fleet of its own:
//! `./zk-docker/with-zookeeper cargo run --example fleet`

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use zk_recipes::nodes::{Group, MemberChange, Members};
use zk_recipes::testing::kill_session;
use zk_recipes::zookeeper_client::Error as ServerError;
use zk_recipes::{Client, Result, Watch};

/// Between the steps of its own fleet, so that they can be followed.
const BREATH: Duration = Duration::from_millis(400);
/// How long a member that was started again waits for the end of its last session.
const RESTART: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        [] => own_fleet().await,
        [path] => watch(path, None).await,
        [path, id, payload] => watch(path, Some((id, payload))).await,
        _ => {
            eprintln!("fleet: give the path of a group, and an id and an address to join it");
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = outcome {
        eprintln!("fleet: {}", zk_recipes::report(&error));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

async fn connect() -> Result<Client> {
    let servers = std::env::var("ZK_CONNECT").unwrap_or_else(|_| "127.0.0.1:2181".into());
    Client::connect(&servers).await
}

/// Shows a group, as a member of it or not, until somebody wants this process to end.
async fn watch(path: &str, joins_as: Option<(&str, &str)>) -> Result<()> {
    let client = connect().await?;
    let group = Group::new(&client, path)?;
    let member = match joins_as {
        Some((id, payload)) => Some(group.join_within(id, payload, RESTART).await?),
        None => None,
    };
    tokio::select! {
        () = show(group.watch_members()) => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    // At once, not only when the session has expired.
    if let Some(member) = member {
        member.leave().await?;
    }
    client.close().await;
    Ok(())
}

/// Prints each change, and the members after it, until the client is closed.
async fn show(mut members: Watch<Members>) {
    let began = Instant::now();
    let mut before = Members::default();
    while let Some(now) = members.changed().await {
        for change in now.changes_since(&before) {
            let change = match change {
                MemberChange::Joined { id, member } => format!("+ {id} {}", text(member.payload())),
                MemberChange::Left { id, .. } => format!("- {id}"),
                MemberChange::Changed { id, member } => format!("~ {id} {}", text(member.payload())),
                other => format!("{other:?}"),
            };
            println!("{:>6.1} s  {change}", began.elapsed().as_secs_f64());
        }
        if now.is_current() != before.is_current() || now.len() != before.len() {
            let ids: Vec<_> = now.iter().map(|(id, _)| id).collect();
            let mark = if now.is_current() { "" } else { ", when it was last connected" };
            println!("{:10}{} members: {}{mark}", "", ids.len(), ids.join(" "));
        }
        before = now;
    }
}

fn text(payload: Option<&[u8]>) -> String {
    String::from_utf8_lossy(payload.unwrap_or(b"(may not be read)")).into_owned()
}

/// Three members, each with a session of its own, which stands for a process.
async fn own_fleet() -> Result<()> {
    let path = format!("/examples/fleet-{:08x}", fastrand::u32(..));
    let watcher = connect().await?;
    let group = Group::new(&watcher, &path)?;
    tokio::select! {
        () = show(group.watch_members()) => {}
        told = timeout(PATIENCE, story(&path)) => match told {
            Ok(told) => told?,
            Err(_) => eprintln!("fleet: the story took more than {PATIENCE:?}"),
        },
    }
    // It would go by itself, later.
    match watcher.zookeeper().await?.delete(&path, None).await {
        Ok(()) | Err(ServerError::NoNode) => {}
        Err(error) => eprintln!("fleet: cannot remove {path}: {error}"),
    }
    watcher.close().await;
    Ok(())
}

async fn story(path: &str) -> Result<()> {
    let clients = [connect().await?, connect().await?, connect().await?];
    let mut members = Vec::new();
    for (client, id) in clients.iter().zip(["web-1", "web-2", "web-3"]) {
        members.push(Group::new(client, path)?.join(id, "starting").await?);
        sleep(BREATH).await;
    }
    members[0].set_payload("ready").await?;
    sleep(BREATH).await;

    println!("          > the session of web-2 ends; it joins again with the next one");
    let mut state = members[1].watch_state();
    let before = state.get();
    // A server that cannot be reached directly does not matter here.
    let _ = kill_session(&clients[1]).await;
    let is_back = |state: &zk_recipes::nodes::NodeState| state.is_present() && *state != before;
    let _ = timeout(PATIENCE, state.wait_for(is_back)).await;
    sleep(BREATH).await;

    println!("          > all leave");
    for member in members {
        member.leave().await?;
        sleep(BREATH / 4).await;
    }
    for client in &clients {
        client.close().await;
    }
    Ok(())
}
