//! The worker processes, seen from their parent.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::network::{self, Cable, Network};
use crate::{Result, worker};

/// Worker processes, none of which outlives this.
pub(crate) struct Crew {
    network: Network,
    /// How many there have been, each with another number.
    hired: u8,
    workers: Vec<Worker>,
}

pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) cable: Cable,
    /// The timeout of its first session.
    pub(crate) session: Duration,
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Crew {
    pub(crate) fn new(network: Network) -> Self {
        Self { network, hired: 0, workers: Vec::new() }
    }

    /// Starts a worker, whose name is the next letter, and waits until it has a session.
    pub(crate) async fn hire(&mut self, root: &str, record: &Path) -> Result<&Worker> {
        self.hired += 1;
        let name = char::from(b'A' + self.hired - 1).to_string();
        let mut command = self.network.command()?;
        command.args(["worker", &name, root]).arg(record);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // Should we be killed, one who is stopped does not see its standard input end. But the kernel hangs up
        // a stopped process whose group has lost its parent, if that group is its own.
        command.process_group(0);
        let mut child = command.spawn()?;
        let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).ok_or("there are no pipes")?;
        let mut stdout = BufReader::new(stdout).lines();
        let too_early = || format!("{name} has ended too early");
        // Now it is in the namespace that it was started for.
        stdout.next_line().await?.ok_or_else(too_early)?;
        let process = child.id().ok_or_else(too_early)?;
        let cable = self.network.connect(process, self.hired).await?;
        let servers = cable.servers().to_owned();
        let mut worker = Worker { name, cable, session: Duration::ZERO, child, stdin, stdout };
        worker.tell(&servers).await?;
        let session = worker.stdout.next_line().await?.ok_or("a worker has ended too early")?;
        worker.session = Duration::from_millis(session.parse()?);
        self.workers.push(worker);
        self.workers.last().ok_or_else(|| "nobody works".into())
    }

    pub(crate) fn worker(&mut self, name: &str) -> Result<&mut Worker> {
        let worker = self.workers.iter_mut().find(|worker| worker.name == name);
        worker.ok_or_else(|| format!("{name} does not work any more").into())
    }

    /// Kills a worker. It is dead when this returns.
    pub(crate) async fn kill(&mut self, name: &str) -> Result<()> {
        self.worker(name)?.child.kill().await?;
        self.workers.retain(|worker| worker.name != name);
        Ok(())
    }

    /// # Errors
    /// Somebody has ended that was not killed.
    pub(crate) fn ensure_at_work(&mut self) -> Result<()> {
        for worker in &mut self.workers {
            if let Some(status) = worker.child.try_wait()? {
                return Err(format!("{} has ended, {status}", worker.name).into());
            }
        }
        Ok(())
    }

    /// Kills everybody who is still there, and removes what connected them.
    pub(crate) async fn dismiss(&mut self) -> Result<()> {
        let mut dismissed = Ok(());
        for mut worker in self.workers.drain(..) {
            // Who has ended already has no id any more.
            if worker.child.id().is_some() {
                dismissed = dismissed.and(worker.child.kill().await.map_err(Into::into));
            }
        }
        for number in 1..=self.hired {
            dismissed = dismissed.and(network::remove(number).await);
        }
        dismissed
    }
}

impl Worker {
    pub(crate) async fn resign(&mut self) -> Result<()> {
        self.tell(worker::RESIGN).await
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        Ok(kill_process(id.ok_or("it has ended")?, signal)?)
    }

    async fn tell(&mut self, order: &str) -> Result<()> {
        let told = self.stdin.write_all(format!("{order}\n").as_bytes()).await;
        told.map_err(|error| format!("{} cannot be told {order:?}: {error}", self.name).into())
    }
}
