//! The candidates: ours in this process and in others, and Curator's.

use std::process::Stdio;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;

use crate::history::{History, Library};
use crate::installed::{Generation, Peers, java};
use crate::ours;
use crate::report::{Command, Report};
use crate::stage::Recipe;
use crate::support::within;
use crate::{SESSION_TIMEOUT, clock};

/// What a candidate runs on.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// Ours, in this process.
    Here,
    /// Ours, in a process of its own.
    Child,
    Curator(Generation, Peers),
}

impl Origin {
    pub(crate) fn library(&self) -> Library {
        match self {
            Self::Here | Self::Child => Library::Ours,
            Self::Curator(..) => Library::Curator,
        }
    }
}

/// Where a candidate stands, and where it is written down how.
#[derive(Clone, Debug)]
pub(crate) struct Race {
    pub(crate) recipe: Recipe,
    pub(crate) connect_string: String,
    pub(crate) path: String,
    pub(crate) history: Arc<History>,
}

pub(crate) struct Candidate {
    pub(crate) name: Arc<str>,
    pub(crate) origin: Origin,
    commands: UnboundedSender<Command>,
    process: Option<Child>,
    /// Ends when it says nothing any more.
    listening: JoinHandle<()>,
}

impl Candidate {
    /// One that will stand soon.
    pub(crate) fn start(race: &Race, origin: Origin, name: String) -> Self {
        let name: Arc<str> = name.into();
        let (tell, commands) = mpsc::unbounded_channel();
        let library = origin.library();
        let history = race.history.clone();
        let record = {
            let name = name.clone();
            move |report| history.record(&name, library, report)
        };
        let Some(mut command) = command(race, &origin, &name) else {
            let (race, name) = (race.clone(), name.clone());
            let name_of_client = name.clone();
            let listening = tokio::spawn(async move {
                let client = ours::connect(&race.connect_string, &name_of_client).await;
                ours::live(&client, race.recipe, &race.path, commands, record).await;
                race.history.record_end(&name_of_client);
                client.close().await;
            });
            return Self { name, origin, commands: tell, process: None, listening };
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        tokio::spawn(write(process.stdin.take().expect("it is piped"), commands));
        let says = process.stdout.take().expect("it is piped");
        let listening = {
            let (name, history) = (name.clone(), race.history.clone());
            tokio::spawn(async move {
                listen(says, record).await;
                history.record_end(&name);
            })
        };
        Self { name, origin, commands: tell, process: Some(process), listening }
    }

    /// Has it do something. Whoever fails in it leads no more, which is seen.
    pub(crate) fn tell(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    pub(crate) fn can_be_killed(&self) -> bool {
        self.process.is_some()
    }

    /// Ends it so that it can do nothing any more, not even close its session.
    pub(crate) async fn kill(mut self) {
        self.process.as_mut().expect("it has a process").kill().await.unwrap();
        within(self.listening).await.unwrap();
    }

    /// Has it close, and waits until it has.
    pub(crate) async fn end(self) {
        let Self { name, commands, process, listening, .. } = self;
        drop(commands);
        let ended = tokio::time::timeout(crate::support::BOUND, listening).await;
        ended
            .unwrap_or_else(|_| panic!("{name} does not end"))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        if let Some(mut process) = process {
            let status = within(process.wait()).await.unwrap();
            assert!(status.success(), "{name} ends with {status}");
        }
    }
}

/// What starts it, if it has a process of its own.
fn command(race: &Race, origin: &Origin, name: &str) -> Option<tokio::process::Command> {
    let Race { recipe, connect_string, path, .. } = race;
    match origin {
        Origin::Here => None,
        Origin::Child => {
            let mut command = tokio::process::Command::new(std::env::current_exe().unwrap());
            command.args([ours::CHILD, recipe.word(), connect_string, path, name]);
            Some(command)
        }
        Origin::Curator(_, peers) => {
            let mut command = tokio::process::Command::new(java());
            command.args(["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]);
            command.args(["-Dlog4j2.level=OFF", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]);
            command.args(["-cp", &peers.class_path, "CuratorCandidate", recipe.word(), connect_string]);
            command.args([&SESSION_TIMEOUT.as_millis().to_string(), path, name]);
            Some(command)
        }
    }
}

async fn write(mut stdin: ChildStdin, mut commands: UnboundedReceiver<Command>) {
    while let Some(command) = commands.recv().await {
        if stdin.write_all(command.line().as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn listen(says: ChildStdout, record: impl Fn(Report)) {
    let started = clock::now();
    let mut lines = BufReader::new(says).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let Some(report) = Report::parse(&line) else { continue };
        if let Report::Ready { at } = report {
            let range = started..=clock::now();
            assert!(range.contains(&at), "it has another clock: {at} is not in {range:?}");
        }
        record(report);
    }
}
