//! The locks below a path, live.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use serde_json::json;
use zk_recipes::Client;

use super::view::View;
use crate::args;
use crate::exit::{ABSENT, Failure};
use crate::ls;
use crate::queue::{identity, printable};
use crate::table::count;
use crate::time;
use crate::tree::{AT_ONCE, Place, Tree};

/// Of how many locks the holder is named. No terminal shows more at once.
const NAMED: usize = 100;

/// What is known from the last look, by nodes. Each is asked for once, since the name of a node never comes again.
#[derive(Debug)]
pub(super) struct Top<'a> {
    args: &'a args::Top,
    /// Since when they exist.
    created: HashMap<String, SystemTime>,
    /// The identities of holders.
    names: HashMap<String, String>,
}

impl<'a> Top<'a> {
    pub(super) fn new(args: &'a args::Top) -> Self {
        Self { args, created: HashMap::new(), names: HashMap::new() }
    }

    pub(super) async fn read(&mut self, client: &Client) -> Result<View, Failure> {
        let (mut tree, exists) = match Tree::read(client, &self.args.path, self.args.limit).await {
            Ok(tree) => (tree, true),
            // It may come yet.
            Err(failure) if failure.code() == ABSENT => (Tree::default(), false),
            Err(failure) => return Err(failure),
        };
        let ends = tree.places.iter().flat_map(|place| [&place.first_holder, &place.first_waiter]).flatten();
        self.date(client, &ends.collect()).await?;
        // By dates, since ages grow while they are compared. The oldest come first, those without a date last.
        tree.places.sort_by_key(|place| {
            let since = |node: &Option<String>| Reverse(self.created(node).map(Reverse));
            (since(&place.first_waiter), since(&place.first_holder))
        });
        self.name_holders(client, &tree.places[..tree.places.len().min(NAMED)]).await?;
        Ok(self.view(&tree, exists))
    }

    async fn date(&mut self, client: &Client, nodes: &HashSet<&String>) -> Result<(), Failure> {
        self.created.retain(|node, _| nodes.contains(node));
        let new: Vec<_> = nodes.iter().filter(|node| !self.created.contains_key(**node)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let zookeeper = client.zookeeper().await?;
        for nodes in new.chunks(AT_ONCE) {
            let stats = join_all(nodes.iter().map(|node| zookeeper.check_stat(node))).await;
            for (node, stat) in nodes.iter().zip(stats) {
                // Without an answer it is asked for again.
                if let Ok(Some(stat)) = stat {
                    let since = UNIX_EPOCH + Duration::from_millis(stat.ctime.unsigned_abs());
                    self.created.insert(node.to_string(), since);
                }
            }
        }
        Ok(())
    }

    fn created(&self, node: &Option<String>) -> Option<SystemTime> {
        self.created.get(node.as_ref()?).copied()
    }

    async fn name_holders(&mut self, client: &Client, places: &[Place]) -> Result<(), Failure> {
        let nodes: HashSet<_> = places.iter().filter_map(|place| place.first_holder.as_ref()).collect();
        self.names.retain(|node, _| nodes.contains(node));
        let is_named = |node: &String| self.names.contains_key(node);
        let unnamed: Vec<_> =
            places.iter().filter(|place| !place.first_holder.as_ref().is_some_and(is_named)).collect();
        for holder in ls::holders(client, &unnamed).await?.into_iter().flatten() {
            self.names.insert(holder.node_path().to_owned(), identity(&holder));
        }
        Ok(())
    }

    fn view(&self, tree: &Tree, exists: bool) -> View {
        let line = |place: &Place| {
            let age = |node| Some(self.created(node)?.elapsed().unwrap_or_default());
            let (waited, held) = (age(&place.first_waiter), age(&place.first_holder));
            (waited, held, place.first_holder.as_ref().and_then(|node| self.names.get(node)))
        };
        let rows = tree.places.iter().map(|place| {
            let (waited, held, name) = line(place);
            let age = |age: Option<Duration>| age.map_or("-".to_owned(), time::age);
            vec![
                printable(&place.path),
                place.recipe.name().to_owned(),
                age(waited),
                age(held),
                place.holders.to_string(),
                place.waiters.to_string(),
                name.cloned().unwrap_or_else(|| "-".into()),
            ]
        });
        let millis = |age: Option<Duration>| age.and_then(|age| u64::try_from(age.as_millis()).ok());
        let locks = tree.places.iter().map(|place| {
            let (waited, held, name) = line(place);
            json!({
                "path": place.path,
                "kind": place.recipe.name(),
                "holders": place.holders,
                "waiters": place.waiters,
                "waited_ms": millis(waited),
                "held_ms": millis(held),
                "holder": name,
            })
        });
        let waiters: usize = tree.places.iter().map(|place| place.waiters).sum();
        let mut left_out = Vec::new();
        if tree.is_truncated {
            left_out.push(format!("all after {} nodes (--limit)", self.args.limit));
        }
        if !tree.unreadable.is_empty() {
            left_out.push(format!("{} without permission", count(tree.unreadable.len(), "node")));
        }
        let mut state: Vec<_> = tree
            .places
            .iter()
            .map(|place| {
                let Place { path, holders, waiters, first_holder, first_waiter, .. } = place;
                format!("{path} {holders} {waiters} {first_holder:?} {first_waiter:?}")
            })
            .collect();
        // Not by age.
        state.sort_unstable();
        state.push(exists.to_string());
        let found = match exists {
            true => format!("{} in use, {}", count(tree.places.len(), "lock"), count(waiters, "waiter")),
            false => "does not exist".into(),
        };
        View {
            title: format!("{}: {found}", printable(&self.args.path)),
            head: &["PATH", "KIND", "WAITED", "HELD", "HOLDERS", "WAITERS", "HOLDER"],
            rows: rows.collect(),
            note: Some(left_out.join(", ")).filter(|left_out| !left_out.is_empty()),
            failure: None,
            json: json!({
                "exists": exists,
                "locks": locks.collect::<Vec<_>>(),
                "unreadable": tree.unreadable,
                "is_truncated": tree.is_truncated,
            }),
            state,
            weight: 1,
        }
    }
}
