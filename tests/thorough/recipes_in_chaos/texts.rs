//! Texts to which all append their names. A text that is long enough is followed by the next one.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::timeout;
use zk_recipes::shared::SharedValue;
use zk_recipes::{Client, Error};

use crate::peer::Actor;
use crate::run::Run;
use crate::stage::{Library, Participant};
use crate::trouble::pause;

const PATIENCE: Duration = Duration::from_secs(20);

/// How many bytes of text are enough.
const ENOUGH: usize = 1024;

/// A try to append something that nobody else appends.
#[derive(Clone, Debug)]
pub(crate) struct Append {
    pub(crate) text: usize,
    pub(crate) id: String,
    pub(crate) library: Library,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Unknown,
    Refused,
}

/// All texts, and what was done to them.
#[derive(Debug)]
pub(crate) struct Texts {
    root: String,
    current: AtomicUsize,
    ids: AtomicUsize,
    pub(crate) appends: Mutex<Vec<Append>>,
}

impl Texts {
    pub(crate) fn below(root: &str) -> Arc<Self> {
        let (current, ids) = Default::default();
        Arc::new(Self { root: root.to_owned(), current, ids, appends: Mutex::default() })
    }

    pub(crate) fn path(&self, text: usize) -> String {
        format!("{}/texts/{text}", self.root)
    }

    pub(crate) fn count(&self) -> usize {
        self.current.load(SeqCst) + 1
    }

    fn next_id(&self) -> String {
        format!("{}", self.ids.fetch_add(1, SeqCst))
    }

    fn record(&self, append: Append, length: usize, name: &Arc<str>, run: &Run) {
        if length >= ENOUGH {
            // Whoever comes first.
            let _ = self.current.compare_exchange(append.text, append.text + 1, SeqCst, SeqCst);
        }
        if append.outcome == Outcome::Done {
            run.succeeded(name);
        }
        self.appends.lock().unwrap().push(append);
    }

    /// What one of our clients does.
    pub(crate) async fn append(self: Arc<Self>, client: Client, name: Arc<str>, run: Arc<Run>) {
        while !run.is_over() {
            let (text, id) = (self.current.load(SeqCst), self.next_id());
            let value = SharedValue::new(&client, &self.path(text), "").unwrap().with_timeout(PATIENCE);
            let append = value.update(|old| [old, id.as_bytes(), b","].concat());
            let appended = if fastrand::u8(..8) == 0 {
                timeout(Duration::from_millis(fastrand::u64(..20)), append).await
            } else {
                Ok(run.within(&name, append).await)
            };
            let (outcome, length) = match appended {
                Ok(Ok(now)) => (Outcome::Done, now.value().len()),
                Ok(Err(Error::WriteOutcomeUnknown { .. })) | Err(_) => (Outcome::Unknown, 0),
                Ok(Err(Error::Contended { .. })) => (Outcome::Refused, 0),
                Ok(Err(error)) => panic!("{name}: {error}"),
            };
            self.record(Append { text, id, library: Library::Ours, outcome }, length, &name, &run);
            pause(0..20).await;
        }
    }

    pub(crate) async fn actor(&self, peer: &Participant, name: &str) -> Actor {
        let peer = peer.peer.as_ref().expect("it is a peer");
        peer.open(name, &format!("value {} seed=", self.path(0))).await
    }

    /// What an actor of a peer does. If it is refused, it may have been done: Curator repeats a write whose reply was lost.
    pub(crate) async fn append_theirs(self: Arc<Self>, mut actor: Actor, name: Arc<str>, run: Arc<Run>) {
        let mut opened = 0;
        while !run.is_over() {
            let text = self.current.load(SeqCst);
            if text != opened {
                match actor.try_call(&format!("open value {} seed=", self.path(text))).await {
                    Ok(_) => opened = text,
                    Err(_) => continue,
                }
            }
            let id = self.next_id();
            // A text that is empty would be no word.
            let seen = actor.try_call("get").await.unwrap_or_default();
            if seen.is_empty() {
                pause(1..20).await;
                continue;
            }
            let exchanged = actor.try_call(&format!("exchange {seen} {seen}{id},")).await;
            let outcome = match exchanged.as_deref() {
                Ok("true") => Outcome::Done,
                _ => Outcome::Unknown,
            };
            self.record(Append { text, id, library: Library::Curator, outcome }, seen.len(), &name, &run);
            pause(0..20).await;
        }
    }
}
