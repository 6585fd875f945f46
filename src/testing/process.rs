//! One JVM under a watchdog, so that it cannot outlive this process.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::{oneshot, watch};

/// How long a drop waits until a killed JVM is gone.
const DROP_PATIENCE: Duration = Duration::from_secs(2);

/// How long a freeze may take, on a busy machine.
const FREEZE_PATIENCE: Duration = Duration::from_secs(5);

/// Arguments: directory, log file, command.
///
/// The guard's `read` ends when the other end of the pipe is closed, which the kernel does however our process
/// ends. The directory is removed here only in that case; otherwise its owner removes it. The guard ignores TERM
/// before it kills, so that the TERM that it gets after the server's end does not hide that the guard ended the
/// server.
const WATCHDOG: &str = r#"
directory=$1 log=$2
shift 2
exec 3<&0 </dev/null
"$@" >"$log" 2>&1 3<&- &
server=$!
(read -r line <&3; trap '' TERM; kill -KILL $server; exit 0) >/dev/null &
guard=$!
exec 3<&-
echo $server
wait $server
status=$?
kill -TERM $guard
wait $guard && rm -rf "$directory"
exit $status
"#;

/// A running JVM. Dropping it kills the JVM.
#[derive(Debug)]
pub(super) struct Process {
    pid: Pid,
    exit: watch::Receiver<Option<ExitStatus>>,
    /// The guard's pipe. Never written to, only held open.
    _lifeline: ChildStdin,
}

impl Process {
    /// Starts `program`, with its output in `log`. `directory` is removed if this process ends without ending the
    /// JVM.
    pub(super) async fn spawn(
        directory: &Path,
        log: &Path,
        program: &Path,
        arguments: &[OsString],
    ) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", WATCHDOG, "zookeeper-watchdog"])
            .arg(directory)
            .arg(log)
            .arg(program)
            .args(arguments);
        // In a group of its own: Ctrl-C in a terminal must reach the tests only, which end the rest.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);

        // A thread rather than tokio's child: it reaps the process whatever happens to the runtime.
        let (send, receive) = oneshot::channel();
        let (exited, exit) = watch::channel(None);
        thread::Builder::new().name("zookeeper-reaper".into()).spawn(move || {
            let mut child = match command.spawn() {
                Ok(child) => child,
                Err(error) => return drop(send.send(Err(error))),
            };
            // If the future was dropped, no one receives this. That closes the lifeline, and the watchdog cleans
            // up.
            drop(send.send(started(&mut child)));
            if let Ok(status) = child.wait() {
                exited.send_replace(Some(status));
            }
        })?;
        let started = receive.await;
        let (pid, lifeline) =
            started.unwrap_or_else(|_| Err(io::Error::other("the thread that starts ZooKeeper panicked")))?;
        Ok(Self { pid, exit, _lifeline: lifeline })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns how the JVM ended, if it has.
    pub(super) fn exit_status(&self) -> Option<ExitStatus> {
        *self.exit.borrow()
    }

    pub(super) fn is_running(&self) -> bool {
        // A closed channel without a status means that the thread could not wait for the process.
        self.exit_status().is_none() && self.exit.has_changed().is_ok()
    }

    /// Has no effect on a JVM that is just ending.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        match kill_process(self.pid, signal) {
            Err(error) if error != Errno::SRCH => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Stops all threads. When a signal has been sent, it has not stopped any thread yet, so the JVM would answer
    /// for a moment longer. That is the behaviour on systems without `/proc`.
    pub(super) fn freeze(&self) -> io::Result<()> {
        self.signal(Signal::STOP)?;
        let limit = Instant::now() + FREEZE_PATIENCE;
        while self.is_running() && !self.is_frozen() {
            if Instant::now() > limit {
                let _ = self.signal(Signal::CONT);
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("the JVM {} did not stop within {FREEZE_PATIENCE:?} of SIGSTOP", self.pid()),
                ));
            }
            thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    fn is_frozen(&self) -> bool {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.pid())) else { return true };
        threads.flatten().all(|thread| {
            // The format is "7 (a name) T …", where R, S and D are not stopped. A thread that has ended meanwhile
            // has no file.
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            !stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with(['R', 'S', 'D']))
        })
    }

    /// Waits until the JVM has ended and has been reaped.
    pub(super) async fn ended(&self) {
        let _ = self.exit.clone().wait_for(Option::is_some).await;
    }
}

/// Returns the process id of the JVM, as the watchdog tells it, and the lifeline. Not a [`Process`], whose drop would wait
/// for the very thread that may drop it.
fn started(child: &mut Child) -> io::Result<(Pid, ChildStdin)> {
    let (Some(lifeline), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("the watchdog was started without pipes"));
    };
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let pid = line.trim().parse().ok().filter(|pid| *pid > 1).and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other(format!("the watchdog told no process id: {line:?}")))?;
    Ok((pid, lifeline))
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.is_running() {
            return;
        }
        let _ = self.signal(Signal::KILL);
        let limit = Instant::now() + DROP_PATIENCE;
        while self.is_running() && Instant::now() < limit {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
