//! Several ensembles, of which each path belongs to one.

use std::collections::HashSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// Several ensembles that share the locks among them: each path belongs to one of them.
///
/// One ensemble carries out some ten thousand writes a second, however many servers it has. Where that is not enough,
/// [the guide](crate::guide::scale) leads here.
///
/// The ensemble of a path is found by rendezvous hashing, from nothing but the path and the names of the ensembles. If an
/// ensemble is added, only the paths that it gets change their place; if one is removed, only those that it had.
///
/// **All programs must have the same ensembles under the same names at any one time.** Two programs that place a path
/// differently both get its lock. [The guide](crate::guide::scale#changing-the-ensembles) says how to change them.
///
/// The type works with any client, also those of `zk_recipes::blocking`.
///
/// ```no_run
/// use zk_recipes::{Client, Ensembles, InterProcessMutex};
///
/// # async fn example() -> zk_recipes::Result<()> {
/// let ensembles = Ensembles::new([
///     ("blue", Client::connect("blue1:2181,blue2:2181,blue3:2181").await?),
///     ("green", Client::connect("green1:2181,green2:2181,green3:2181").await?),
/// ])?;
/// let path = "/orders/17";
/// let guard = InterProcessMutex::new(ensembles.of(path), path)?.acquire().await?;
/// # guard.release().await
/// # }
/// ```
///
/// A client written in another language finds the same ensemble in this way: for each ensemble, take the SHA-256 of the
/// path, one zero byte and the name, in UTF-8. The path belongs to the ensemble with the greatest hash, compared byte by
/// byte.
pub struct Ensembles<C> {
    // There is always a first one, which is the only thing that is special about it.
    first: Arc<Member<C>>,
    others: Arc<[Member<C>]>,
}

debug_by!(<C> Ensembles<C>, |it| names: it.iter().map(|(name, _)| name).collect::<Vec<_>>());

#[derive(Debug)]
struct Member<C> {
    name: Box<str>,
    client: C,
}

impl<C> Clone for Ensembles<C> {
    fn clone(&self) -> Self {
        Self { first: self.first.clone(), others: self.others.clone() }
    }
}

impl<C> Ensembles<C> {
    /// Takes the name of each ensemble, and a client of it. Their order does not matter.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`]: there is no ensemble, or two have the same name.
    pub fn new<N: Into<Box<str>>>(clients: impl IntoIterator<Item = (N, C)>) -> Result<Self> {
        let refuse = |reason| Error::InvalidArgument { argument: "clients", reason };
        let mut members = clients.into_iter().map(|(name, client)| Member { name: name.into(), client });
        let first = members.next().ok_or_else(|| refuse("there must be at least one ensemble".to_owned()))?;
        let ensembles = Self { first: Arc::new(first), others: members.collect() };
        let mut names = HashSet::new();
        let twice = ensembles.iter().map(|(name, _)| name).find(|name| !names.insert(*name));
        if let Some(name) = twice {
            return Err(refuse(format!("two ensembles are called {name:?}; give each its own name")));
        }
        Ok(ensembles)
    }

    /// Returns the client of the ensemble that this path belongs to. Makes no request.
    ///
    /// Give it the path exactly as you give it to the lock: the namespace of a client is not part of it. A
    /// [`MultiLock::new`](crate::MultiLock::new) needs one client for all its paths: choose it by one of them, and
    /// take these locks nowhere else.
    pub fn of(&self, path: &str) -> &C {
        &self.member_of(path).client
    }

    /// Returns the name of the ensemble that this path belongs to.
    pub fn name_of(&self, path: &str) -> &str {
        &self.member_of(path).name
    }

    fn member_of(&self, path: &str) -> &Member<C> {
        let weigh = |member| (weight(path, member), member);
        let heavier = |one: (_, _), other: (_, _)| if other.0 > one.0 { other } else { one };
        self.others.iter().map(weigh).fold(weigh(&self.first), heavier).1
    }

    /// Returns the name and the client of each ensemble, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &C)> {
        let members = std::iter::once(&*self.first).chain(&*self.others);
        members.map(|member| (&*member.name, &member.client))
    }
}

fn weight<C>(path: &str, member: &Member<C>) -> impl Ord + use<C> {
    // No path contains a zero byte, so different paths and names are hashed as different texts.
    Sha256::new().chain_update(path).chain_update([0]).chain_update(&*member.name).finalize()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const NAMES: [&str; 4] = ["blue", "green", "red", "white"];

    fn of(names: &[&'static str]) -> Ensembles<()> {
        Ensembles::new(names.iter().map(|name| (*name, ()))).unwrap()
    }

    fn paths() -> impl Iterator<Item = String> {
        (0..10_000).map(|number| format!("/orders/{number}"))
    }

    #[test]
    fn each_ensemble_gets_its_share() {
        let ensembles = of(&NAMES);
        let mut shares = HashMap::<_, u32>::new();
        for path in paths() {
            *shares.entry(ensembles.name_of(&path)).or_default() += 1;
        }
        assert!(NAMES.iter().all(|name| (2300..2700).contains(&shares[name])), "{shares:?}");
    }

    #[test]
    fn only_the_paths_of_the_ensemble_that_comes_or_goes_change_their_place() {
        let (with, without) = (of(&NAMES), of(&NAMES[..3]));
        for path in paths().filter(|path| with.name_of(path) != NAMES[3]) {
            assert_eq!(with.name_of(&path), without.name_of(&path), "{path}");
        }
    }

    #[test]
    fn the_order_of_the_ensembles_does_not_matter() {
        let (one, other) = (of(&NAMES), of(&["white", "green", "blue", "red"]));
        assert!(paths().all(|path| one.name_of(&path) == other.name_of(&path)));
    }

    /// These places must never change: programs of other versions and languages rely on them.
    #[test]
    fn the_places_are_as_documented() {
        let places = [
            ("/orders/17", "blue"),
            ("/orders/18", "red"),
            ("/locks/a", "blue"),
            ("/", "white"),
            ("/ü", "blue"),
        ];
        for (path, name) in places {
            assert_eq!(of(&NAMES).name_of(path), name, "{path}");
        }
    }

    #[test]
    fn none_and_twice_the_same_are_refused() {
        let refused = |names: &[&str]| {
            let error = Ensembles::new(names.iter().map(|name| (*name, ()))).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument { argument: "clients", .. }));
            error.to_string()
        };
        assert!(refused(&[]).contains("at least one"));
        assert!(refused(&["blue", "green", "blue"]).contains("\"blue\""));
        assert_eq!(of(&NAMES).iter().map(|(name, _)| name).collect::<Vec<_>>(), NAMES);
    }
}
