//! What a test begins with: a server without nodes, and who is connected to it.

use crate::installed::{Generation, Peers};
use crate::support::prelude::*;

pub(crate) async fn server_and_client() -> (PooledServer, Client) {
    let server = empty_server().await;
    let client = connect(&server).await;
    (server, client)
}

pub(crate) async fn server_and_clients<const N: usize>() -> (PooledServer, [Client; N]) {
    let server = empty_server().await;
    let clients = connect_many(&server).await;
    (server, clients)
}

pub(crate) async fn server_and_bystander() -> (PooledServer, zk::Client) {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    (server, zookeeper)
}

pub(crate) async fn server_client_and_bystander() -> (PooledServer, Client, zk::Client) {
    let (server, client) = server_and_client().await;
    let zookeeper = bystander(&server).await;
    (server, client, zookeeper)
}

pub(crate) async fn server_and_proxy() -> (PooledServer, FaultProxy) {
    let server = empty_server().await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    (server, proxy)
}

pub(crate) async fn server_clients_and_bystander<const N: usize>() -> (PooledServer, [Client; N], zk::Client)
{
    let (server, clients) = server_and_clients().await;
    let zookeeper = bystander(&server).await;
    (server, clients, zookeeper)
}

/// The client is behind the proxy.
pub(crate) async fn server_proxy_and_client() -> (PooledServer, FaultProxy, Client) {
    let (server, proxy) = server_and_proxy().await;
    let client = connect_through(&proxy).await;
    (server, proxy, client)
}

/// A server of ZooKeeper 3.9, if it is installed.
pub(crate) async fn server_3_9() -> Option<Server> {
    server_3_9_with(|builder| builder).await
}

pub(crate) async fn server_3_9_with(settings: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Option<Server> {
    let peers = Peers::if_installed(Generation::Current)?;
    Some(settings(Server::builder()).class_path(peers.class_path).start().await.unwrap())
}

/// The first client is behind the proxy, and the other one is not.
pub(crate) async fn server_proxy_and_clients() -> (PooledServer, FaultProxy, Client, Client) {
    let (server, proxy, client) = server_proxy_and_client().await;
    let other = connect(&server).await;
    (server, proxy, client, other)
}
