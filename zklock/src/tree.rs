//! The queues below a path, by the names of their nodes.

use std::collections::VecDeque;

use futures_util::future::{join_all, try_join_all};
use zk_recipes::{Client, Error, InterProcessMutex};

use crate::connect::{catch_up, children, node};
use crate::exit::{Failure, UNREACHABLE};
use crate::queue::{absent, printable, recipe_of};
use crate::recipe::{self, Recipe, Role};
use crate::said::say;

/// How many nodes are read at a time.
pub(crate) const AT_ONCE: usize = 16;

/// Less than any node has.
const NO_DATA: i32 = -1;

/// What is found below a path.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Those that have participants, by path.
    pub(crate) places: Vec<Place>,
    /// The paths of nodes that are no part of a queue, below the namespace.
    pub(crate) others: Vec<String>,
    /// Nodes that this client may not list, and queues with participants that it may not read.
    pub(crate) unreadable: Vec<String>,
    /// There is more than the limit.
    pub(crate) is_truncated: bool,
}

/// A queue that has participants.
#[derive(Debug)]
pub(crate) struct Place {
    /// Below the namespace, as commands take it.
    pub(crate) path: String,
    pub(crate) recipe: Recipe,
    pub(crate) holders: usize,
    pub(crate) waiters: usize,
    /// The full paths of the nodes that have held and waited for the longest time.
    pub(crate) first_holder: Option<String>,
    pub(crate) first_waiter: Option<String>,
}

impl Tree {
    /// Reads breadth first, and each node once.
    pub(crate) async fn read(client: &Client, root: &str, limit: usize) -> Result<Self, Failure> {
        let prefix = prefix(client)?;
        let root = if root == "/" { "" } else { root };
        if !root.is_empty() {
            // Checks the path.
            let _ = InterProcessMutex::new(client, root)?;
        }
        catch_up(client).await?;
        let mut tree = Self::default();
        let mut left = limit;
        let mut ahead = VecDeque::from([root.to_owned()]);
        while !ahead.is_empty() {
            if left == 0 {
                tree.is_truncated = true;
                break;
            }
            let paths: Vec<_> = ahead.drain(..ahead.len().min(AT_ONCE).min(left)).collect();
            left -= paths.len();
            let visited = join_all(paths.iter().map(|path| visit(client, &prefix, path))).await;
            for (path, visited) in paths.into_iter().zip(visited) {
                match visited {
                    Ok(Some(Visited { is_queue, place, below })) => {
                        tree.places.extend(place);
                        // No more than could be read are kept.
                        for name in below {
                            if ahead.len() >= left {
                                tree.is_truncated = true;
                                break;
                            }
                            ahead.push_back(format!("{path}/{name}"));
                        }
                        if !is_queue && !path.is_empty() {
                            tree.others.push(path);
                        }
                    }
                    Ok(None) if path == root => return Err(absent(&full(&prefix, &path))),
                    // Somebody was faster.
                    Ok(None) => {}
                    Err(failure) if path == root || failure.code() == UNREACHABLE => return Err(failure),
                    Err(_) => tree.unreadable.push(path),
                }
            }
        }
        tree.places.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    /// Tells the user what was left out.
    pub(crate) fn say_what_is_missing(&self, limit: usize) {
        for path in &self.unreadable {
            say(&format!(
                "left out {}: cannot read it; authenticate as one who may, with --auth-file",
                printable(path)
            ));
        }
        if self.is_truncated {
            say(&format!(
                "left out the rest after {limit} nodes: give a path further below, or a higher --limit"
            ));
        }
    }
}

#[derive(Debug)]
struct Visited {
    is_queue: bool,
    place: Option<Place>,
    /// The names of the children to visit.
    below: Vec<String>,
}

/// What is in front of all paths: that of the namespace.
fn prefix(client: &Client) -> Result<String, Error> {
    let probe = InterProcessMutex::new(client, "/x")?;
    Ok(probe.path().strip_suffix("/x").unwrap_or_default().to_owned())
}

/// The path of any node in requests; `/` is that of the namespace.
pub(crate) fn full_path(client: &Client, path: &str) -> Result<String, Error> {
    match path {
        "/" => Ok(full(&prefix(client)?, "")),
        path => Ok(InterProcessMutex::new(client, path)?.path().to_owned()),
    }
}

/// The path in requests.
fn full(prefix: &str, path: &str) -> String {
    match format!("{prefix}{path}") {
        root if root.is_empty() => "/".into(),
        full => full,
    }
}

/// `None` if there is no such node.
async fn visit(client: &Client, prefix: &str, path: &str) -> Result<Option<Visited>, Failure> {
    let full_path = full(prefix, path);
    let Some(mut names) = children(client, &full_path).await? else { return Ok(None) };
    let paths = paths(client, &full_path, &names).await?;
    names.retain(|name| !paths.contains(name));
    let recipe = match path {
        "" => None,
        _ => recipe_of(client, &full_path, &names).await?,
    };
    if recipe == Some(Recipe::Semaphore) {
        // Its parts are no locks of their own, but there may be some below them.
        names.retain(|name| !matches!(&**name, "locks" | "leases"));
        // Waiters are listed first: one that gets its permit in between is then seen twice, and not missed.
        for part in ["locks", "leases"] {
            let below = children(client, &format!("{full_path}/{part}")).await?.unwrap_or_default();
            names.extend(below.into_iter().map(|name| format!("{part}/{name}")));
        }
    }
    let place = recipe.and_then(|recipe| Place::among(&names, path, &full_path, recipe));
    names.retain(|name| match recipe {
        Some(_) => recipe::participant(name).is_none(),
        // What the servers keep about themselves.
        None => full_path != "/" || name != "zookeeper",
    });
    names.extend(paths);
    Ok(Some(Visited { is_queue: recipe.is_some(), place, below: names }))
}

/// Those that are named as participants, but have children, as no ephemeral node has: paths of their own.
async fn paths(client: &Client, full_path: &str, names: &[String]) -> Result<Vec<String>, Failure> {
    let is_doubtful = |name: &&String| recipe::participant(name).is_some() && !recipe::is_unmistakable(name);
    let doubtful: Vec<_> = names.iter().filter(is_doubtful).collect();
    let mut paths = Vec::new();
    for some in doubtful.chunks(AT_ONCE) {
        let read = some.iter().map(async |name| {
            let path = format!("{}/{name}", full_path.trim_end_matches('/'));
            node(client, &path, NO_DATA).await
        });
        for (name, node) in some.iter().zip(try_join_all(read).await?) {
            if node.is_some_and(|node| node.stat.num_children > 0) {
                paths.push((*name).clone());
            }
        }
    }
    Ok(paths)
}

impl Place {
    /// `None` if nobody takes part.
    fn among(names: &[String], path: &str, full_path: &str, recipe: Recipe) -> Option<Self> {
        let (holders, waiters) = match recipe {
            Recipe::Semaphore => {
                let part = |part| in_order(full_path, names.iter().filter(|name| name.starts_with(part)));
                (part("leases/"), part("locks/"))
            }
            _ => {
                let mut holders = in_order(full_path, names);
                let waiters = holders.split_off(holding(names));
                (holders, waiters)
            }
        };
        let place = Self {
            path: path.to_owned(),
            recipe,
            holders: holders.len(),
            waiters: waiters.len(),
            first_holder: holders.into_iter().next(),
            first_waiter: waiters.into_iter().next(),
        };
        Some(place).filter(|place| place.holders + place.waiters > 0)
    }
}

/// The paths of the participants among these children, by their numbers.
fn in_order<'a>(full_path: &str, names: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut participants: Vec<_> = names
        .into_iter()
        .filter_map(|name| recipe::participant(name).map(|(role, number)| (number, role != Role::Read, name)))
        .collect();
    participants.sort_unstable();
    participants.into_iter().map(|(_, _, name)| format!("{full_path}/{name}")).collect()
}

/// How many of them hold: the first one, or all readers that are before the first writer.
fn holding(names: &[String]) -> usize {
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
            assert_eq!(holding(&names), expected, "{names:?}");
        }
    }

    #[test]
    fn participants_are_ordered_by_number() {
        let names = ["b-lock-0000000001", "config", "a-lock-0000000002"].map(str::to_owned);
        assert_eq!(in_order("/a", &names), ["/a/b-lock-0000000001", "/a/a-lock-0000000002"]);
    }
}
