//! `zklock ls`: the queues below a path.

use std::collections::VecDeque;
use std::process::ExitCode;

use futures_util::future::join_all;
use serde_json::json;
use zk_recipes::{Client, Error, InterProcessMutex, LeaderObserver, Participant, ReadWriteLock, Semaphore};

use crate::args::{Connection, Ls};
use crate::connect::{catch_up, children};
use crate::exit::{Failure, UNREACHABLE, print, say};
use crate::json;
use crate::queue::{absent, printable};
use crate::recipe::{self, Recipe, Role};
use crate::table::table;
use crate::time;

/// How many nodes are listed at a time.
const AT_ONCE: usize = 16;

/// What is found below a path.
#[derive(Debug, Default)]
struct Found {
    queues: Vec<Line>,
    /// Nodes that this client may not list.
    unreadable: Vec<String>,
    /// There is more than the limit.
    is_truncated: bool,
}

/// A queue that has participants.
#[derive(Debug)]
struct Line {
    /// As it is to be given to other commands.
    path: String,
    recipe: Recipe,
    holders: usize,
    waiters: usize,
    /// The first holder; `None` if it has left since.
    holder: Option<Participant>,
}

pub(crate) async fn ls(connection: &Connection, args: &Ls) -> Result<ExitCode, Failure> {
    let client = connection.connect().await?;
    let read = Found::read(&client, args).await;
    client.close().await;
    let mut found = read?;
    found.queues.sort_by(|a, b| a.path.cmp(&b.path));
    print(&if args.json { found.as_json() } else { found.as_text() })?;
    for path in &found.unreadable {
        say(&format!(
            "left out {}: cannot list it; authenticate as one who may, with --auth-file",
            printable(path)
        ));
    }
    if found.is_truncated {
        say(&format!(
            "left out the rest after {} nodes: give a path further below, or a higher --limit",
            args.limit
        ));
    }
    Ok(ExitCode::SUCCESS)
}

impl Found {
    /// Reads breadth first, each node once, and no participant but the first holders.
    async fn read(client: &Client, args: &Ls) -> Result<Self, Failure> {
        // What is in front of all paths: that of the namespace.
        let probe = InterProcessMutex::new(client, "/x")?;
        let prefix = probe.path().strip_suffix("/x").unwrap_or_default().to_owned();
        let root = if args.path == "/" { "" } else { &args.path };
        if !root.is_empty() {
            // Checks the path.
            let _ = InterProcessMutex::new(client, root)?;
        }
        catch_up(client).await?;
        let mut found = Self::default();
        let mut left = args.limit;
        let mut ahead = VecDeque::from([root.to_owned()]);
        while !ahead.is_empty() {
            if left == 0 {
                found.is_truncated = true;
                break;
            }
            let paths: Vec<_> = ahead.drain(..ahead.len().min(AT_ONCE).min(left)).collect();
            left -= paths.len();
            let visited = join_all(paths.iter().map(|path| visit(client, &prefix, path))).await;
            for (path, visited) in paths.into_iter().zip(visited) {
                match visited {
                    Ok(Visited { line, below }) => {
                        found.queues.extend(line);
                        // No more than could be read are kept.
                        for name in below {
                            if ahead.len() >= left {
                                found.is_truncated = true;
                                break;
                            }
                            ahead.push_back(format!("{path}/{name}"));
                        }
                    }
                    Err(NotVisited::Gone) if path == root => return Err(absent(&full(&prefix, &path))),
                    // Somebody was faster.
                    Err(NotVisited::Gone) => {}
                    Err(NotVisited::Failed(failure)) if path == root || failure.code() == UNREACHABLE => {
                        return Err(failure);
                    }
                    Err(NotVisited::Failed(_)) => found.unreadable.push(path),
                }
            }
        }
        Ok(found)
    }

    fn as_json(&self) -> String {
        let queues = self.queues.iter().map(|line| {
            let holder = line.holder.as_ref().map(|holder| {
                let name = holder.node_path().rsplit('/').next().unwrap_or_default();
                json::participant(holder, name)
            });
            json!({
                "path": line.path,
                "kind": line.recipe.name(),
                "holders": line.holders,
                "waiters": line.waiters,
                "holder": holder,
            })
        });
        json::document(&json!({
            "locks": queues.collect::<Vec<_>>(),
            "unreadable": self.unreadable,
            "is_truncated": self.is_truncated,
        }))
    }

    fn as_text(&self) -> String {
        if self.queues.is_empty() {
            return "no lock here has a holder or a waiter\n".into();
        }
        let rows = self.queues.iter().map(|line| {
            let holder = line.holder.as_ref();
            [
                printable(&line.path),
                line.recipe.name().to_owned(),
                line.holders.to_string(),
                line.waiters.to_string(),
                holder.map_or("-".into(), |holder| time::age(holder.age())),
                holder.map_or("-".into(), |holder| printable(&holder.id())),
            ]
        });
        table(["PATH", "KIND", "HOLDERS", "WAITERS", "AGE", "HOLDER"], &rows.collect::<Vec<_>>())
    }
}

#[derive(Debug)]
struct Visited {
    line: Option<Line>,
    /// The names of the children to visit.
    below: Vec<String>,
}

enum NotVisited {
    Gone,
    Failed(Failure),
}

impl From<Failure> for NotVisited {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Error> for NotVisited {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
    }
}

/// The path in requests.
fn full(prefix: &str, path: &str) -> String {
    match format!("{prefix}{path}") {
        root if root.is_empty() => "/".into(),
        full => full,
    }
}

async fn visit(client: &Client, prefix: &str, path: &str) -> Result<Visited, NotVisited> {
    let full_path = full(prefix, path);
    let mut names = children(client, &full_path).await?.ok_or(NotVisited::Gone)?;
    let recipe = Recipe::of(&names).filter(|_| !path.is_empty());
    let line = match recipe {
        Some(recipe) => line(client, path, &full_path, recipe, &names).await?,
        None => None,
    };
    names.retain(|name| match recipe {
        // Its parts are no locks of their own.
        Some(Recipe::Semaphore) => !matches!(&**name, "locks" | "leases"),
        Some(_) => recipe::participant(name).is_none(),
        // What the servers keep about themselves.
        None => full_path != "/" || name != "zookeeper",
    });
    Ok(Visited { line, below: names })
}

async fn line(
    client: &Client,
    path: &str,
    full_path: &str,
    recipe: Recipe,
    names: &[String],
) -> Result<Option<Line>, NotVisited> {
    let (holders, waiters) = match recipe {
        Recipe::Semaphore => {
            let part = async |name| children(client, &format!("{full_path}/{name}")).await;
            // Waiters are listed first: one that gets its permit in between is then seen twice, and not missed.
            let waiters = count(&part("locks").await?.unwrap_or_default());
            (count(&part("leases").await?.unwrap_or_default()), waiters)
        }
        _ => {
            let holders = holders(names);
            (holders, count(names) - holders)
        }
    };
    if holders + waiters == 0 {
        return Ok(None);
    }
    let holder = match recipe {
        Recipe::Mutex => InterProcessMutex::new(client, path)?.holder().await,
        Recipe::Latch => LeaderObserver::new(client, path)?.leader().await,
        Recipe::Semaphore => Semaphore::new(client, path, 1)?.holder().await,
        Recipe::ReadWrite => {
            let lock = ReadWriteLock::new(client, path)?;
            match lock.write().holder().await {
                Ok(None) => lock.read().holder().await,
                writer => writer,
            }
        }
    };
    Ok(Some(Line { path: path.to_owned(), recipe, holders, waiters, holder: holder? }))
}

/// How many of these nodes are participants.
fn count(names: &[String]) -> usize {
    names.iter().filter(|name| recipe::participant(name).is_some()).count()
}

/// How many of them hold: the first one, or all readers that are before the first writer.
fn holders(names: &[String]) -> usize {
    let participants = || names.iter().filter_map(|name| recipe::participant(name));
    let is_reader = |role: Role| role == Role::Read;
    let first_other = participants().filter(|(role, _)| !is_reader(*role)).map(|(_, number)| number).min();
    let readers = participants().filter(|(role, _)| is_reader(*role));
    match readers.filter(|(_, number)| first_other.is_none_or(|first| *number < first)).count() {
        0 => usize::from(first_other.is_some()),
        readers => readers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_those_at_the_front() {
        for (names, expected) in [
            (&["lock-0000000002", "lock-0000000001"][..], 1),
            (&["__READ__0000000001", "__READ__0000000002", "__WRIT__0000000003", "__READ__0000000004"], 2),
            (&["__WRIT__0000000003", "__READ__0000000004"], 1),
            (&["__READ__0000000004"], 1),
            (&["config"], 0),
        ] {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(holders(&names), expected, "{names:?}");
        }
    }
}
