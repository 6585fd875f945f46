//! Everything that is traced in this process, at every level, whatever traces it.

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Begins to note what is traced.
pub(crate) fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Notes(AtomicU64::new(1))).unwrap());
}

/// What was traced so far.
pub(crate) fn lines() -> Vec<String> {
    LINES.lock().unwrap().clone()
}

struct Notes(AtomicU64);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

fn note(what: &str, record: impl FnOnce(&mut Line)) {
    let mut line = Line(what.to_owned());
    record(&mut line);
    LINES.lock().unwrap().push(line.0);
}

fn head(metadata: &Metadata<'_>) -> String {
    format!("{} {} {}", metadata.level(), metadata.target(), metadata.name())
}

impl Subscriber for Notes {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        note(&head(span.metadata()), |line| span.record(line));
        Id::from_u64(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        note("span", |line| values.record(line));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        note(&head(event.metadata()), |line| event.record(line));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
