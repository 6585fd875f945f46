//! `zklock ls`: the queues below a path.

use std::process::ExitCode;

use futures_util::future::try_join_all;
use serde_json::json;
use zk_recipes::{Client, InterProcessMutex, LeaderObserver, Participant, ReadWriteLock, Semaphore};

use crate::args::{Connection, Ls};
use crate::exit::{Failure, print};
use crate::json;
use crate::queue::{identity, printable};
use crate::recipe::Recipe;
use crate::table::table;
use crate::time;
use crate::tree::{AT_ONCE, Place, Tree};

/// A place with its first holder; `None` if that has left since, or may not be read.
type Line<'a> = (&'a Place, Option<Participant>);

pub(crate) async fn ls(connection: &Connection, args: &Ls) -> Result<ExitCode, Failure> {
    let client = connection.connect().await?;
    let read = async {
        let tree = Tree::read(&client, &args.path, args.limit).await?;
        let holders = holders(&client, &tree.places.iter().collect::<Vec<_>>()).await?;
        Ok::<_, Failure>((tree, holders))
    };
    let read = read.await;
    client.close().await;
    let (tree, holders) = read?;
    let lines: Vec<Line<'_>> = tree.places.iter().zip(holders).collect();
    print(&if args.json { as_json(&tree, &lines) } else { as_text(&lines) })?;
    tree.say_what_is_missing(args.limit);
    Ok(ExitCode::SUCCESS)
}

/// Reads the first holders of some queues.
pub(crate) async fn holders(client: &Client, places: &[&Place]) -> Result<Vec<Option<Participant>>, Failure> {
    let mut holders = Vec::with_capacity(places.len());
    for places in places.chunks(AT_ONCE) {
        holders.extend(try_join_all(places.iter().map(|place| holder(client, place))).await?);
    }
    Ok(holders)
}

async fn holder(client: &Client, place: &Place) -> Result<Option<Participant>, Failure> {
    let path = &place.path;
    Ok(match place.recipe {
        Recipe::Mutex => InterProcessMutex::new(client, path)?.holder().await,
        Recipe::Latch => LeaderObserver::new(client, path)?.leader().await,
        // The number of permits matters to those who acquire some.
        Recipe::Semaphore => Semaphore::new(client, path, 1)?.holder().await,
        Recipe::ReadWrite => {
            let lock = ReadWriteLock::new(client, path)?;
            match lock.write().holder().await {
                Ok(None) => lock.read().holder().await,
                writer => writer,
            }
        }
    }?)
}

fn as_json(tree: &Tree, lines: &[Line<'_>]) -> String {
    let queues = lines.iter().map(|(place, holder)| {
        let holder = holder.as_ref().map(|holder| {
            let name = holder.node_path().rsplit('/').next().unwrap_or_default();
            json::participant(holder, name)
        });
        json!({
            "path": place.path,
            "kind": place.recipe.name(),
            "holders": place.holders,
            "waiters": place.waiters,
            "holder": holder,
        })
    });
    json::document(&json!({
        "locks": queues.collect::<Vec<_>>(),
        "unreadable": tree.unreadable,
        "is_truncated": tree.is_truncated,
    }))
}

fn as_text(lines: &[Line<'_>]) -> String {
    if lines.is_empty() {
        return "no lock here has a holder or a waiter\n".into();
    }
    let rows = lines.iter().map(|(place, holder)| {
        [
            printable(&place.path),
            place.recipe.name().to_owned(),
            place.holders.to_string(),
            place.waiters.to_string(),
            holder.as_ref().map_or("-".into(), |holder| time::age(holder.age())),
            holder.as_ref().map_or("-".into(), identity),
        ]
    });
    table(["PATH", "KIND", "HOLDERS", "WAITERS", "AGE", "HOLDER"], &rows.collect::<Vec<_>>())
}
