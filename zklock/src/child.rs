//! The command that runs under a lock.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, kill_process_group, test_kill_process_group, waitpgid,
};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::connect::AUTH;
use crate::exit::{Failure, NOT_EXECUTABLE, NOT_FOUND};
use crate::nested::HELD;
use crate::said::say;
use crate::signals::{Received, Signals, code_of};

/// How often to look whether a process group is empty.
const LOOK: Duration = Duration::from_millis(20);

/// What the command is told about the lock.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    pub(crate) path: &'a str,
    pub(crate) token: i64,
    /// How it and those around it are held: the lines of [`HELD`].
    pub(crate) held: String,
}

/// A running command.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    pid: Pid,
    has_own_group: bool,
}

/// How it went.
#[derive(Debug)]
pub(crate) struct Ended<R> {
    pub(crate) status: ExitStatus,
    /// What was reported while it ran, and was the reason to stop it.
    pub(crate) stopped: Option<R>,
    /// The signal that asked this process to end while the command was stopped, or so shortly before that the command may
    /// have been ending by it.
    pub(crate) told_to_end: Option<i32>,
}

impl Running {
    /// Starts a command.
    pub(crate) fn start(command: &[OsString], held: &Held<'_>) -> Result<Self, Failure> {
        let (program, arguments) =
            command.split_first().ok_or_else(|| Failure::usage("which command? Give one after --"))?;
        let has_own_group = !has_terminal();
        let mut command = Command::new(program);
        command.args(arguments).env("ZKLOCK_PATH", held.path).env("ZKLOCK_TOKEN", held.token.to_string());
        command.env(HELD, &held.held);
        // It is this program's.
        command.env_remove(AUTH);
        if has_own_group {
            command.process_group(0);
        }
        let child = command.spawn().map_err(|error| {
            let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
            Failure::new(code, format!("cannot run {}: {error}", program.display()))
        })?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let pid = pid.ok_or_else(|| Failure::other("cannot tell the process id of the command"))?;
        Ok(Self { child, pid, has_own_group })
    }

    /// Waits until it ends, and forwards signals to it meanwhile. Stops it when `stop` reports a reason to, and kills what
    /// is left of it after the grace.
    pub(crate) async fn supervise<R>(
        mut self,
        signals: &mut Signals,
        stop: impl Future<Output = R>,
        grace: Duration,
        announce: impl Fn(&R),
    ) -> Result<Ended<R>, Failure> {
        let mut stop = pin!(stop);
        // When it was told to end, and why.
        let mut stopped: Option<(Instant, R)> = None;
        let mut is_killed = false;
        // The last signal that asked this process to end.
        let mut last = None;
        let status = loop {
            let deadline = stopped.as_ref().and_then(|(at, _)| at.checked_add(grace)).filter(|_| !is_killed);
            tokio::select! {
                biased;
                status = self.child.wait() => break status.map_err(cannot_wait)?,
                reason = &mut stop, if stopped.is_none() => {
                    self.send(Signal::TERM);
                    // One that is stopped gets nothing else before.
                    self.send(Signal::CONT);
                    announce(&reason);
                    stopped = Some((Instant::now(), reason));
                }
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    say(&format!("the command has not ended within {grace:?} of SIGTERM: SIGKILL"));
                    self.send(Signal::KILL);
                    is_killed = true;
                }
                signal = signals.next() => {
                    self.forward(signal);
                    last = signal.ends().map(|number| (number, Instant::now())).or(last);
                }
            }
        };
        let Some((at, reason)) = stopped else {
            return Ok(Ended { status, stopped: None, told_to_end: None });
        };
        if !is_killed {
            self.kill_rest(at.checked_add(grace)).await;
        }
        let is_recent = |told: &Instant| told.checked_add(grace).is_none_or(|until| until > at);
        let told_to_end = last.filter(|(_, told)| is_recent(told)).map(|(number, _)| number);
        Ok(Ended { status, stopped: Some(reason), told_to_end })
    }

    /// Waits until all processes of its group have ended, and kills them after the deadline.
    async fn kill_rest(&self, deadline: Option<Instant>) {
        if !self.has_own_group {
            return;
        }
        let empty = async {
            while test_kill_process_group(self.pid).is_ok() {
                // The first process of a container inherits what the command has left behind.
                while let Ok(Some(_)) = waitpgid(self.pid, WaitOptions::NOHANG) {}
                sleep(LOOK).await;
            }
        };
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if timeout(left.unwrap_or(Duration::MAX), empty).await.is_err() {
            say("the command has ended, but not all that it started: SIGKILL");
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
    }

    fn forward(&self, signal: Received) {
        // The terminal has sent it to the command as well.
        if signal.is_for_group() && !self.has_own_group {
            return;
        }
        if let Some(signal) = Signal::from_named_raw(signal.number) {
            self.send(signal);
        }
    }

    fn send(&self, signal: Signal) {
        // Otherwise its id may be that of another process.
        if self.child.id().is_none() {
            return;
        }
        let sent = match self.has_own_group {
            true => kill_process_group(self.pid, signal),
            false => kill_process(self.pid, signal),
        };
        match sent {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => say(&format!("cannot send a signal to the command: {error}")),
        }
    }
}

/// The exit code that stands for the end of a command.
pub(crate) fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, signal) => code_of(signal.unwrap_or_default()),
    }
}

fn cannot_wait(error: io::Error) -> Failure {
    Failure::other(format!("cannot wait for the command: {error}"))
}

/// Whether this process has a controlling terminal, which a process group of its own would keep the command from.
fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}
