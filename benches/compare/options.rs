//! The command line.

use std::path::PathBuf;
use std::time::Duration;

pub(crate) const USAGE: &str = "\
usage: cargo bench -p zk-recipes-benches --bench compare -- [OPTION...]

Measures zk-recipes, Curator, kazoo, zookeeper-client's own lock, Redis and etcd side by side, and the same writes sent
by hand. Prints a table, and writes target/compare/compare.json and compare.html.

  --quick         fewer and shorter rounds, one server: two to three minutes
  --only CASE     only the cases whose name contains this; may be given several times
  --servers N     on one server or on an ensemble of 3; by default, first on one and then the core cases on 3
  --before FILE   another build of this program, whose zk-recipes takes part as well
  --list          the cases

Curator and kazoo take part where tests/interop/install-peers has put them, Redis and etcd where redis-server and etcd
are on the PATH.";

/// How long and how often to measure.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) only: Vec<String>,
    pub(crate) servers: Vec<usize>,
    pub(crate) before: Option<PathBuf>,
    pub(crate) effort: Effort,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) latency_rounds: usize,
    pub(crate) iterations: usize,
    pub(crate) warm_up_rounds: usize,
    pub(crate) contention_rounds: usize,
    pub(crate) contention_time: Duration,
    pub(crate) hand_overs: usize,
}

pub(crate) const QUICK: Effort = Effort {
    latency_rounds: 8,
    iterations: 40,
    warm_up_rounds: 3,
    contention_rounds: 3,
    contention_time: Duration::from_millis(300),
    hand_overs: 40,
};

const FULL: Effort = Effort {
    latency_rounds: 20,
    iterations: 100,
    warm_up_rounds: 4,
    contention_rounds: 7,
    contention_time: Duration::from_millis(700),
    hand_overs: 110,
};

/// What the program is started for.
#[derive(Debug)]
pub(crate) enum Request {
    Compare(Options),
    /// As a participant of a comparison.
    TakePart(String),
    Help,
    /// For the names of the cases.
    List,
    /// By a test runner, which starts all programs there are.
    Nothing,
}

impl Options {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Request, String> {
        let mut options =
            Self { quick: false, only: Vec::new(), servers: Vec::new(), before: None, effort: FULL };
        let arguments: Vec<String> = arguments.collect();
        let is_bench = arguments.iter().any(|argument| argument == "--bench");
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} takes a value"));
            match argument.as_str() {
                "--bench" => {}
                "--quick" => {
                    options.quick = true;
                    options.effort = QUICK;
                }
                "--only" => options.only.push(value()?),
                "--servers" => match value()?.parse() {
                    Ok(servers @ (1 | 3)) => options.servers.push(servers),
                    _ => return Err("--servers takes 1 or 3".to_owned()),
                },
                "--before" => options.before = Some(value()?.into()),
                "--participant" => return Ok(Request::TakePart(value()?)),
                "--list" => return Ok(Request::List),
                "--help" | "-h" => return Ok(Request::Help),
                _ if !is_bench => {}
                unknown => return Err(format!("unknown option {unknown}")),
            }
        }
        if !is_bench {
            return Ok(Request::Nothing);
        }
        if options.servers.is_empty() {
            options.servers = if options.quick { vec![1] } else { vec![1, 3] };
        }
        Ok(Request::Compare(options))
    }
}
