//! Finds the cycles of a wait-for graph. No I/O, no clock.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem::take;

use super::graph::{Graph, Waits};

/// From how many holders of a deadlock the shortest cycle is looked for.
const TRIES: usize = 64;

/// Sessions that wait for one another, and for nothing that could still go on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Deadlock {
    /// A cycle: each of these nodes waits for the next one, and the last for the first.
    pub(crate) cycle: Vec<usize>,
    /// All nodes that cannot go on until the deadlock is broken, those of the cycle included.
    pub(crate) stuck: usize,
}

/// Finds all deadlocks between sessions. One is only reported if several sessions hold something in it: a session that
/// holds and waits for itself has several tasks, which are independent.
pub(crate) fn deadlocks(graph: &Graph<'_>) -> Vec<Deadlock> {
    let mut stuck = Stuck::new(graph);
    let mut groups;
    loop {
        groups = stuck.groups();
        // As the tasks of its holder are independent, such a group goes on.
        let selfish: Vec<usize> =
            groups.iter().filter(|group| stuck.is_selfish(group)).flatten().copied().collect();
        if selfish.is_empty() {
            break;
        }
        for node in selfish.into_iter().filter(|node| graph.entry(*node).is_holder) {
            stuck.free(node);
        }
    }
    let deadlocked: Vec<_> = groups.into_iter().filter(|group| stuck.has_several_holders(group)).collect();
    deadlocked
        .iter()
        .map(|group| Deadlock { cycle: stuck.cycle(group), stuck: stuck.behind(group).len() })
        .collect()
}

/// The nodes that cannot go on.
struct Stuck<'g, 'a> {
    graph: &'g Graph<'a>,
    is_free: Vec<bool>,
    /// Who waits for each node.
    waiters: Vec<Vec<usize>>,
    /// How many of those that it waits for must still go on before each node can.
    missing: Vec<usize>,
}

impl<'g, 'a> Stuck<'g, 'a> {
    fn new(graph: &'g Graph<'a>) -> Self {
        let mut waiters = vec![Vec::new(); graph.len()];
        let mut missing = Vec::with_capacity(graph.len());
        for node in 0..graph.len() {
            let Waits { nodes, is_one_enough } = graph.waits(node);
            for blocker in nodes {
                waiters[*blocker].push(node);
            }
            missing.push(if *is_one_enough { nodes.len().min(1) } else { nodes.len() });
        }
        let mut stuck = Self { graph, is_free: vec![false; graph.len()], waiters, missing };
        for node in 0..graph.len() {
            if stuck.missing[node] == 0 {
                stuck.free(node);
            }
        }
        stuck
    }

    /// Frees a node, and all that only waited for what is free.
    fn free(&mut self, node: usize) {
        let mut ahead = vec![node];
        while let Some(node) = ahead.pop() {
            if std::mem::replace(&mut self.is_free[node], true) {
                continue;
            }
            for waiter in &self.waiters[node] {
                self.missing[*waiter] = self.missing[*waiter].saturating_sub(1);
                if self.missing[*waiter] == 0 {
                    ahead.push(*waiter);
                }
            }
        }
    }

    /// What a node waits for that cannot go on.
    fn blockers(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        self.graph.waits(node).nodes.iter().copied().filter(|blocker| !self.is_free[*blocker])
    }

    /// The groups of nodes that all wait for one another: the strongly connected components that have a cycle, by
    /// Kosaraju's algorithm, without recursion since queues are long.
    fn groups(&self) -> Vec<Vec<usize>> {
        let mut is_ahead: Vec<bool> = self.is_free.iter().map(|is_free| !is_free).collect();
        // Each node behind all that is reached from it, but for what also leads to it.
        let mut order = Vec::new();
        for root in 0..self.graph.len() {
            let mut path = Vec::new();
            if take(&mut is_ahead[root]) {
                path.push((root, self.blockers(root)));
            }
            while let Some((node, blockers)) = path.last_mut() {
                match blockers.find(|blocker| take(&mut is_ahead[*blocker])) {
                    Some(blocker) => path.push((blocker, self.blockers(blocker))),
                    None => {
                        order.push(*node);
                        path.pop();
                    }
                }
            }
        }
        let mut is_left: Vec<bool> = self.is_free.iter().map(|is_free| !is_free).collect();
        let groups = order.into_iter().rev().map(|root| {
            let mut group = Vec::new();
            let mut ahead = Vec::from_iter(take(&mut is_left[root]).then_some(root));
            while let Some(node) = ahead.pop() {
                group.push(node);
                ahead.extend(self.waiters[node].iter().filter(|waiter| take(&mut is_left[**waiter])));
            }
            group
        });
        // No node waits for itself.
        groups.filter(|group| group.len() > 1).collect()
    }

    /// Whether several sessions hold something in a group. Others may wait in it without being at fault.
    fn has_several_holders(&self, group: &[usize]) -> bool {
        let holders = group.iter().map(|node| self.graph.entry(*node)).filter(|entry| entry.is_holder);
        let mut sessions = holders.map(|holder| holder.session);
        let first = sessions.next();
        sessions.any(|session| Some(session) != first)
    }

    /// Whether one session alone holds in a group that waits for nobody outside.
    fn is_selfish(&self, group: &[usize]) -> bool {
        let members: HashSet<_> = group.iter().copied().collect();
        !self.has_several_holders(group)
            && group.iter().all(|node| self.blockers(*node).all(|blocker| members.contains(&blocker)))
    }

    /// A short cycle of several holders in a group that has several: from one of them to the next one of another session,
    /// and back.
    fn cycle(&self, group: &[usize]) -> Vec<usize> {
        let members: HashSet<_> = group.iter().copied().collect();
        let mut holders: Vec<_> =
            group.iter().copied().filter(|node| self.graph.entry(*node).is_holder).collect();
        holders.sort_unstable();
        let cycles = holders.into_iter().take(TRIES).filter_map(|holder| {
            let session = self.graph.entry(holder).session;
            let is_other = |node: usize| {
                let entry = self.graph.entry(node);
                entry.is_holder && entry.session != session
            };
            let mut cycle = self.path(holder, is_other, &members)?;
            let other = cycle.pop()?;
            let mut back = self.path(other, |node| node == holder, &members)?;
            back.pop();
            cycle.extend(back);
            Some(cycle)
        });
        cycles.min_by_key(Vec::len).unwrap_or_default()
    }

    /// The shortest path from one node to another one inside a group.
    fn path(
        &self,
        from: usize,
        is_end: impl Fn(usize) -> bool,
        members: &HashSet<usize>,
    ) -> Option<Vec<usize>> {
        let mut reached_from = HashMap::from([(from, from)]);
        let mut ahead = VecDeque::from([from]);
        while let Some(node) = ahead.pop_front() {
            if is_end(node) {
                let mut path = vec![node];
                while path.last() != Some(&from) {
                    path.push(reached_from[path.last()?]);
                }
                path.reverse();
                return Some(path);
            }
            for blocker in self.blockers(node).filter(|blocker| members.contains(blocker)) {
                reached_from.entry(blocker).or_insert_with(|| {
                    ahead.push_back(blocker);
                    node
                });
            }
        }
        None
    }

    /// All that wait for a group, and the group.
    fn behind(&self, group: &[usize]) -> HashSet<usize> {
        let mut found: HashSet<_> = group.iter().copied().collect();
        let mut ahead = group.to_vec();
        while let Some(node) = ahead.pop() {
            let waiters = self.waiters[node].iter().filter(|waiter| !self.is_free[**waiter]);
            ahead.extend(waiters.filter(|waiter| found.insert(**waiter)));
        }
        found
    }
}

#[cfg(test)]
mod tests;
