//! What most tests begin with.

use zk_recipes::Client;
use zk_recipes::testing::FaultProxy;
use zookeeper_client as zk;

use crate::support::*;

/// A server for one test, somebody who looks at it, and clients.
pub(crate) async fn server_with_clients<const N: usize>() -> (PooledServer, zk::Client, [Client; N]) {
    let server = empty_server().await;
    let (zookeeper, clients) = (bystander(&server).await, connect_many(&server).await);
    (server, zookeeper, clients)
}

/// The same with clients on the runtime of the test.
pub(crate) async fn server_with_clients_here<const N: usize>() -> (PooledServer, zk::Client, [Client; N]) {
    let server = empty_server().await;
    let clients = futures_util::future::join_all((0..N).map(|_| connect_here(&server))).await;
    let zookeeper = bystander(&server).await;
    (server, zookeeper, clients.try_into().unwrap())
}

/// A server, a proxy before it, and somebody who looks.
pub(crate) async fn server_with_proxy() -> (PooledServer, FaultProxy, zk::Client) {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let zookeeper = bystander(&server).await;
    (server, proxy, zookeeper)
}

/// The same with a client whose requests go through the proxy.
pub(crate) async fn server_behind_proxy() -> (PooledServer, FaultProxy, zk::Client, Client) {
    let (server, proxy, zookeeper) = server_with_proxy().await;
    let client = connect_through(&proxy).await;
    (server, proxy, zookeeper, client)
}

/// A root of its own on the shared servers, and clients that see it as theirs.
pub(crate) async fn sandbox_with_clients<const N: usize>() -> (Sandbox, [Client; N]) {
    let sandbox = Sandbox::new();
    let clients = futures_util::future::join_all((0..N).map(|_| sandbox.client())).await;
    (sandbox, clients.try_into().unwrap())
}
