//! The signals that this process gets, with their origin.

use std::io;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{getpid, getsid};
use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::sleep;

use crate::exit::Failure;

/// Those that are forwarded. Not SIGTSTP and its like: this process stops by Ctrl-Z at a terminal along with the command.
const FORWARDED: [i32; 9] = [SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH];

/// Those that ask a process to end.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Servers that answer at all have done so by then.
const MOMENT: Duration = Duration::from_secs(1);

/// A signal that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) number: i32,
    is_from_kernel: bool,
}

impl Received {
    /// Whether the whole process group that the terminal is given to has got it, as what is typed there. The end of the
    /// terminal is told to the leader of the session only, and an alarm to the process that has set it.
    pub(crate) fn is_for_group(self) -> bool {
        let is_leader = || getsid(None).is_ok_and(|session| session == getpid());
        self.is_from_kernel && self.number != SIGALRM && !(self.number == SIGHUP && is_leader())
    }

    /// Its number, if it asks this process to end.
    pub(crate) fn ends(self) -> Option<i32> {
        ENDING.contains(&self.number).then_some(self.number)
    }
}

/// From when this is made on, no signal ends this process.
#[derive(Debug)]
pub(crate) struct Signals {
    received: UnboundedReceiver<Received>,
    has_insisted: bool,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::other(format!("cannot listen to signals: {error}"));
        let ignored = ignored();
        let wanted = FORWARDED.iter().filter(|number| !is_in(ignored, **number));
        // Where this process was started to ignore SIGCHLD, it would not hear how the command ends.
        let wanted: Vec<_> = wanted.chain([&SIGCHLD]).copied().collect();
        let mut signals = SignalsInfo::<WithRawSiginfo>::new(&wanted).map_err(failed)?;
        // This process may have inherited that they are blocked. The threads that it starts, and the command, inherit this.
        let set: SigSet = wanted.iter().filter_map(|number| Signal::try_from(*number).ok()).collect();
        set.thread_unblock().map_err(|error| failed(error.into()))?;
        let (sender, received) = unbounded_channel();
        let listener = move || {
            for signal in signals.forever().filter(|signal| signal.si_signo != SIGCHLD) {
                // On Linux, what processes send has a code of at most zero.
                let signal = Received { number: signal.si_signo, is_from_kernel: signal.si_code > 0 };
                // Nobody listens any more while the process ends.
                let _ = sender.send(signal);
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(listener).map_err(failed)?;
        Ok(Self { received, has_insisted: false })
    }

    pub(crate) async fn next(&mut self) -> Received {
        // The listener lives as long as the process.
        match self.received.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }

    /// Waits for a signal that asks this process to end.
    pub(crate) async fn ending(&mut self) -> i32 {
        loop {
            if let Some(number) = self.next().await.ends() {
                return number;
            }
        }
    }

    /// Does what comes last. Once that has taken a moment, a signal that asks this process to end gives up on it, and on what
    /// follows.
    pub(crate) async fn unless_insisted<T>(&mut self, last: impl Future<Output = T>) -> Option<T> {
        let insisted = async {
            sleep(MOMENT).await;
            if !self.has_insisted {
                self.ending().await;
                self.has_insisted = true;
            }
        };
        tokio::select! {
            biased;
            done = last => Some(done),
            () = insisted => None,
        }
    }

    /// Waits for something before there is a command.
    ///
    /// # Errors
    /// A signal asked this process to end first.
    pub(crate) async fn unless_told_to_end<T>(
        &mut self,
        what: &str,
        future: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            number = self.ending() => {
                let name = signal_hook::low_level::signal_name(number).unwrap_or("a signal");
                Err(Failure::new(code_of(number), format!("{name} ended the wait for {what}; nothing was run")))
            }
            done = future => Ok(done),
        }
    }
}

/// The exit code of a process that a signal has ended, as shells have it.
pub(crate) fn code_of(number: i32) -> u8 {
    u8::try_from(number).map_or(u8::MAX, |number| 128_u8.saturating_add(number))
}

/// The signals that this process was started to ignore, as a mask. They stay ignored, also in the command: `nohup`, and
/// shells for what they run in the background, want it. But what std starts does not ignore SIGPIPE.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(mask: u64, number: i32) -> bool {
    mask >> (number - 1) & 1 == 1
}
