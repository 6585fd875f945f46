//! A proxy before the server of an ensemble.

use std::ops::Deref;
use std::rc::Rc;

use tokio::task::spawn_local;
use zk_recipes::testing::{FaultProxy, MemoryEnsemble};
use zk_recipes::{Client, ClientBuilder};
use zk_recipes_simulation::network::{Listener, faults};
use zk_recipes_simulation::world::World;

/// It cuts connections, and loses and holds back what is on its way.
pub(crate) struct Proxy {
    proxy: Rc<FaultProxy>,
    pub(crate) address: String,
}

impl Proxy {
    pub(crate) async fn before(world: &World, ensemble: usize) -> Self {
        Self::one_of(world, ensemble, 1).await
    }

    /// One of several, with a number from 1.
    pub(crate) async fn one_of(world: &World, ensemble: usize, number: usize) -> Self {
        let servers = world.ensembles()[ensemble].clone();
        Self::before_server(servers, &format!("10.1.{ensemble}.{number}:2181")).await
    }

    pub(crate) async fn before_server(servers: MemoryEnsemble, address: &str) -> Self {
        let (proxy, address) = (Rc::new(FaultProxy::start("").await.unwrap()), address.to_owned());
        let mut listener = Listener::bind(&address);
        let connections = proxy.clone();
        spawn_local(async move {
            loop {
                let client = listener.accept().await;
                let (near, far) = tokio::io::duplex(1 << 20);
                spawn_local(servers.serve(0, far));
                spawn_local(connections.serve(client, near));
            }
        });
        Self { proxy, address }
    }

    pub(crate) async fn client(
        &self,
        world: &World,
        builder: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Client {
        let machine = &world.machines()[0];
        machine.connect(builder(machine.builder()), &self.address).await
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
