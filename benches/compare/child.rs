//! A participant: a process that obeys lines, see `load.rs`.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::Result;
use crate::load::{Load, Outcome};

/// For the longest round of the slowest participant.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct Participating {
    name: &'static str,
    version: Option<String>,
    process: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Participating {
    pub(crate) async fn start(name: &'static str, mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().map_err(|error| format!("{name}: {command:?}: {error}"))?;
        let (Some(commands), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(format!("{name} was started without pipes").into());
        };
        let mut participating =
            Self { name, version: None, process, commands, answers: BufReader::new(answers).lines() };
        let first = participating.answer().await?;
        let version =
            first.strip_prefix("ready").ok_or_else(|| format!("{name} began with {first:?}"))?.trim();
        participating.version = Some(version.to_owned()).filter(|version| !version.is_empty());
        Ok(participating)
    }

    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    pub(crate) fn process_id(&self) -> Option<u32> {
        self.process.id()
    }

    pub(crate) async fn open(&mut self, servers: &str, path: &str, load: Load) -> Result<()> {
        self.call(&format!("open {servers} {path} {load}")).await.map(drop)
    }

    pub(crate) async fn run(&mut self, round: usize) -> Result<Outcome> {
        let answer = self.call(&format!("run {round}")).await?;
        answer.parse().map_err(|error| format!("{}: {error}", self.name).into())
    }

    pub(crate) async fn close(&mut self) -> Result<()> {
        self.call("close").await.map(drop)
    }

    async fn call(&mut self, line: &str) -> Result<String> {
        self.commands.write_all(format!("{line}\n").as_bytes()).await?;
        let answer = self.answer().await?;
        match answer.split_once(' ').unwrap_or((&answer, "")) {
            ("ok", text) => Ok(text.to_owned()),
            ("error", text) => Err(format!("{} at {line:?}: {text}", self.name).into()),
            _ => Err(format!("{} at {line:?} answered {answer:?}", self.name).into()),
        }
    }

    async fn answer(&mut self) -> Result<String> {
        match timeout(PATIENCE, self.answers.next_line()).await {
            Err(_) => Err(format!("{} did not answer within {PATIENCE:?}", self.name).into()),
            Ok(line) => line?.ok_or_else(|| format!("{} has ended", self.name).into()),
        }
    }
}
