//! Plays this program as it is, and then one that it builds: with mutants.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use super::mutants::{self, with_mutants};
use super::play;

/// With the profile of this program, so that it shares what is built of `stateright`.
const MANIFEST: &str = r#"[package]
name = "mutants"
version = "0.0.0"
edition = "2024"
autobins = false

[[bin]]
name = "mutants"
path = "tests/thorough/model/main.rs"

[dependencies]
stateright = "*"

[profile.dev]
debug = "line-tables-only"

[profile.dev.package.mutants]
opt-level = 3
codegen-units = 16

[profile.dev.package.stateright]
opt-level = 3

[profile.dev.package."*"]
debug = false

[lints.rust]
unused = "allow"

[workspace]
"#;

pub(crate) fn run(which: &str) -> ExitCode {
    let played = play::all_games(which);
    let start = Instant::now();
    let mutants = build();
    println!("built with mutants in {:.0} s", start.elapsed().as_secs_f64());
    let mut survivors = 0;
    for (index, mutant) in mutants::all().enumerate().filter(|(_, mutant)| mutant.is_about(which)) {
        let start = Instant::now();
        let played =
            Command::new(&mutants).args(["play-broken", &index.to_string()]).output().expect("it starts");
        let noticed = String::from_utf8_lossy(&played.stdout);
        let noticed = if played.status.success() { noticed.trim() } else { "NOT NOTICED" };
        survivors += usize::from(!played.status.success());
        println!("{:>5.1} s: {}: {noticed}", start.elapsed().as_secs_f64(), mutant.name);
    }
    if survivors == 0 { played } else { ExitCode::FAILURE }
}

/// Builds the program with mutants. Answers where it is.
fn build() -> PathBuf {
    let Some(folder) = option_env!("CARGO_TARGET_TMPDIR") else {
        panic!("this is for the test, not for what it has built");
    };
    let folder = Path::new(folder);
    let package = folder.join("model");
    prepare(&package);
    let target = folder.parent().expect("cargo's folder is in that of the target");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--offline", "--manifest-path"]).arg(package.join("Cargo.toml"));
    let built = build.arg("--target-dir").arg(target).status().expect("cargo starts");
    assert!(built.success(), "it is built");
    target.join("debug/mutants")
}

/// Writes the package.
fn prepare(package: &Path) {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."));
    for folder in ["src/client", "src/queue", "tests/thorough/model"] {
        copy(root, package, folder);
    }
    write_if_new(&package.join("Cargo.toml"), MANIFEST);
    // The same dependencies as the library's.
    fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock")).expect("there is a lock file");
}

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
            write_if_new(&package.join(&file), &with_mutants(&file, &text));
        }
    }
}

/// Leaves what is the same as it was, so that it is not built again.
fn write_if_new(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    fs::write(path, text).expect("a file can be written");
}
