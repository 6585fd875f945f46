//! For what must not stand still with the thread of a test: servers, proxies, those who look.

use tokio::runtime::{Builder, Runtime};

use super::Server;

pub fn elsewhere() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// A server, and the runtime that it was started on.
pub fn server_elsewhere() -> (Runtime, Server) {
    let elsewhere = elsewhere();
    let server = elsewhere.block_on(Server::start()).unwrap();
    (elsewhere, server)
}
