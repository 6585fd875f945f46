//! Where `tests/interop/install-peers` has put what is not Rust.

use std::path::{Path, PathBuf};

use tokio::process::Command;

pub(crate) const WAY_OUT: &str = "tests/interop/install-peers installs it";

/// The class path of Curator 5.9 and ZooKeeper 3.9, for the server as well.
pub(crate) fn class_path() -> Option<String> {
    let class_path = std::fs::read_to_string(folder().join("current/classpath")).ok()?;
    Some(class_path.trim_end().to_owned())
}

/// Curator, compiled at its start: that needs a JDK, which `install-peers` has brought.
pub(crate) fn curator() -> Option<Command> {
    let mut command = Command::new(java());
    command.args(["-Xmx512m", "-Xss256k", "-XX:-UsePerfData", "-Dlog4j2.level=OFF", "-cp", &class_path()?]);
    command.arg(source("ComparePeer.java"));
    Some(command)
}

pub(crate) fn kazoo() -> Option<Command> {
    let python = folder().join("kazoo/bin/python3");
    let mut command = Command::new(&python);
    command.arg(source("compare_peer.py"));
    python.exists().then_some(command)
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("compare").join(name)
}

fn folder() -> PathBuf {
    let default = || repository().join("target/interop-peers");
    std::env::var_os("ZK_RECIPES_PEERS").map_or_else(default, PathBuf::from)
}

pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the benches are in a folder of it")
}

/// That of `JAVA_HOME`, as for the servers, or else that of `PATH`.
fn java() -> PathBuf {
    let home = std::env::var_os("JAVA_HOME").filter(|home| !home.is_empty());
    home.map_or_else(|| "java".into(), |home| Path::new(&home).join("bin/java"))
}
