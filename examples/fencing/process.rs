//! The process of a worker, seen from its parent.

use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::Result;

/// A process that does not outlive this.
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub(crate) fn start(name: &'static str, lock: &str, store: &Path) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["worker", name, lock]).arg(store);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // Should we be killed, one who is stopped does not see its standard input end. But the kernel hangs up
        // a stopped process whose group has lost its parent, if that group is its own.
        command.process_group(0);
        let mut child = command.spawn()?;
        let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).ok_or("there are no pipes")?;
        Ok(Self { name, child, stdin, lines: BufReader::new(stdout).lines() })
    }

    /// The next line from the worker, which is to begin so. It is printed.
    pub(crate) async fn tells(&mut self, beginning: &str) -> Result<String> {
        let name = self.name;
        let line = self.lines.next_line().await?.ok_or_else(|| format!("{name} has ended too early"))?;
        println!("{name} {line}");
        if !line.starts_with(beginning) {
            return Err(format!("{name} was to say that it {beginning}").into());
        }
        Ok(line)
    }

    /// Lets the worker go on: to take the lock, and then to write for the second time.
    pub(crate) async fn go_on(&mut self) -> Result<()> {
        let told = self.stdin.write_all(b"go on\n").await;
        told.map_err(|error| format!("{} cannot be told to go on: {error}", self.name).into())
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        Ok(kill_process(id.ok_or("it has ended")?, signal)?)
    }

    /// Waits for the end, which is to be a good one.
    pub(crate) async fn ends(&mut self) -> Result<()> {
        let status = self.child.wait().await?;
        if status.success() { Ok(()) } else { Err(format!("{} failed, {status}", self.name).into()) }
    }

    /// Kills the process, if it is still there. It is gone when this returns.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        // Who was waited for has no id any more.
        if self.child.id().is_some() {
            self.child.kill().await?;
        }
        Ok(())
    }
}
