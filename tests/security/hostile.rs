//! Servers that answer an authentication by SASL with what `zookeeper-client` loops or panics at: they get no other
//! client of the process.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zk_recipes::testing::MemoryServer;
use zk_recipes::{Client, Error, InterProcessMutex};
use zookeeper_client::{self as zk, SaslOptions};

use crate::support::alone::is_alone;
use crate::support::within;

/// Makes the parser loop.
const LOOP: &str = r#"nonce="\"\"x",realm="r",charset=utf-8,algorithm=md5-sess"#;
/// Makes it panic.
const PANIC: &str = "nonce=\"\\é\",realm=\"r\"";

const SASL: i32 = 102;

#[test]
fn a_handshake_that_loops_stops_no_other_client() {
    let name = "hostile::a_handshake_that_loops_stops_no_other_client";
    the_others_go_on_alone(name, LOOP, "earlier handshakes do not end");
}

#[test]
fn a_handshake_that_panics_is_a_failed_attempt() {
    let name = "hostile::a_handshake_that_panics_is_a_failed_attempt";
    the_others_go_on_alone(name, PANIC, "the handshake panicked");
}

/// A thread is lost, and computes until its process ends.
fn the_others_go_on_alone(name: &str, challenge: &'static str, told: &str) {
    if is_alone(name) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(the_others_go_on(challenge, told));
    }
}

async fn the_others_go_on(challenge: &'static str, told: &str) {
    let sound = MemoryServer::start().unwrap();
    let bystander = Client::connect(&sound.connect_string()).await.unwrap();
    let guard = within(InterProcessMutex::new(&bystander, "/held").unwrap().acquire()).await.unwrap();

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hosts = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, challenge));
        }
    });
    // Each attempt lasts for a second.
    let victim = Client::builder()
        .session_timeout(Duration::from_secs(2))
        .connection_timeout(Duration::from_secs(6))
        .sasl(SaslOptions::digest_md5("alice", "secret"))
        .connect_lazily(&hosts)
        .unwrap();
    let error = within(victim.wait_connected()).await.unwrap_err();
    let Error::NotConnected { source: Some(zk::Error::UnexpectedError(why)), .. } = &error else {
        panic!("{error:?}");
    };
    assert!(why.contains(told), "{why}");
    assert!(!victim.is_closed(), "it goes on trying");

    assert!(guard.is_valid());
    within(guard.release()).await.unwrap();
    drop(within(InterProcessMutex::new(&bystander, "/other").unwrap().acquire()).await.unwrap());
    drop(within(Client::connect(&sound.connect_string())).await.unwrap());
    within(victim.close()).await;
}

/// Grants a session, and answers the authentication by the challenge.
async fn serve(mut stream: TcpStream, challenge: &str) -> std::io::Result<()> {
    read_frame(&mut stream).await?;
    let mut granted = Vec::new();
    for (number, bytes) in [(0, 4), (10_000, 4), (0x77, 8), (16, 4)] {
        granted.extend(&i64::to_be_bytes(number)[8 - bytes..]);
    }
    granted.extend([7; 16]);
    granted.push(0);
    write_frame(&mut stream, &granted).await?;
    loop {
        let request = read_frame(&mut stream).await?;
        let opcode = i32::from_be_bytes(request[4..8].try_into().unwrap());
        // The number of the request, a transaction, and no error.
        let mut reply = request[..4].to_vec();
        reply.extend([0; 12]);
        if opcode == SASL {
            reply.extend(i32::try_from(challenge.len()).unwrap().to_be_bytes());
            reply.extend(challenge.as_bytes());
        }
        write_frame(&mut stream, &reply).await?;
    }
}

async fn read_frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut frame = vec![0; usize::try_from(stream.read_i32().await?).unwrap()];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}

async fn write_frame(stream: &mut TcpStream, frame: &[u8]) -> std::io::Result<()> {
    stream.write_i32(i32::try_from(frame.len()).unwrap()).await?;
    stream.write_all(frame).await
}
