//! Where `install-peers` has put what the tests talk to.
#![allow(dead_code, reason = "each test target uses a part")]

use std::path::{Path, PathBuf};
use std::sync::Once;

/// A version of Curator on one of ZooKeeper.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Generation {
    /// Curator 5.4 on ZooKeeper 3.8.
    Debian,
    /// Curator 5.9 on ZooKeeper 3.9.
    Current,
}

/// The installed peers.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    /// Of the server and of the peer on Curator.
    pub(crate) class_path: String,
    /// The interpreter that finds kazoo.
    pub(crate) python: PathBuf,
}

impl Peers {
    /// Where they must be there.
    pub(crate) fn of(generation: Generation) -> Self {
        Self::find(generation).unwrap_or_else(|missing| panic!("{missing}"))
    }

    /// `None` if they are not there, and that may be.
    pub(crate) fn if_installed(generation: Generation) -> Option<Self> {
        let found = Self::find(generation);
        found.inspect_err(|missing| skipped(missing)).ok()
    }

    /// Or what is missing.
    fn find(generation: Generation) -> Result<Self, String> {
        let folder = folder();
        let generation = match generation {
            Generation::Debian => "debian",
            Generation::Current => "current",
        };
        let class_path = folder.join(generation).join("classpath");
        let python = folder.join("kazoo/bin/python3");
        match std::fs::read_to_string(&class_path) {
            Ok(text) if python.exists() => Ok(Self { class_path: text.trim_end().to_owned(), python }),
            _ => {
                let file = if class_path.exists() { &python } else { &class_path };
                Err(format!("there is no {}; install the peers: tests/interop/install-peers", file.display()))
            }
        }
    }
}

/// The `java` to run: that of `JAVA_HOME`, as for the servers, or else that of `PATH`.
pub(crate) fn java() -> PathBuf {
    let home = std::env::var_os("JAVA_HOME").filter(|home| !home.is_empty());
    home.map_or_else(|| "java".into(), |home| Path::new(&home).join("bin/java"))
}

fn folder() -> PathBuf {
    let default = || repository().join("target/interop-peers");
    std::env::var_os("ZK_RECIPES_PEERS").map_or_else(default, PathBuf::from)
}

/// Of whichever package the test is.
pub(crate) fn repository() -> &'static Path {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.find(|folder| folder.join("tests/interop").is_dir()).expect("it is in the repository")
}

/// Whether it is a failure if they are missing.
fn are_required() -> bool {
    std::env::var_os("ZK_RECIPES_REQUIRE_PEERS").is_some_and(|value| !value.is_empty())
}

fn skipped(missing: &str) {
    static ONCE: Once = Once::new();
    assert!(!are_required(), "{missing}");
    ONCE.call_once(|| eprintln!("what takes the peers is SKIPPED: {missing}"));
}
