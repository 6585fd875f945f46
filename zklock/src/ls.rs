//! `zklock ls`: the queues below a path, and what other nodes are used for.

use std::process::ExitCode;
use std::time::SystemTime;

use futures_util::future::try_join_all;
use serde_json::{Value, json};
use zk_recipes::{Client, InterProcessMutex, LeaderObserver, Participant, ReadWriteLock, Semaphore};

use crate::args::{Connection, Ls};
use crate::exit::{Failure, print};
use crate::json;
use crate::queue::{identity, printable};
use crate::recipe::Recipe;
use crate::table::{count, table};
use crate::time;
use crate::tree::{AT_ONCE, Place, Tree};
use crate::uses::{self, Kind, Use};

/// How many members of a group are named on its line.
const NAMED: usize = 5;

/// A place with its first holder; `None` if that has left since, or may not be read.
type Line<'a> = (&'a Place, Option<Participant>);

pub(crate) async fn ls(connection: &Connection, args: &Ls) -> Result<ExitCode, Failure> {
    let read = connection.with_client(async |client| {
        let tree = Tree::read(client, &args.path, args.limit).await?;
        let holders = holders(client, &tree.places.iter().collect::<Vec<_>>()).await?;
        let uses = if args.all { Some(uses::uses(client, &tree).await?) } else { None };
        Ok((tree, holders, uses))
    });
    let (tree, holders, uses) = read.await?;
    let lines: Vec<Line<'_>> = tree.places.iter().zip(holders).collect();
    let uses = uses.as_deref();
    print(&if args.json { as_json(&tree, &lines, uses) } else { as_text(&lines, uses) })?;
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
    let holder = match place.recipe {
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
    };
    match holder {
        // Others are shown all the same.
        Err(error) if !error.is_retryable() => Ok(None),
        holder => Ok(holder?),
    }
}

fn as_json(tree: &Tree, lines: &[Line<'_>], uses: Option<&[Use]>) -> String {
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
    let mut document = json!({
        "locks": queues.collect::<Vec<_>>(),
        "unreadable": tree.unreadable,
        "is_truncated": tree.is_truncated,
    });
    if let Some(uses) = uses {
        document["others"] = uses.iter().map(json_of).collect();
    }
    json::document(&document)
}

fn json_of(it: &Use) -> Value {
    let number = match it.kind {
        Kind::Number(number) => Some(number),
        _ => None,
    };
    json!({
        "path": it.path,
        "kind": it.kind.name(),
        "members": it.kind.members(),
        "number": number,
        "bytes": it.bytes,
        "changed": time::rfc3339(it.changed),
    })
}

fn as_text(lines: &[Line<'_>], uses: Option<&[Use]>) -> String {
    let mut text = match (lines, uses) {
        ([], None) => "no lock here has a holder or a waiter\n".into(),
        ([], Some([])) => "nothing here is in use\n".into(),
        ([], Some(_)) => String::new(),
        _ => locks(lines),
    };
    if let Some(uses @ [_, ..]) = uses {
        if !text.is_empty() {
            text.push('\n');
        }
        text += &others(uses);
    }
    text
}

/// Does not show data, which may be secret, but for numbers.
fn others(uses: &[Use]) -> String {
    let rows = uses.iter().map(|it| {
        let what = match &it.kind {
            Kind::Service(members) | Kind::DoubleBarrier(members) | Kind::Group(members) => {
                let mut shown: Vec<_> = members.iter().take(NAMED).map(|name| printable(name)).collect();
                if members.len() > NAMED {
                    shown.push("...".into());
                }
                format!("{}: {}", members.len(), shown.join(", "))
            }
            Kind::Barrier => "closed".into(),
            Kind::Number(number) => number.to_string(),
            Kind::Ephemeral | Kind::Ttl | Kind::Value => count(it.bytes, "byte"),
        };
        let age = SystemTime::now().duration_since(it.changed).unwrap_or_default();
        [printable(&it.path), it.kind.name().to_owned(), time::age(age), what]
    });
    table(["PATH", "KIND", "CHANGED", "WHAT"], &rows.collect::<Vec<_>>())
}

fn locks(lines: &[Line<'_>]) -> String {
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
