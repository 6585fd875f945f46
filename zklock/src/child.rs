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

    /// Waits until it ends, and forwards signals to it meanwhile. Stops it when `stop` reports a reason to.
    pub(crate) async fn supervise<R>(
        mut self,
        signals: &mut Signals,
        stop: impl Future<Output = R>,
        grace: Duration,
        announce: impl FnOnce(&R),
    ) -> Result<Ended<R>, Failure> {
        let mut stop = pin!(stop);
        let mut last = None;
        let reason = loop {
            tokio::select! {
                biased;
                status = self.child.wait() => {
                    return Ok(Ended { status: status.map_err(cannot_wait)?, stopped: None, told_to_end: None });
                }
                reason = &mut stop => break reason,
                signal = signals.next() => {
                    self.forward(signal);
                    last = signal.ends().map(|number| (number, Instant::now())).or(last);
                }
            }
        };
        self.send(Signal::TERM);
        // One that is stopped gets nothing else before.
        self.send(Signal::CONT);
        announce(&reason);
        let mut told_to_end = last.filter(|(_, at)| at.elapsed() < grace).map(|(number, _)| number);
        let status = self.stopped(signals, grace, &mut told_to_end).await?;
        Ok(Ended { status, stopped: Some(reason), told_to_end })
    }

    /// Waits until it ends that has been asked to, and makes it after the grace.
    async fn stopped(
        &mut self,
        signals: &mut Signals,
        grace: Duration,
        told_to_end: &mut Option<i32>,
    ) -> Result<ExitStatus, Failure> {
        let deadline = Instant::now().checked_add(grace);
        let mut over = pin!(async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        });
        let mut is_killed = false;
        let status = loop {
            tokio::select! {
                biased;
                status = self.child.wait() => break status.map_err(cannot_wait)?,
                () = &mut over, if !is_killed => {
                    say(&format!("the command has not ended within {grace:?} of SIGTERM: SIGKILL"));
                    self.send(Signal::KILL);
                    is_killed = true;
                }
                signal = signals.next() => {
                    self.forward(signal);
                    *told_to_end = signal.ends().or(*told_to_end);
                }
            }
        };
        if self.has_own_group && !is_killed {
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
        Ok(status)
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
