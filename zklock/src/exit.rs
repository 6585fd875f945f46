//! The exit codes, and the failures that have them.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zk_recipes::{Error, report};

use crate::said::say;

/// An outer run holds what an inner one wants.
pub(crate) const HELD_OUTSIDE: u8 = 117;
/// `doctor` found a problem.
pub(crate) const UNHEALTHY: u8 = 118;
/// `deadlocks` found one.
pub(crate) const DEADLOCK: u8 = 119;
/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 120;
/// The servers cannot be reached.
pub(crate) const UNREACHABLE: u8 = 121;
/// The arguments are wrong.
pub(crate) const USAGE: u8 = 122;
/// What was named does not exist.
pub(crate) const ABSENT: u8 = 123;
/// The lock was not free in time. The same as that of `timeout`.
pub(crate) const BUSY: u8 = 124;
/// Anything else.
pub(crate) const OTHER: u8 = 125;
/// The command cannot be executed. The same as that of a shell, as is the next one.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
pub(crate) const NOT_FOUND: u8 = 127;

/// The table of `--help`. The guide has the same one.
pub(crate) const TABLE: &str = "\
Exit codes:
  the command's   it ran, and its lock was held to the end; 128 + n if signal n ended it
  117  an outer zklock holds the lock
  118  doctor found a problem
  119  deadlocks found one
  120  the lock was lost while the command ran; the command was stopped
  121  the servers cannot be reached
  122  wrong arguments
  123  the path or the participant does not exist
  124  busy: the lock was not free within --timeout; or --conflict-exit-code
  125  any other failure, such as a missing permission
  126  the command cannot be executed
  127  the command was not found
  128 + n  signal n ended the wait for the lock, or the display: 130 for SIGINT, 143 for SIGTERM";

/// Why nothing came of it.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    pub(crate) fn other(message: impl Into<String>) -> Self {
        Self::new(OTHER, message)
    }

    pub(crate) fn lost(message: impl Into<String>) -> Self {
        Self::new(LOST, message)
    }

    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self::new(UNREACHABLE, message)
    }

    pub(crate) fn absent(message: impl Into<String>) -> Self {
        Self::new(ABSENT, message)
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// Tells the user.
    pub(crate) fn report(self) -> ExitCode {
        say(&self.message);
        self.code.into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            _ if error.is_retryable() => UNREACHABLE,
            Error::LockLost { .. } => LOST,
            Error::InvalidPath { .. } | Error::InvalidArgument { .. } => USAGE,
            Error::NoSuchPath { .. } => ABSENT,
            _ => OTHER,
        };
        Self::new(code, report(&error).to_string())
    }
}

/// Writes to the standard output.
///
/// # Errors
/// It cannot be written to. That its reader has seen enough, as in `zklock ls | head`, is none.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    try_print(text).map(drop)
}

/// Does the same, and breaks once nobody reads any more. Signals are heeded while the reader pauses.
pub(crate) async fn print_while_read(text: String) -> Result<ControlFlow<()>, Failure> {
    let printed = tokio::task::spawn_blocking(move || try_print(&text)).await;
    printed.map_err(|error| Failure::other(format!("cannot write to the standard output: {error}")))?
}

fn try_print(text: &str) -> Result<ControlFlow<()>, Failure> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(Failure::other(format!("cannot write to the standard output: {error}"))),
    }
}

/// Whether the reader of the standard output is gone, which a pipe or a socket shows without a write.
pub(crate) fn is_unread() -> bool {
    let output = std::io::stdout();
    // Errors and hang-ups are always reported.
    let mut output = [PollFd::new(&output, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut output, Some(&at_once)).is_ok()
        && output[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}
