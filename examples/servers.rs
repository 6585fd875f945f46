//! The servers that an example runs on: those in `ZK_CONNECT`, or else one in memory.

use std::sync::LazyLock;

use zk_recipes::testing::MemoryServer;

/// In the parent process. The others are given its address.
static IN_MEMORY: LazyLock<MemoryServer> =
    LazyLock::new(|| MemoryServer::start().expect("a port and a thread for the server in memory"));

/// Returns their connect string.
pub(crate) fn servers() -> String {
    named().unwrap_or_else(|| IN_MEMORY.connect_string())
}

/// Says which they are.
pub(crate) fn named_or_in_memory() -> String {
    let how = if named().is_some() {
        ""
    } else {
        ", a server in memory; on a real one by ./zk-docker/with-zookeeper, or ZK_CONNECT=host:port"
    };
    format!("{}{how}", servers())
}

fn named() -> Option<String> {
    std::env::var("ZK_CONNECT").ok()
}
