//! The children of a lock path, whatever they are called: who is in the queue, in which order, and who holds.

use std::collections::BTreeSet;

use arbitrary::Arbitrary;

use crate::model::queue::name::{ANY_LOCK, Kind, LATCH, LEASES, MUTEX, Names, READ_WRITE};
use crate::model::queue::order::{Contenders, Queued, in_order_of_creation};
use crate::model::queue::rule::{Verdict, verdict};

/// A child of the path, and by which transaction it was created.
#[derive(Arbitrary, Debug)]
pub struct Child {
    name: Name,
    created: i64,
}

#[derive(Arbitrary, Debug)]
enum Name {
    Any(String),
    /// Of our making, or of somebody who imitates it.
    Contender { prefix: String, marker: u8, number: i32 },
    /// Near the number where numbers end.
    Last { prefix: String, marker: u8, before: u8 },
}

#[derive(Arbitrary, Debug)]
pub struct Queue {
    recipe: u8,
    children: Vec<Child>,
    rotation: u8,
}

const MARKERS: [&str; 11] = [
    "-lock-", "lock-", "__lock__", "-latch-", "latch-", "__WRIT__", "__READ__", "__rlock__", "-lease-", "lease-", "-",
];

impl Name {
    fn text(&self) -> String {
        let marker = |marker: u8| MARKERS[usize::from(marker) % MARKERS.len()];
        match self {
            Self::Any(text) => text.clone(),
            Self::Contender { prefix, marker: which, number } => format!("{prefix}{}{number:010}", marker(*which)),
            Self::Last { prefix, marker: which, before } => {
                format!("{prefix}{}{:010}", marker(*which), i32::MAX - i32::from(*before))
            }
        }
    }
}

/// # Panics
/// If a name is read in two ways, an order depends on that of the list, or two hold who exclude each other.
pub fn check(queue: &Queue) {
    let names = [&MUTEX, &LATCH, &READ_WRITE, &LEASES, &ANY_LOCK][usize::from(queue.recipe) % 5];
    let mut seen = BTreeSet::new();
    let mut children: Vec<(String, i64)> =
        queue.children.iter().map(|child| (child.name.text(), child.created)).collect();
    children.retain(|(name, _)| seen.insert(name.clone()));
    for (name, _) in &children {
        check_reading(names, name);
    }
    let order = in_order(names, &children);
    check_rule(&order);
    let at = usize::from(queue.rotation) % children.len().max(1);
    children.rotate_left(at);
    children.reverse();
    assert_eq!(order, in_order(names, &children), "the order depends on that of the list");
}

fn check_reading(names: &Names, name: &str) {
    let Some((kind, sequence)) = names.read(name) else { return };
    // A server has written the number.
    let rest = name.strip_suffix(&format!("{sequence:010}")).expect("it ends in its number");
    let marker = MARKERS.iter().find(|marker| **marker != "-" && rest.ends_with(**marker));
    let marker = marker.unwrap_or_else(|| panic!("{name:?} has no marker before {sequence}"));
    assert_eq!(kind == Kind::Shared, ["__READ__", "__rlock__", "-lease-", "lease-"].contains(marker));
}

fn in_order(names: &Names, children: &[(String, i64)]) -> Vec<Queued> {
    let listed: Vec<String> = children.iter().map(|(name, _)| name.clone()).collect();
    let mut strangers = 0;
    let contenders = Contenders::among(listed, names, |_| strangers += 1);
    let count = contenders.len();
    assert_eq!(count + strangers, children.len());
    let order = contenders.in_order().unwrap_or_else(|undated| {
        let created = |queued: &Queued| children.iter().find(|(name, _)| *name == queued.name).unwrap().1;
        in_order_of_creation(undated.into_iter().map(|queued| (created(&queued), queued)).map(swap).collect())
    });
    assert_eq!(order.len(), count, "somebody is lost, or twice in the queue");
    order
}

fn swap<A, B>((a, b): (A, B)) -> (B, A) {
    (b, a)
}

fn check_rule(queue: &[Queued]) {
    let granted: Vec<&Queued> = (0..queue.len())
        .filter(|place| match verdict(queue, *place) {
            Verdict::Granted => true,
            Verdict::BlockedBy(before) => {
                assert!(before < *place, "it waits for one behind it");
                false
            }
        })
        .map(|place| &queue[place])
        .collect();
    assert_eq!(granted.is_empty(), queue.is_empty(), "nobody holds");
    // A writer may read: by a node of its own number.
    let is_the_reader = |writer: &Queued, other: &Queued| other.kind == Kind::Shared && other.sequence == writer.sequence;
    let writers = granted.iter().filter(|granted| granted.kind != Kind::Shared);
    for writer in writers {
        let stand_beside = granted.iter().filter(|other| other.name != writer.name);
        for other in stand_beside {
            assert!(is_the_reader(writer, other), "two hold: {granted:?}");
        }
    }
}
