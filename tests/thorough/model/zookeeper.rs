//! The server: one parent node with its children, sessions, and watches that fire once.

use std::collections::BTreeSet;

use super::queue::name::{Kind, Names};
use super::queue::order::Queued;

pub(crate) type ClientId = usize;

/// What can be watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Path {
    Parent,
    /// The children of the parent.
    Children,
    Child(String),
}

/// What a watch tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Change {
    Deleted,
    Data,
}

/// A watch that has fired.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fired {
    pub(crate) client: ClientId,
    pub(crate) path: Path,
    pub(crate) change: Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    Task { client: ClientId, task: usize },
    Foreigner(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Child {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) owner: Owner,
    /// The transaction that created it.
    pub(crate) czxid: i64,
    /// What orders the queue, as the model sees it: the transaction that created the node, or for a writer that goes on
    /// as a reader the writer's.
    pub(crate) place: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ZooKeeper {
    /// The number of the next child; `None` if there is no parent.
    next_number: Option<i32>,
    /// How many parents there have been before this one.
    pub(crate) parents: u8,
    transactions: i64,
    /// In the order of their creation.
    pub(crate) children: Vec<Child>,
    pub(crate) watches: BTreeSet<(ClientId, Path)>,
    /// What was done in this step, for servers that lag behind.
    pub(crate) done: Vec<Transaction>,
}

/// What every server does in the same order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Transaction {
    MakeParent,
    Reap,
    Create(Child),
    Delete(String),
    Touch(String),
}

impl ZooKeeper {
    /// With a parent that has had children up to a number.
    pub(crate) fn new(next_number: i32) -> Self {
        Self {
            next_number: Some(next_number),
            parents: 0,
            transactions: 0,
            children: Vec::new(),
            watches: BTreeSet::new(),
            done: Vec::new(),
        }
    }

    pub(crate) fn without_parent() -> Self {
        Self { next_number: None, ..Self::new(0) }
    }

    /// Does what another server has done before.
    pub(crate) fn follow(&mut self, transaction: Transaction) -> Vec<Fired> {
        let fired = match transaction {
            Transaction::MakeParent => {
                self.make_parent();
                Vec::new()
            }
            Transaction::Reap => self.reap(),
            Transaction::Create(child) => {
                self.children.push(child);
                Vec::new()
            }
            Transaction::Delete(name) => self.delete(&name),
            Transaction::Touch(name) => self.touch(&name),
        };
        self.done.clear();
        fired
    }

    pub(crate) fn has_parent(&self) -> bool {
        self.next_number.is_some()
    }

    pub(crate) fn make_parent(&mut self) {
        if self.next_number.is_none() {
            self.next_number = Some(0);
            self.done.push(Transaction::MakeParent);
        }
    }

    /// Removes the parent, which is empty.
    pub(crate) fn reap(&mut self) -> Vec<Fired> {
        self.next_number = None;
        self.parents += 1;
        self.done.push(Transaction::Reap);
        self.fire(&Path::Parent, Change::Deleted)
    }

    /// Creates a child with the next number. Answers its name, if there is a parent.
    pub(crate) fn create(&mut self, prefix: &str, kind: Kind, owner: Owner) -> Option<String> {
        let number = self.next_number?;
        // At the end of the numbers it goes on repeating the last.
        self.next_number = Some(number.saturating_add(1));
        self.transactions += 1;
        let czxid = self.transactions;
        let name = format!("{prefix}{number:010}");
        self.add(Child { name: name.clone(), kind, owner, czxid, place: czxid });
        Some(name)
    }

    /// Creates the parent, if it does not exist, and its first child. Answers its name.
    pub(crate) fn create_with_parent(&mut self, prefix: &str, kind: Kind, owner: Owner) -> Option<String> {
        if self.has_parent() {
            return None;
        }
        self.make_parent();
        self.create(prefix, kind, owner)
    }

    /// Creates the reader that a writer goes on as, in the writer's place, if the writer exists.
    pub(crate) fn create_reader(&mut self, name: &str, writer: &str) -> bool {
        let Some(writer) = self.child(writer) else { return false };
        let (owner, place) = (writer.owner, writer.place);
        self.transactions += 1;
        let czxid = self.transactions;
        self.add(Child { name: name.to_owned(), kind: Kind::Shared, owner, czxid, place });
        true
    }

    fn add(&mut self, child: Child) {
        self.done.push(Transaction::Create(child.clone()));
        self.children.push(child);
    }

    pub(crate) fn delete(&mut self, name: &str) -> Vec<Fired> {
        let Some(index) = self.children.iter().position(|child| child.name == name) else {
            return Vec::new();
        };
        self.children.remove(index);
        self.done.push(Transaction::Delete(name.to_owned()));
        self.fire(&Path::Child(name.to_owned()), Change::Deleted)
    }

    /// Deletes all children that satisfy a predicate.
    pub(crate) fn delete_all(&mut self, is_meant: impl Fn(&Child) -> bool) -> Vec<Fired> {
        let meant: Vec<String> =
            self.children.iter().filter(|child| is_meant(child)).map(|child| child.name.clone()).collect();
        meant.iter().flat_map(|name| self.delete(name)).collect()
    }

    /// Changes the data of a child.
    pub(crate) fn touch(&mut self, name: &str) -> Vec<Fired> {
        self.done.push(Transaction::Touch(name.to_owned()));
        self.fire(&Path::Child(name.to_owned()), Change::Data)
    }

    fn fire(&mut self, path: &Path, change: Change) -> Vec<Fired> {
        let watching: Vec<ClientId> =
            self.watches.iter().filter(|(_, watched)| watched == path).map(|(client, _)| *client).collect();
        self.watches.retain(|(_, watched)| watched != path);
        watching.into_iter().map(|client| Fired { client, path: path.clone(), change }).collect()
    }

    /// Tells of what was done to the children in this step.
    pub(crate) fn fire_children(&mut self) -> Vec<Fired> {
        let is_of_children =
            |done: &Transaction| matches!(done, Transaction::Create(_) | Transaction::Delete(_));
        if self.done.iter().any(is_of_children) {
            self.fire(&Path::Children, Change::Data)
        } else {
            Vec::new()
        }
    }

    /// Another task holds by that node.
    pub(crate) fn hand_over(&mut self, name: &str, to: Owner) {
        let child = self.children.iter_mut().find(|child| child.name == name);
        child.into_iter().for_each(|child| child.owner = to);
    }

    pub(crate) fn exists(&self, path: &Path) -> bool {
        match path {
            Path::Parent | Path::Children => self.has_parent(),
            Path::Child(name) => self.child(name).is_some(),
        }
    }

    /// Watches what exists.
    pub(crate) fn watch(&mut self, client: ClientId, path: &Path) -> bool {
        let exists = self.exists(path);
        if exists {
            self.watches.insert((client, path.clone()));
        }
        exists
    }

    pub(crate) fn child(&self, name: &str) -> Option<&Child> {
        self.children.iter().find(|child| child.name == name)
    }

    pub(crate) fn find(&self, prefix: &str) -> Option<&Child> {
        self.children.iter().find(|child| child.name.starts_with(prefix))
    }

    pub(crate) fn list(&self) -> Vec<String> {
        self.children.iter().map(|child| child.name.clone()).collect()
    }

    pub(crate) fn dates(&self, asked: &[Queued]) -> Vec<(Queued, i64)> {
        let date = |queued: &Queued| Some((queued.clone(), self.child(&queued.name)?.czxid));
        asked.iter().filter_map(date).collect()
    }

    /// Whether nobody before that child keeps it from holding. The rule once more, by places instead of names.
    pub(crate) fn is_first(&self, child: &Child) -> bool {
        !self.children.iter().any(|before| before.place < child.place && conflict(before.kind, child.kind))
    }
}

pub(crate) fn conflict(one: Kind, other: Kind) -> bool {
    one != Kind::Shared || other != Kind::Shared
}

/// The number at the end of a name.
pub(crate) fn number(names: &Names, name: &str) -> i32 {
    names.read_any(name).map(|(_, number)| number).expect("children have the names of contenders")
}
