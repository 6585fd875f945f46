//! A proxy before a server.

use std::ops::Deref;
use std::rc::Rc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy, duplex, split};
use tokio::task::spawn_local;
use zk_recipes::testing::{FaultProxy, MemoryEnsemble};
use zk_recipes::{Client, ClientBuilder};
use zk_recipes_simulation::machine::Machine;
use zk_recipes_simulation::network::{Listener, faults};
use zk_recipes_simulation::world::World;

/// It cuts connections, and loses and holds back what is on its way.
pub(crate) struct Proxy {
    proxy: Rc<FaultProxy>,
    pub(crate) address: String,
    machine: Machine,
}

impl Proxy {
    pub(crate) async fn before(world: &World, servers: MemoryEnsemble, address: &str) -> Self {
        Self::passing_on(world, address, move |client| drop(spawn_local(servers.serve(0, client)))).await
    }

    /// Shows all that clients send to somebody, who may change it, and says whether it is passed on. The first of each
    /// connection is its handshake.
    pub(crate) async fn editing(
        world: &World,
        servers: MemoryEnsemble,
        address: &str,
        edit: impl Fn(bool, &mut [u8]) -> bool + 'static,
    ) -> Self {
        let edit = Rc::new(edit);
        Self::passing_on(world, address, move |client| {
            let (near, far) = duplex(1 << 20);
            spawn_local(servers.serve(0, far));
            let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
                (split(client), split(near));
            let edit = edit.clone();
            spawn_local(async move {
                let mut is_handshake = true;
                while let Ok(length) = from_client.read_u32().await {
                    let mut frame = vec![0; length as usize];
                    from_client.read_exact(&mut frame).await?;
                    if edit(std::mem::take(&mut is_handshake), &mut frame) {
                        to_server.write_u32(length).await?;
                        to_server.write_all(&frame).await?;
                    }
                }
                to_server.shutdown().await
            });
            spawn_local(async move {
                copy(&mut from_server, &mut to_client).await?;
                to_client.shutdown().await
            });
        })
        .await
    }

    /// Passes each connection on to somebody.
    async fn passing_on(world: &World, address: &str, serve: impl Fn(DuplexStream) + 'static) -> Self {
        let (proxy, address) = (Rc::new(FaultProxy::start("").await.unwrap()), address.to_owned());
        let mut listener = Listener::bind(&address);
        let connections = proxy.clone();
        spawn_local(async move {
            loop {
                let client = listener.accept().await;
                let (near, far) = duplex(1 << 20);
                serve(far);
                spawn_local(connections.serve(client, near));
            }
        });
        Self { proxy, address, machine: world.machines()[0].clone() }
    }

    /// Connects a client of the first machine.
    pub(crate) async fn connect(&self, with: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Client {
        self.machine.connect(with(self.machine.builder()), &self.address).await
    }

    /// Cuts all connections, and refuses new ones.
    pub(crate) fn cut_off(&self) {
        self.refuse_connections(true);
        self.cut();
    }

    pub(crate) fn refuse_connections(&self, refuse: bool) {
        faults::refuse(&self.address, refuse);
    }
}

impl Deref for Proxy {
    type Target = FaultProxy;

    fn deref(&self) -> &FaultProxy {
        &self.proxy
    }
}
