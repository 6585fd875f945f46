//! The programs of the guide: what is printed there is what is in this folder, and is run here.
//!
//! Each runs in processes of its own, on a new server, and is told to end: while it works, while it waits behind another
//! one, and without servers. It must end in time, and what it held must be free.

#[path = "../support/mod.rs"]
mod support;

use std::error::Error;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::{Server, bystander, children, queue_of, within};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Set for the processes under test: which of the programs they are.
const PROGRAM: &str = "GUIDE_PROGRAM";

/// A program ends within this time when it is told to.
const BOUND: Duration = Duration::from_secs(1);

struct Program {
    name: &'static str,
    text: &'static str,
    main: fn() -> Result<(), Box<dyn Error>>,
    /// The path of its queue: the first one works, the others wait.
    queue: &'static str,
    /// What it prints when it works.
    works: &'static str,
}

macro_rules! program {
    ($name:ident, $file:literal) => {
        mod $name {
            include!($file);

            pub(super) const TEXT: &str = include_str!($file);

            pub(super) fn run() -> Result<(), Box<dyn std::error::Error>> {
                main()
            }
        }
    };
}

program!(job, "job.rs");
program!(worker, "worker.rs");

const PROGRAMS: [Program; 2] = [
    Program {
        name: "job",
        text: job::TEXT,
        main: job::run,
        queue: "/leaders/reports",
        works: "the report of minute ",
    },
    Program {
        name: "worker",
        text: worker::TEXT,
        main: worker::run,
        queue: "/locks/orders",
        works: "ships order 1, with token ",
    },
];

fn main() -> Result<(), Box<dyn Error>> {
    if let Ok(name) = std::env::var(PROGRAM) {
        let program = PROGRAMS.iter().find(|program| program.name == name).ok_or("no such program")?;
        return (program.main)();
    }
    what_is_printed_is_what_is_run();
    println!("{:8} {:30} {:>9}", "program", "told to end", "gone after");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        for program in &PROGRAMS {
            it_works_on_a_new_server_and_ends_in_time(program).await;
        }
    });
    Ok(())
}

/// All programs of the guide are in this folder, and the other way round.
fn what_is_printed_is_what_is_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/guide");
    let mut printed: Vec<String> = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md" || extension == "rs") {
            printed.extend(programs(&std::fs::read_to_string(path).unwrap()));
        }
    }
    for Program { name, text, .. } in &PROGRAMS {
        assert!(printed.iter().any(|printed| printed == text), "the guide does not print {name}.rs as it is");
    }
    assert_eq!(printed.len(), PROGRAMS.len(), "the guide prints a program that is not in this folder");
}

/// The blocks of code that print a `main`: that of an example is hidden, by `#`.
fn programs(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| match line.strip_prefix("//!") {
        Some(line) => line.strip_prefix(' ').unwrap_or(line),
        None => line,
    });
    let mut programs = Vec::new();
    let mut block: Option<String> = None;
    for line in lines {
        match &mut block {
            None if line.starts_with("```") => block = Some(String::new()),
            None => {}
            Some(_) if line.starts_with("```") => {
                programs.extend(block.take().filter(|block| block.lines().any(is_main)));
            }
            Some(block) => {
                block.push_str(line);
                block.push('\n');
            }
        }
    }
    programs
}

fn is_main(line: &str) -> bool {
    !line.starts_with("# ") && line.contains("fn main()")
}

async fn it_works_on_a_new_server_and_ends_in_time(program: &Program) {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let nodes = || async { children(&zookeeper, program.queue).await.len() };

    let mut working = program.start(&server);
    working.prints(program.works).await;
    let waiting = program.start(&server);
    queue_of(&zookeeper, program.queue, 2).await;
    let ended = waiting.end().await;
    assert_eq!(nodes().await, 1, "{}", program.name);
    ended.report(program, "while it waits");

    // The next one has its turn.
    let next = program.start(&server);
    queue_of(&zookeeper, program.queue, 2).await;
    let ended = working.end().await;
    assert_eq!(nodes().await, 1, "{}", program.name);
    ended.report(program, "while it works");
    let ended = next.end().await;
    assert_eq!(nodes().await, 0, "{}", program.name);
    ended.report(program, "when the one before has ended");

    // Without servers there is nobody to tell, and nothing to wait for: nothing is in progress. This server is new, so
    // that the program has something to print when it has done its first work.
    let mut server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    let mut working = program.start(&server);
    working.prints(program.works).await;
    let waiting = program.start(&server);
    queue_of(&zookeeper, program.queue, 2).await;
    server.kill().await.unwrap();
    for running in [working, waiting] {
        running.end().await.report(program, "when the servers are gone");
    }
}

/// A program that runs.
struct Running {
    process: Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

struct Ended {
    status: ExitStatus,
    after: Duration,
}

impl Program {
    fn start(&self, server: &Server) -> Running {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(PROGRAM, self.name).env("ZK_CONNECT", server.connect_string());
        let mut process = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Running { process, lines }
    }
}

impl Running {
    /// Waits for a line that begins in this way.
    async fn prints(&mut self, beginning: &str) {
        let line = within(self.lines.next_line()).await.unwrap().expect("it prints something");
        assert!(line.starts_with(beginning), "{line}");
    }

    /// Tells it to end, as the system does.
    async fn end(mut self) -> Ended {
        let id = Pid::from_raw(self.process.id().unwrap().try_into().unwrap()).unwrap();
        let told = Instant::now();
        kill_process(id, Signal::TERM).unwrap();
        let status = within(self.process.wait()).await.unwrap();
        Ended { status, after: told.elapsed() }
    }
}

impl Ended {
    fn report(&self, program: &Program, when: &str) {
        println!("{:8} {when:30} {:>9.0?}", program.name, self.after);
        assert!(self.status.success(), "{} {when}: {}", program.name, self.status);
        assert!(self.after < BOUND, "{} {when}: {:?}", program.name, self.after);
    }
}
