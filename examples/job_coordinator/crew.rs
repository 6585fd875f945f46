//! The worker processes.

use std::path::Path;
use std::process::Stdio;

use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use crate::{Result, servers};

/// Worker processes, none of which outlives this.
#[derive(Debug, Default)]
pub(crate) struct Crew(Vec<(String, Child)>);

impl Crew {
    pub(crate) fn hire(&mut self, name: &str, root: &str, record: &Path) -> Result<()> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["worker", name, root]).arg(record).env("ZK_CONNECT", servers());
        // A worker ends with its standard input, should we die without ending it ourselves.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        self.0.push((name.into(), command.spawn()?));
        Ok(())
    }

    /// Kills a worker by SIGKILL. It is dead when this returns.
    pub(crate) async fn kill(&mut self, name: &str) -> Result<()> {
        if let Some(place) = self.0.iter().position(|(other, _)| other == name) {
            let (_, mut child) = self.0.swap_remove(place);
            if !has_ended(&child) {
                child.kill().await?;
            }
        }
        Ok(())
    }

    /// How many workers still work, after letting go of those that have ended well.
    ///
    /// # Errors
    /// What went wrong for a worker.
    pub(crate) async fn at_work(&mut self) -> Result<usize> {
        for (name, child) in &mut self.0 {
            let Some(status) = child.try_wait()? else { continue };
            if !status.success() {
                let mut message = String::new();
                if let Some(mut stderr) = child.stderr.take() {
                    stderr.read_to_string(&mut message).await?;
                }
                return Err(format!("{name} failed, {status}: {}", message.trim_end()).into());
            }
        }
        self.0.retain(|(_, child)| !has_ended(child));
        Ok(self.0.len())
    }

    /// Kills everybody who is still there.
    pub(crate) async fn dismiss(mut self) -> Result<()> {
        while let Some((name, _)) = self.0.last() {
            let name = name.clone();
            self.kill(&name).await?;
        }
        Ok(())
    }
}

/// Whether a worker is known to have ended: who was waited for has no process id any more.
fn has_ended(child: &Child) -> bool {
    child.id().is_none()
}
