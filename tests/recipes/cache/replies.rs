//! How large the replies are that a cache asks for.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// How the answer to `srvr` begins.
const TEXT: u32 = u32::from_be_bytes(*b"Zook");

/// Forwards, and notes the largest frame of the server.
async fn measuring_relay(to: String) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let largest = Arc::new(AtomicUsize::new(0));
    let noted = largest.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(relay(client, to.clone(), noted.clone()));
        }
    });
    (address, largest)
}

async fn relay(client: TcpStream, to: String, noted: Arc<AtomicUsize>) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = TcpStream::connect(&to).await?.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    loop {
        let length = from_server.read_u32().await?;
        // The client asks why it could not connect, and the answer is text.
        if length == TEXT {
            return Ok(());
        }
        noted.fetch_max(length as usize, SeqCst);
        to_client.write_u32(length).await?;
        tokio::io::copy(&mut (&mut from_server).take(length.into()), &mut to_client).await?;
    }
}

/// The server has a heap of 256 MiB. One reply with all large nodes would have 50 MB. They come behind the small ones, but for
/// some that are between them.
#[tokio::test]
async fn replies_stay_small_when_large_nodes_follow_small_ones() {
    let server = Server::start().await.unwrap();
    let zookeeper = bystander(&server).await;
    create(&zookeeper, "/r", b"").await;
    create_many(&zookeeper, (0..2000).map(|number| format!("/r/a{number:04}")), b"x").await;
    // One is as large as the servers take it.
    let large = |at| vec![7; if at == 7 { 1_000_000 } else { 250_000 }];
    let are_large: Vec<_> =
        (0..200).map(|at| if at < 20 { format!("/r/a{at:02}00z") } else { format!("/r/z{at:04}") }).collect();
    for (at, path) in are_large.iter().enumerate() {
        create(&zookeeper, path, &large(at)).await;
    }
    let (address, largest) = measuring_relay(server.connect_string()).await;
    let client = Client::builder().drop_timeout(Duration::ZERO).connect(&address).await.unwrap();
    let cache = Cache::start(&client, "/r", CacheOptions::tree()).unwrap();
    let is_loaded = timeout(BOUND, cache.wait_current()).await.is_ok();
    let largest = largest.load(SeqCst);
    assert!(
        is_loaded && server.is_running() && largest < 2 << 20,
        "the largest reply has {largest} bytes; loaded: {is_loaded}; the server runs: {}",
        server.is_running()
    );
    let snapshot = cache.current();
    assert_eq!(snapshot.len(), 1 + 2000 + 200);
    assert!(are_large.iter().enumerate().all(|(at, path)| snapshot.data(path) == Some(&large(at))));
    zookeeper.set_data(&are_large[7], b"small", None).await.unwrap();
    let snapshot = shows(&cache, &are_large[7], Some(b"small")).await;
    let bytes = snapshot.iter().map(|node| node.path().len() + node.data().unwrap_or_default().len());
    assert_eq!(snapshot.bytes(), bytes.sum::<usize>());
}
