//! A process of the command.

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::support::{Server, eventually, within};

/// A script that says `started`, and ends with its own status when it is asked to.
pub(crate) const UNTIL_TERM: &str =
    "trap 'echo TERM; exit 3' TERM; echo started; while :; do sleep 0.05; done";

/// A command that is not told where the servers are by its environment, nor anything by its input. It heeds all signals, also
/// if the tests ignore some, as they do under `nohup`.
pub(crate) fn zklock(connect: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_zklock"), "--connect", connect]).args(arguments);
    for variable in ["ZK_CONNECT", "ZKLOCK_AUTH", "ZKLOCK_HELD"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// One that runs.
pub(crate) struct Running {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    errors: JoinHandle<()>,
    said: Arc<Mutex<String>>,
}

/// What has become of it.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut errors = BufReader::new(process.stderr.take().unwrap()).lines();
        let said = Arc::<Mutex<String>>::default();
        let errors = tokio::spawn({
            let said = Arc::clone(&said);
            async move {
                while let Ok(Some(line)) = errors.next_line().await {
                    *said.lock().unwrap() += &format!("{line}\n");
                }
            }
        });
        Self { process, lines, errors, said }
    }

    /// `zklock run` of a shell script with these options, which include the path.
    pub(crate) fn script(server: &Server, options: &[&str], script: &str) -> Self {
        let arguments = [&["run"], options, &["--", "sh", "-c", script]].concat();
        Self::start(zklock(&server.connect_string(), &arguments))
    }

    /// The next line of its output.
    pub(crate) async fn line(&mut self) -> String {
        within(self.lines.next_line()).await.unwrap().expect("it says something")
    }

    /// Waits until it says this, and nothing else before.
    pub(crate) async fn says(&mut self, expected: &str) {
        assert_eq!(self.line().await, expected);
    }

    /// Waits until it has said this on its standard error.
    pub(crate) async fn complains(&self, text: &str) {
        eventually(text, || async { self.said.lock().unwrap().contains(text).then_some(()) }).await;
    }

    /// Its standard input, if that is a pipe.
    pub(crate) fn input(&mut self) -> ChildStdin {
        self.process.stdin.take().unwrap()
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id().unwrap()
    }

    pub(crate) fn send(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.id().try_into().unwrap()).unwrap(), signal).unwrap();
    }

    pub(crate) async fn ended(mut self) -> Ended {
        let status = within(self.process.wait()).await.unwrap();
        let mut output = String::new();
        while let Some(line) = within(self.lines.next_line()).await.unwrap() {
            output += &line;
            output.push('\n');
        }
        within(self.errors).await.unwrap();
        let errors = std::mem::take(&mut *self.said.lock().unwrap());
        Ended { code: status.code(), output, errors }
    }
}

impl Ended {
    /// Its output as JSON, after it has succeeded.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        serde_json::from_str(&self.output).unwrap()
    }
}

/// Runs it to the end.
pub(crate) async fn done(server: &Server, arguments: &[&str]) -> Ended {
    done_at(&server.connect_string(), arguments).await
}

/// The same with any servers.
pub(crate) async fn done_at(connect: &str, arguments: &[&str]) -> Ended {
    Running::start(zklock(connect, arguments)).ended().await
}

/// Its JSON.
pub(crate) async fn json(server: &Server, arguments: &[&str]) -> Value {
    done(server, arguments).await.json()
}
