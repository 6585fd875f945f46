//! The queue of a path, whatever recipe it is of.

use std::fmt::Write;

use zk_recipes::shared::SharedCount;
use zk_recipes::{Client, InterProcessMutex, LeaderObserver, Participant, ReadWriteLock, Semaphore};

use crate::connect::{catch_up, children};
use crate::exit::Failure;
use crate::recipe::{self, Recipe, Role};
use crate::table::cut;

/// Who takes part at a path.
#[derive(Debug)]
pub(crate) struct Queue {
    /// As it was given.
    pub(crate) path: String,
    /// Including the namespace.
    full_path: String,
    /// `None` if nobody takes part in anything there.
    pub(crate) recipe: Option<Recipe>,
    /// Holders and waiters, in order.
    pub(crate) participants: Vec<Participant>,
    /// How many children the path has that take no part.
    pub(crate) others: usize,
}

impl Queue {
    /// Reads it.
    ///
    /// # Errors
    /// There is no such path, besides those of every request.
    pub(crate) async fn read(client: &Client, path: &str) -> Result<Self, Failure> {
        match Self::find(client, path).await? {
            Some(queue) => Ok(queue),
            None => Err(absent(InterProcessMutex::new(client, path)?.path())),
        }
    }

    /// Reads it; `None` if there is no such path.
    pub(crate) async fn find(client: &Client, path: &str) -> Result<Option<Self>, Failure> {
        let full_path = InterProcessMutex::new(client, path)?.path().to_owned();
        catch_up(client).await?;
        let Some(children) = children(client, &full_path).await? else { return Ok(None) };
        let recipe = recipe_of(client, &full_path, &children).await?;
        let participants = match recipe {
            None => Vec::new(),
            Some(recipe) => participants(client, path, recipe).await?,
        };
        let others = match recipe {
            Some(Recipe::Semaphore) => 0,
            _ => children.iter().filter(|name| recipe::participant(name).is_none()).count(),
        };
        Ok(Some(Self { path: path.to_owned(), full_path, recipe, participants, others }))
    }

    /// That of a path that does not exist.
    pub(crate) fn none(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            full_path: String::new(),
            recipe: None,
            participants: Vec::new(),
            others: 0,
        }
    }

    /// The path of a participant's node below that of the queue.
    pub(crate) fn name<'a>(&self, participant: &'a Participant) -> &'a str {
        let node = participant.node_path();
        node.strip_prefix(&self.full_path).map_or(node, |name| name.trim_start_matches('/'))
    }
}

/// Finds out what a path is used for. While no one waits for permits, the servers remove the gate of a semaphore; then its
/// leases tell.
pub(crate) async fn recipe_of(
    client: &Client,
    full_path: &str,
    names: &[String],
) -> Result<Option<Recipe>, Failure> {
    let recipe = Recipe::of(names);
    if recipe.is_some() || !names.iter().any(|name| name == "leases") {
        return Ok(recipe);
    }
    let leases = children(client, &format!("{full_path}/leases")).await?.unwrap_or_default();
    let is_lease = |name: &String| matches!(recipe::participant(name), Some((Role::Lease, _)));
    Ok(leases.iter().any(is_lease).then_some(Recipe::Semaphore))
}

/// The most characters of an identity that are shown. Those of this library have fewer, with names as they mostly are.
const LONGEST_IDENTITY: usize = 300;

/// How a participant is called. Who asks for a lock overwrites the name of the holder.
pub(crate) fn identity(participant: &Participant) -> String {
    match &*participant.id() {
        "__REVOKE__" => "(asked to give it back)".into(),
        "" => "-".into(),
        id => printable(&cut(id, LONGEST_IDENTITY)),
    }
}

async fn participants(client: &Client, path: &str, recipe: Recipe) -> Result<Vec<Participant>, Failure> {
    Ok(match recipe {
        Recipe::Mutex => InterProcessMutex::new(client, path)?.participants().await?,
        Recipe::Latch => LeaderObserver::new(client, path)?.participants().await?,
        // How many permits there are matters to those who acquire some, as this client may do at the same path.
        Recipe::Semaphore => {
            let count = SharedCount::new(client, path, 1)?;
            Semaphore::with_shared_count(client, path, &count)?.participants().await?
        }
        Recipe::ReadWrite => {
            let lock = ReadWriteLock::new(client, path)?;
            let mut participants = lock.read().participants().await?;
            participants.extend(lock.write().participants().await?);
            // By what the server counts, and not by when: a writer that goes on as a reader keeps its number.
            participants.sort_by_key(|participant| {
                (!participant.is_holder(), number(participant), participant.fencing_token())
            });
            participants
        }
    })
}

fn number(participant: &Participant) -> u32 {
    recipe::participant(participant.node_path()).map_or(u32::MAX, |(_, number)| number)
}

/// What a participant does.
pub(crate) fn role(participant: &Participant) -> &'static str {
    let name = participant.node_path().rsplit('/').next().unwrap_or_default();
    recipe::participant(name).map_or("unknown", |(role, _)| role.name())
}

/// How far a participant has got.
pub(crate) fn state(participant: &Participant) -> &'static str {
    match (participant.is_holder(), participant.is_lingering()) {
        (true, true) => "lingering",
        (true, false) => "holder",
        (false, _) => "waiting",
    }
}

pub(crate) fn absent(full_path: &str) -> Failure {
    Failure::absent(format!(
        "cannot find {full_path}: it does not exist; check its spelling, --namespace, and the chroot of --connect (the servers remove the path of a lock that has been unused for a while)"
    ))
}

/// Makes text that others wrote fit to print: it must not move the cursor, or look like something else.
pub(crate) fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        let is_plain = c == ' ' || !(c.is_control() || c.is_whitespace() || is_direction(c));
        // Writing to a string does not fail.
        let _ = if is_plain { write!(printable, "{c}") } else { write!(printable, "{}", c.escape_unicode()) };
    }
    printable
}

/// Whether a character changes the direction in which others are shown.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_does_nothing_to_the_terminal() {
        assert_eq!(printable("10.0.0.1 host=web-3 Grüße"), "10.0.0.1 host=web-3 Grüße");
        assert_eq!(printable("\u{1b}[2Ja\nb\u{202e}"), "\\u{1b}[2Ja\\u{a}b\\u{202e}");
    }
}
