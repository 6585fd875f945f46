//! Where the output goes: lines, and on a terminal colours and one line that is written again in place.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stdout};

/// Colours and the like, by their ANSI codes.
pub(crate) const BOLD: &str = "1";
pub(crate) const DIM: &str = "2";
pub(crate) const RED: &str = "1;31";
pub(crate) const GREEN: &str = "32";
const WORKERS: [&str; 4] = ["36", "35", "33", "94"];

/// Back to the first column, and the line is empty.
const CLEAR: &str = "\r\x1b[K";

#[derive(Debug)]
pub(crate) struct Screen {
    colored: bool,
    live: bool,
    /// The progress line that is shown, if any.
    progress: String,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let live = stdout().is_terminal() && variable("TERM") != "dumb";
        let colored = live && variable("NO_COLOR").is_empty();
        Self { colored, live, progress: String::new() }
    }

    /// Prints a line for good.
    pub(crate) fn line(&mut self, text: impl Display) {
        self.clear();
        write(&format!("{text}\n"));
    }

    /// Shows a line until the next one, on a terminal.
    pub(crate) fn progress(&mut self, text: impl Display) {
        let text = text.to_string();
        if self.live && text != self.progress {
            write(&format!("{CLEAR}{text}"));
            self.progress = text;
        }
    }

    pub(crate) fn paint(&self, style: &str, text: impl Display) -> String {
        if self.colored { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// Something in the colour of a worker; plain for others.
    pub(crate) fn of_worker(&self, worker: &str, text: impl Display) -> String {
        let number = worker.strip_prefix("worker-").and_then(|number| number.parse::<usize>().ok());
        match number {
            Some(number) => self.paint(WORKERS[number % WORKERS.len()], text),
            None => text.to_string(),
        }
    }

    /// The names of workers, each in its colour.
    pub(crate) fn names(&self, workers: &[String]) -> String {
        let names: Vec<_> = workers.iter().map(|worker| self.of_worker(worker, worker)).collect();
        names.join(" ")
    }

    fn clear(&mut self) {
        if !std::mem::take(&mut self.progress).is_empty() {
            write(CLEAR);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear();
    }
}

fn write(text: &str) {
    let mut stdout = stdout().lock();
    // Whoever has closed our output, as `head` does, wants to see no more. The run goes on to its end.
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
