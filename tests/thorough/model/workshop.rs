//! Builds this program once more, optimised and in two forms, and runs both: as it is, and with mutants.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use super::mutants::{self, with_mutants};

const MANIFEST: &str = r#"[package]
name = "model"
version = "0.0.0"
edition = "2024"
autobins = false

[[bin]]
name = "model"
path = "MAIN"

[[bin]]
name = "mutants"
path = "tests/thorough/model/main.rs"

[dependencies]
stateright = "*"

[profile.release]
debug-assertions = true
overflow-checks = true

[lints.rust]
unused = "allow"

[workspace]
"#;

pub(crate) fn run(which: &str) -> ExitCode {
    let package = prepare();
    let start = Instant::now();
    let manifest = package.join("Cargo.toml");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--release", "--offline", "--manifest-path"]).arg(manifest);
    build.arg("--target-dir").arg(package.join("target"));
    let built = build.status().expect("cargo starts");
    assert!(built.success(), "the model is built");
    println!("built in {:.0} s", start.elapsed().as_secs_f64());
    let bin = |name: &str| Command::new(package.join("target/release").join(name));
    let played = bin("model").args(["play", which]).status().expect("it starts");
    let mut survivors = 0;
    for (index, mutant) in mutants::all().enumerate().filter(|(_, mutant)| mutant.is_about(which)) {
        let start = Instant::now();
        let played = bin("mutants").args(["play-broken", &index.to_string()]).output().expect("it starts");
        let noticed = String::from_utf8_lossy(&played.stdout);
        let noticed = if played.status.success() { noticed.trim() } else { "NOT NOTICED" };
        survivors += usize::from(!played.status.success());
        println!("{:>5.1} s: {}: {noticed}", start.elapsed().as_secs_f64(), mutant.name);
    }
    if played.success() && survivors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes the package. Answers where.
fn prepare() -> PathBuf {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."));
    let Some(folder) = option_env!("CARGO_TARGET_TMPDIR") else {
        panic!("this is for the test, not for what it has built");
    };
    let package = Path::new(folder).join("model");
    for folder in ["src/client", "src/queue", "tests/thorough/model"] {
        copy(root, &package, folder);
    }
    let main = root.join("tests/thorough/model/main.rs");
    let main = main.to_str().expect("the path is plain text").escape_default().to_string();
    write_if_new(&package.join("Cargo.toml"), &MANIFEST.replace("MAIN", &main));
    // The same dependencies as the library's.
    fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock")).expect("there is a lock file");
    package
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
