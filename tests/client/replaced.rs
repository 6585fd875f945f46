//! Sessions that are replaced while replies and requests are lost, and while clients close.

use super::forgotten::{SESSION, bystander_at, patient, reconnect};
use crate::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zk_recipes::nodes::{PersistentNode, PersistentNodeOptions};

struct Place {
    server: MemoryServer,
    proxy: FaultProxy,
    /// Whether the next connection gets another session.
    forgets: Arc<AtomicBool>,
    /// Owns the session.
    _zookeeper: zk::Client,
    client: Client,
}

impl Place {
    async fn new() -> Self {
        let server = patient().start().unwrap();
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        let (address, forgets) = forgetting(proxy.connect_string()).await;
        let zookeeper = bystander_at(&address).await;
        let client = Client::from_zookeeper(zookeeper.clone()).unwrap();
        // The next create has its parents.
        mutex(&client).acquire().await.unwrap().release().await.unwrap();
        Self { server, proxy, forgets, _zookeeper: zookeeper, client }
    }

    async fn replace(&self) {
        self.forgets.store(true, SeqCst);
        reconnect(&self.client, async || self.proxy.cut()).await;
        assert!(!self.forgets.load(SeqCst));
    }

    fn keep(&self) -> PersistentNode {
        PersistentNode::start(&self.client, "/kept", "here", PersistentNodeOptions::new()).unwrap()
    }
}

/// Returns the address of one who passes on to that server, and what tells it to do so with the next connection as if the
/// client had no session.
async fn forgetting(server: String) -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let forgets = Arc::new(AtomicBool::new(false));
    let is_told = forgets.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass_on(client, server.clone(), is_told.clone()));
        }
    });
    (address, forgets)
}

/// Passes on what the client and the server send. If told to, hides from the server that the client has a session.
async fn pass_on(mut client: TcpStream, server: String, forgets: Arc<AtomicBool>) -> std::io::Result<()> {
    let length = client.read_i32().await?;
    let mut request = vec![0; usize::try_from(length).unwrap()];
    client.read_exact(&mut request).await?;
    if forgets.swap(false, SeqCst) {
        request[16..24].fill(0);
        request[28..44].fill(0);
    }
    let mut server = TcpStream::connect(server).await?;
    server.write_i32(length).await?;
    server.write_all(&request).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop)
}

#[tokio::test]
async fn a_lock_that_was_found_is_lost() {
    let place = Place::new().await;
    let lost = place.proxy.intercept(Request::Create, Fate::LoseReply);
    let guard = within(mutex(&place.client).acquire()).await.unwrap();
    within(lost.happened()).await;
    place.replace().await;
    assert_eq!(place.client.watch_connection().get(), ConnectionState::Lost);
    assert!(!guard.is_valid());
}

#[tokio::test]
async fn a_kept_node_that_was_found_is_lost() {
    let place = Place::new().await;
    let lost = place.proxy.intercept(Request::Create, Fate::LoseReply);
    let node = place.keep();
    within(lost.happened()).await;
    within(node.wait_present()).await.unwrap();
    place.replace().await;
    assert_eq!(place.client.watch_connection().get(), ConnectionState::Lost);
    until("it is not shown", || !node.state().is_present()).await;
}

#[tokio::test]
async fn nothing_stays_in_the_new_session_whatever_is_lost() {
    for (keeps, request, fate) in [
        (false, Request::Create, Fate::LoseReply),
        (true, Request::Create, Fate::LoseReply),
        (false, Request::Delete, Fate::LoseRequest),
    ] {
        let place = Place::new().await;
        place.replace().await;
        let lost = place.proxy.intercept(request, fate);
        let node = keeps.then(|| place.keep());
        if !keeps {
            within(mutex(&place.client).acquire()).await.unwrap_err();
        }
        within(lost.happened()).await;
        let mut states = place.client.watch_connection();
        within(states.wait_for(|state| *state == ConnectionState::Lost)).await.unwrap();
        let bystander = bystander_at(&place.server.connect_string()).await;
        eventually("its nodes are deleted", || async {
            let left = ephemerals_below(&bystander, "/locks").await;
            (left.is_empty() && bystander.check_stat("/kept").await.unwrap().is_none()).then_some(())
        })
        .await;
        drop(node);
    }
}

/// Of a client that connects by itself.
#[tokio::test]
async fn the_old_session_is_ended_though_the_client_closes() {
    for _ in 0..5 {
        let server = patient().start().unwrap();
        let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
        let (address, forgets) = forgetting(proxy.connect_string()).await;
        let client = builder().session_timeout(SESSION).connect(&address).await.unwrap();
        let guard = within(mutex(&client).acquire()).await.unwrap();
        forgets.store(true, SeqCst);
        proxy.cut();
        assert_eq!(within(guard.lost()).await, LossReason::Expired);
        within(client.close()).await;
        let bystander = bystander_at(&server.connect_string()).await;
        no_ephemerals_below(&bystander, "/locks").await;
    }
}
