//! What is said on the standard error.
//!
//! A thread of its own writes it: where nothing reads, as behind a full pipe or after Ctrl-S, signals and the loss of a lock
//! are heeded all the same.

use std::io::{Write, stderr};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};

use crate::queue::printable;
use crate::table::cut;

/// A reader that reads at all has done so by then.
const MOMENT: Duration = Duration::from_secs(1);

/// How much may wait for a reader. What comes then is left out.
const MOST: usize = 100;

enum Saying {
    Line(String),
    /// Takes the place of the last one.
    Status(String),
    NoStatus,
    /// All before it is written.
    Written(Sender<()>),
}

static SAYINGS: LazyLock<SyncSender<Saying>> = LazyLock::new(|| {
    let (sender, sayings) = sync_channel(MOST);
    // Without a thread nothing is said. That is no reason to let go of a lock.
    let _ = std::thread::Builder::new().name("said".into()).spawn(move || write(&sayings));
    sender
});

/// Writes a line to the standard error, which the command under the lock shares: so it says from whom it is. The message
/// may have text of servers and other clients in it.
pub(crate) fn say(message: &str) {
    let _ = SAYINGS.try_send(Saying::Line(message.to_owned()));
}

/// Waits until all that was said is written, or for a moment.
pub(crate) fn wait_until_written() {
    let (sender, written) = channel();
    let _ = SAYINGS.try_send(Saying::Written(sender));
    let _ = written.recv_timeout(MOMENT);
}

/// A line at the end of the terminal of the standard error. It is wiped before anything else is said, and when this is
/// dropped.
#[derive(Debug, Default)]
pub(crate) struct Status(());

impl Status {
    /// Shows a message in place of the one before.
    pub(crate) fn show(&mut self, message: &str) {
        let _ = SAYINGS.try_send(Saying::Status(message.to_owned()));
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        let _ = SAYINGS.try_send(Saying::NoStatus);
    }
}

fn write(sayings: &Receiver<Saying>) {
    let mut has_status = false;
    for saying in sayings {
        let is_shown = std::mem::take(&mut has_status);
        let wiped = if is_shown { "\r\x1b[K" } else { "" };
        // Not `eprintln`, which panics where the other end is gone.
        let _ = match saying {
            Saying::Line(message) => writeln!(stderr(), "{wiped}zklock: {}", printable(&message)),
            Saying::NoStatus => stderr().write_all(wiped.as_bytes()),
            // In the background, it would appear in what the user types.
            Saying::Status(_) if tcgetpgrp(stderr()).is_ok_and(|foreground| foreground != getpgrp()) => {
                has_status = is_shown;
                Ok(())
            }
            Saying::Status(message) => {
                // A serial line has none.
                let columns = tcgetwinsize(stderr()).map_or(0, |size| usize::from(size.ws_col));
                let columns = if columns == 0 { 80 } else { columns };
                let line = format!("zklock: {}", printable(&message));
                // One row: wide characters are not wrapped, either.
                let row = cut(&line, columns.saturating_sub(2));
                has_status = true;
                write!(stderr(), "{wiped}\x1b[?7l{row}\x1b[?7h")
            }
            Saying::Written(sender) => {
                has_status = is_shown;
                let _ = sender.send(());
                Ok(())
            }
        };
    }
}
