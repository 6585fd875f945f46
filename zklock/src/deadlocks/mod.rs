//! `zklock deadlocks`: sessions that wait for one another.

mod cycle;
mod graph;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::sleep;
use zk_recipes::{Client, Participant};

use crate::args::{Connection, Deadlocks};
use crate::exit::{DEADLOCK, Failure, UNREACHABLE, print};
use crate::json;
use crate::nested::outer_sessions;
use crate::queue::{Queue, identity, printable, role, state};
use crate::recipe::{self, Recipe, Role};
use crate::table::{count, table};
use crate::time;
use crate::tree::{AT_ONCE, Tree};

use self::cycle::{Deadlock, deadlocks};
use self::graph::{Entry, Graph, Line, Part};

pub(crate) async fn deadlocks_below(connection: &Connection, args: &Deadlocks) -> Result<ExitCode, Failure> {
    let Sight { trees, queues, before } =
        connection.with_client(async |client| look(client, args).await).await?;
    let lines: Vec<_> = queues.iter().map(line).collect();
    let graph = Graph::new(&lines).since(&Graph::new(&before));
    let found = deadlocks(&graph);
    // By the numbers that they have in the graph.
    let people = queues.iter().flat_map(|queue| queue.participants.iter().map(move |one| (queue, one)));
    let report = Report { graph: &graph, people: people.collect(), found: &found, trees: &trees };
    print(&if args.json { report.as_json() } else { report.as_text(queues.len()) })?;
    for tree in &trees {
        tree.say_what_is_missing(args.limit);
    }
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { DEADLOCK.into() })
}

/// What was read.
#[derive(Debug)]
struct Sight {
    trees: Vec<Tree>,
    /// The queues in which somebody waits, but for elections.
    queues: Vec<Queue>,
    /// Those of the look before; of this one if there was no reason to look twice.
    before: Vec<Line>,
}

async fn look(client: &Client, args: &Deadlocks) -> Result<Sight, Failure> {
    let (mut trees, mut queues) = read(client, args).await?;
    let before: Vec<_> = queues.iter().map(line).collect();
    if !deadlocks(&Graph::new(&before)).is_empty() {
        sleep(args.confirm_after).await;
        (trees, queues) = read(client, args).await?;
    }
    Ok(Sight { trees, queues, before })
}

/// Reads the queues in which somebody waits.
async fn read(client: &Client, args: &Deadlocks) -> Result<(Vec<Tree>, Vec<Queue>), Failure> {
    let mut trees = Vec::new();
    for path in &args.paths {
        trees.push(Tree::read(client, path, args.limit).await?);
    }
    // Paths that are given may be below one another.
    let places: BTreeMap<_, _> =
        trees.iter().flat_map(|tree| &tree.places).map(|place| (&place.path, place)).collect();
    // Candidates stand for several elections at once, and wait for none of them.
    let waited_for = places.values().filter(|place| place.waiters > 0 && place.recipe != Recipe::Latch);
    let paths: Vec<&str> = waited_for.map(|place| &*place.path).collect();
    let mut queues = Vec::with_capacity(paths.len());
    let mut unreadable = Vec::new();
    for paths in paths.chunks(AT_ONCE) {
        let found = join_all(paths.iter().map(|path| Queue::find(client, path))).await;
        for (path, found) in paths.iter().zip(found) {
            match found {
                Ok(queue) => queues.extend(queue),
                Err(failure) if failure.code() == UNREACHABLE => return Err(failure),
                Err(_) => unreadable.push((*path).to_owned()),
            }
        }
    }
    if let Some(tree) = trees.first_mut() {
        tree.unreadable.extend(unreadable);
    }
    Ok((trees, queues))
}

fn line(queue: &Queue) -> Line {
    let entry = |participant: &Participant| Entry {
        node: participant.node_path().to_owned(),
        czxid: participant.fencing_token(),
        session: participant.session_id(),
        outer: outer_sessions(participant),
        part: part(queue, participant),
        is_holder: participant.is_holder(),
    };
    queue.participants.iter().map(entry).collect()
}

fn part(queue: &Queue, participant: &Participant) -> Part {
    let role = recipe::participant(queue.name(participant)).map(|(role, _)| role);
    match (queue.recipe, role) {
        (Some(Recipe::Semaphore), Some(Role::Lease)) => Part::Lease,
        (Some(Recipe::Semaphore), _) => Part::Gate,
        (_, Some(Role::Read)) => Part::Shared,
        _ => Part::Exclusive,
    }
}

struct Report<'r> {
    graph: &'r Graph<'r>,
    people: Vec<(&'r Queue, &'r Participant)>,
    found: &'r [Deadlock],
    trees: &'r [Tree],
}

impl Report<'_> {
    fn as_json(&self) -> String {
        let deadlocks = self.found.iter().map(|deadlock| {
            let cycle = deadlock.cycle.iter().enumerate().map(|(index, node)| {
                let (queue, participant) = self.people[*node];
                let next = deadlock.cycle[(index + 1) % deadlock.cycle.len()];
                let mut entry = json::participant(participant, queue.name(participant));
                entry["path"] = (&*queue.path).into();
                entry["waits_for"] = self.people[next].1.node_path().into();
                entry
            });
            let kick = self
                .holders(deadlock)
                .map(|(queue, holder)| json!({ "path": queue.path, "participant": queue.name(holder) }));
            json!({
                "sessions": self.sessions(deadlock).iter().map(|id| format!("{id:#x}")).collect::<Vec<_>>(),
                "independent_tasks":
                    self.with_tasks(deadlock).iter().map(|id| format!("{id:#x}")).collect::<Vec<_>>(),
                "cycle": cycle.collect::<Vec<_>>(),
                "stuck": deadlock.stuck,
                "kick": kick.collect::<Vec<_>>(),
            })
        });
        json::document(&json!({
            "deadlocks": deadlocks.collect::<Vec<_>>(),
            "unreadable": self.trees.iter().flat_map(|tree| &tree.unreadable).collect::<Vec<_>>(),
            "is_truncated": self.trees.iter().any(|tree| tree.is_truncated),
        }))
    }

    fn as_text(&self, waited_for: usize) -> String {
        if self.found.is_empty() {
            let places: BTreeSet<_> =
                self.trees.iter().flat_map(|tree| &tree.places).map(|place| &place.path).collect();
            return format!(
                "no deadlock: {} in use, waiters at {waited_for} of them\n",
                count(places.len(), "lock")
            );
        }
        let texts: Vec<_> = self.found.iter().map(|deadlock| self.text(deadlock)).collect();
        texts.join("\n")
    }

    fn text(&self, deadlock: &Deadlock) -> String {
        let sessions = self.sessions(deadlock);
        let mut text = format!(
            "possible deadlock of {}: each line waits for the next, the last one for the first\n",
            count(sessions.len(), "session")
        );
        let rows: Vec<_> = deadlock
            .cycle
            .iter()
            .map(|node| {
                let (queue, participant) = self.people[*node];
                [
                    format!("{:#x}", participant.session_id()),
                    state(participant).to_owned(),
                    role(participant).to_owned(),
                    printable(&queue.path),
                    time::age(participant.age()),
                    printable(queue.name(participant)),
                    identity(participant),
                ]
            })
            .collect();
        text += &table(["SESSION", "STATE", "KIND", "PATH", "AGE", "NODE", "IDENTITY"], &rows);
        // The way back may go by nodes of the way there.
        match deadlock.stuck - deadlock.cycle.iter().collect::<BTreeSet<_>>().len() {
            0 => {}
            others => {
                text += &format!("{} cannot go on either until it is broken\n", count(others, "participant"))
            }
        }
        for session in self.with_tasks(deadlock) {
            text += &format!(
                "session {session:#x} waits in {} places, so it has independent tasks: one that holds may go on\n",
                self.graph.waiting_places(session)
            );
        }
        if deadlock.cycle.iter().all(|node| self.people[*node].0.recipe == Some(Recipe::Mutex)) {
            text += "if these are leader selectors, it is none: their nodes are those of a mutex, and a candidate waits for \
                     no other election\n";
        }
        text += "it ends when one of the holders loses its lock; look at what they do first:\n";
        for (queue, holder) in self.holders(deadlock) {
            text += &format!(
                "  zklock kick {} --participant {}\n",
                quoted(&queue.path),
                quoted(queue.name(holder))
            );
        }
        text
    }

    /// The holders of the cycle, the youngest hold first.
    fn holders(&self, deadlock: &Deadlock) -> impl Iterator<Item = (&Queue, &Participant)> {
        let holders = deadlock.cycle.iter().map(|node| self.people[*node]);
        let mut holders: Vec<_> = holders.filter(|(_, participant)| participant.is_holder()).collect();
        holders.sort_by_key(|(_, participant)| std::cmp::Reverse(participant.fencing_token()));
        holders.into_iter()
    }

    fn sessions(&self, deadlock: &Deadlock) -> Vec<i64> {
        let mut sessions: Vec<_> =
            deadlock.cycle.iter().map(|node| self.graph.entry(*node).session).collect();
        sessions.sort_unstable();
        sessions.dedup();
        sessions
    }

    /// The sessions of a deadlock that wait in several places.
    fn with_tasks(&self, deadlock: &Deadlock) -> Vec<i64> {
        let sessions = self.sessions(deadlock).into_iter();
        sessions.filter(|session| self.graph.waiting_places(*session) > 1).collect()
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/_-.:=@+%,".contains(c);
    let word = printable(word);
    if word.chars().all(is_plain) { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_read_them() {
        assert_eq!(quoted("/locks/a-1"), "/locks/a-1");
        assert_eq!(quoted("/locks/it's; rm"), r"'/locks/it'\''s; rm'");
    }
}
