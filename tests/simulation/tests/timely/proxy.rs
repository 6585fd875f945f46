//! A proxy before a server.

use std::ops::Deref;
use std::rc::Rc;

use tokio::io::DuplexStream;
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

    /// Passes each connection on to somebody.
    pub(crate) async fn passing_on(
        world: &World,
        address: &str,
        serve: impl Fn(DuplexStream) + 'static,
    ) -> Self {
        let (proxy, address) = (Rc::new(FaultProxy::start("").await.unwrap()), address.to_owned());
        let mut listener = Listener::bind(&address);
        let connections = proxy.clone();
        spawn_local(async move {
            loop {
                let client = listener.accept().await;
                let (near, far) = tokio::io::duplex(1 << 20);
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
