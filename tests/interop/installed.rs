//! Where `install-peers` has put what the tests talk to.

use std::ffi::OsStr;
use std::io::Write;
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
    /// `None` if they are not there, and that may be.
    pub(crate) fn find(generation: Generation) -> Option<Self> {
        let folder = folder();
        let generation = match generation {
            Generation::Debian => "debian",
            Generation::Current => "current",
        };
        let class_path = folder.join(generation).join("classpath");
        let python = folder.join("kazoo/bin/python3");
        match std::fs::read_to_string(&class_path) {
            Ok(text) if python.exists() => Some(Self { class_path: text.trim_end().to_owned(), python }),
            _ => {
                missing(if class_path.exists() { &python } else { &class_path });
                None
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
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/interop-peers");
    std::env::var_os("ZK_RECIPES_PEERS").map_or_else(default, PathBuf::from)
}

fn missing(file: &Path) {
    static ONCE: Once = Once::new();
    let file = file.display();
    let way_out = "install the peers: tests/interop/install-peers";
    if std::env::var_os("ZK_RECIPES_REQUIRE_PEERS").as_deref().is_some_and(|value| value != OsStr::new("")) {
        panic!("there is no {file}; {way_out}");
    }
    // Not `eprintln!`, which is captured.
    let notice = format!("what takes the peers is SKIPPED: there is no {file}; {way_out}\n");
    ONCE.call_once(|| std::io::stderr().write_all(notice.as_bytes()).expect("stderr is open"));
}
