//! Puts defects into copies of the library, one at a time, and tells how many seeds it takes until a judge notices.
//!
//! `cargo run --release --bin planted [NAME]...`, in this folder. A defect that is not noticed is a failure.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;
use std::{env, fs, io};

struct Defect {
    name: &'static str,
    file: &'static str,
    /// A text that stands once in the file, with what is to be broken between `[[` and `]]`.
    place: &'static str,
    /// What takes the place of that.
    broken: &'static str,
    /// How it is played.
    arguments: &'static [&'static str],
}

const SIGNS: &str = "src/client/signs.rs";
const CONTENDER: &str = "src/queue/pure/contender/mod.rs";
const KNOWLEDGE: &str = "src/queue/pure/local_queue/knowledge.rs";
const LOCAL_QUEUE: &str = "src/queue/pure/local_queue/mod.rs";

const LOCKS: &[&str] = &["--recipe", "locks"];
const THREE: &[&str] = &["--recipe", "locks", "--servers", "3"];

const DEFECTS: &[Defect] = &[
    Defect {
        name: "another-session-continues",
        file: SIGNS,
        place: "[[given == asked]]",
        broken: "given == asked || true",
        arguments: &["--recipe", "locks", "--with", "forget"],
    },
    Defect {
        name: "validity-without-margin",
        file: SIGNS,
        place: "self.until = self.until.max([[by_answer.min(by_report)]]);",
        broken: "by_answer.max(by_report) + self.margin",
        arguments: LOCKS,
    },
    Defect {
        name: "reports-of-followers-do-not-count",
        file: SIGNS,
        place: "self.until.max([[by_answer.min(by_report)]]);",
        broken: "{ let _ = by_report; by_answer + self.margin - self.clocks() }",
        arguments: THREE,
    },
    Defect {
        name: "any-answer-confirms",
        file: SIGNS,
        place: "if [[sign == Sign::Confirmed]] {\n            self.confirmed(sent);",
        broken: "sign == Sign::Confirmed || true",
        arguments: THREE,
    },
    Defect {
        name: "granted-however-little-validity-is-left",
        file: SIGNS,
        place: "if [[now + self.worth() <= self.until]] {",
        broken: "true || now + self.worth() <= self.until",
        arguments: LOCKS,
    },
    Defect {
        name: "create-grants-in-unknown-queue",
        file: CONTENDER,
        place: "None if [[local.is_clear(rank, now)]] => self.stand(true, local, now)",
        broken: "{ self.granted(); return Action::Report }",
        arguments: LOCKS,
    },
    Defect {
        name: "nearest-blocker-is-the-last",
        file: CONTENDER,
        place: "let is_last = [[second.is_none()]] && !may_be_followed",
        broken: "second.is_none() || true",
        arguments: LOCKS,
    },
    Defect {
        name: "queue-is-known-without-watch",
        file: KNOWLEDGE,
        place: "[[is_watched]] && known.on == now",
        broken: "(is_watched || true)",
        arguments: LOCKS,
    },
    Defect {
        name: "queue-is-known-though-parent-changed",
        file: KNOWLEDGE,
        place: "self.parent_watched = None;\n        [[self.known = None;]]",
        broken: "",
        arguments: LOCKS,
    },
    Defect {
        name: "whoever-leaves-wakes-no-one",
        file: LOCAL_QUEUE,
        place: "[[woken.push(member.wake.clone());]]",
        broken: "",
        arguments: LOCKS,
    },
    Defect {
        name: "local-queue-blocks-no-one",
        file: LOCAL_QUEUE,
        place: ".any(|(before, _)| [[exclude_each_other(before.kind, rank.kind)]])",
        broken: "exclude_each_other(before.kind, rank.kind) && false",
        arguments: LOCKS,
    },
    Defect {
        name: "passes-on-before-transactions-are-done",
        file: "src/queue/pure/passing.rs",
        place: "if [[self.open > 0]] {",
        broken: "self.open > 0 && false",
        arguments: LOCKS,
    },
    Defect {
        name: "lingers-though-others-wait",
        file: "src/queue/pure/linger.rs",
        place: "[[self.seen = Seen::Others;]]",
        broken: "",
        arguments: LOCKS,
    },
    Defect {
        name: "lost-creates-are-not-swept",
        file: "src/client/sweeper.rs",
        place: "if [[session.is_over()]] {\n            return;",
        broken: "session.is_over() || true",
        arguments: LOCKS,
    },
];

/// How many seeds are played at most.
const SEEDS: &str = "400";

fn main() -> ExitCode {
    let wanted: Vec<String> = env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut unnoticed = 0;
    println!("| defect | seeds until it is noticed | seconds | what is noticed |\n|---|---|---|---|");
    for defect in
        DEFECTS.iter().filter(|defect| wanted.is_empty() || wanted.iter().any(|name| name == defect.name))
    {
        match defect.play(&root) {
            Ok(Some(row)) => println!("| {} | {row} |", defect.name),
            Ok(None) => {
                unnoticed += 1;
                println!("| {} | NOT NOTICED in {SEEDS} | | |", defect.name);
            }
            Err(error) => {
                unnoticed += 1;
                println!("| {} | FAILED: {error} | | |", defect.name);
            }
        }
    }
    if unnoticed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

impl Defect {
    /// Returns the rest of its row, or `None` if it is not noticed.
    fn play(&self, root: &Path) -> io::Result<Option<String>> {
        let copy = root.join("target/planted/copy");
        copy_all(root, &copy)?;
        let file = copy.join(self.file);
        fs::write(&file, self.plant(&fs::read_to_string(&file)?)?)?;
        let built = self.cargo(&copy).args(["build", "--release", "--quiet"]).status()?;
        if !built.success() {
            return Err(io::Error::other("it does not build"));
        }
        let start = Instant::now();
        let played = self
            .cargo(&copy)
            .args(["run", "--release", "--quiet", "--bin", "play", "--", "--until-broken", "--seeds", SEEDS])
            .args(self.arguments)
            .env("RUST_BACKTRACE", "0")
            .output()?;
        let seconds = start.elapsed().as_secs_f64();
        let text = String::from_utf8_lossy(&played.stdout);
        let Some((_, what)) = text.split_once("BROKEN: ") else { return Ok(None) };
        let runs =
            text.lines().last().and_then(|line| line.split_once(" runs")).map_or("?", |(runs, _)| runs);
        let what = what.lines().next().unwrap_or_default();
        Ok(Some(format!("{runs} | {seconds:.0} | {what}")))
    }

    fn plant(&self, source: &str) -> io::Result<String> {
        let parts = self.place.split_once("[[").and_then(|(before, rest)| {
            let (broken, after) = rest.split_once("]]")?;
            Some((before, broken, after))
        });
        let (before, broken, after) = parts.ok_or_else(|| io::Error::other("its place has no brackets"))?;
        let sound = format!("{before}{broken}{after}");
        if source.matches(&sound).count() != 1 {
            return Err(io::Error::other(format!("its place is not once in {}", self.file)));
        }
        Ok(source.replace(&sound, &format!("{before}{}{after}", self.broken)))
    }

    fn cargo(&self, copy: &Path) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(copy.join("tests/simulation"));
        cargo.env("CARGO_TARGET_DIR", copy.with_file_name("target"));
        cargo
    }
}

/// Copies the project. Files that are the same stay, so that little is built again.
fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        let data = fs::read(from)?;
        if fs::read(to).is_ok_and(|same| same == data) {
            return Ok(());
        }
        fs::create_dir_all(to.parent().unwrap_or(to))?;
        return fs::write(to, data);
    }
    let entries: Vec<PathBuf> =
        fs::read_dir(from)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
    for entry in entries.iter().filter(|entry| !entry.ends_with("target") && !entry.ends_with(".git")) {
        if let Some(name) = entry.file_name() {
            copy_all(entry, &to.join(name))?;
        }
    }
    Ok(())
}
