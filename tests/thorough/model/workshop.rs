//! Plays this program as it is, and then one that it builds: with mutants.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Instant;

use super::mutants::{self, Mutant, with_mutants};
use super::play::{self, Job};

pub(crate) fn run(which: &str) -> ExitCode {
    let is_won = play::all_games(which);
    let start = Instant::now();
    let program: Arc<Path> = build().into();
    println!("built with mutants in {:.0} s", start.elapsed().as_secs_f64());
    let mutants = mutants::MUTANTS.iter().enumerate().filter(|(_, mutant)| mutant.is_about(which));
    let job = |(index, mutant)| -> Job {
        let program = program.clone();
        Box::new(move || is_noticed(&program, index, mutant))
    };
    let is_noticed = play::do_all(&mutants.map(job).collect::<Vec<_>>());
    if is_won && is_noticed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_noticed(program: &Path, index: usize, mutant: &Mutant) -> bool {
    let start = Instant::now();
    let played = Command::new(program).args(["play-broken", &index.to_string()]).output().expect("it starts");
    let noticed = String::from_utf8_lossy(&played.stdout);
    let noticed = if played.status.success() { noticed.trim() } else { "NOT NOTICED" };
    println!("{:>5.1} s: {}: {noticed}", start.elapsed().as_secs_f64(), mutant.name);
    played.status.success()
}

/// Builds the program with mutants. Answers where it is.
fn build() -> PathBuf {
    let Some(folder) = option_env!("CARGO_TARGET_TMPDIR") else {
        panic!("this is for the test, not for what it has built");
    };
    let folder = Path::new(folder).join("model");
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."));
    for sources in ["src/client", "src/queue", MODEL] {
        copy(root, &folder, sources);
    }
    let program = folder.join("mutants");
    let mut build = Command::new("rustc");
    build.arg(folder.join(MODEL).join("main.rs")).arg("-o").arg(&program);
    build.args(["--edition=2024", "--cap-lints=allow", "-Copt-level=3", "-Cdebug-assertions"]);
    let built = build.env("CARGO_MANIFEST_DIR", "").status().expect("rustc starts");
    assert!(built.success(), "it is built");
    program
}

const MODEL: &str = "tests/thorough/model";

/// Copies the sources in a folder and in those below it, with the mutants of each.
fn copy(root: &Path, package: &Path, folder: &str) {
    fs::create_dir_all(package.join(folder)).expect("a folder can be made");
    for entry in fs::read_dir(root.join(folder)).expect("the sources are there") {
        let entry = entry.expect("a file can be listed");
        let name = entry.file_name();
        let file = format!("{folder}/{}", name.to_str().expect("sources have plain names"));
        if entry.path().is_dir() {
            copy(root, package, &file);
        } else {
            let text = fs::read_to_string(root.join(&file)).expect("a source can be read");
            fs::write(package.join(&file), with_mutants(&file, &text)).expect("a file can be written");
        }
    }
}
