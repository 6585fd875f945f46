//! A proxy before a server: it notes the requests, holds replies back, and loses one.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use zk_recipes::testing::TestingServer;

/// Opcodes of requests.
pub const DELETE: i32 = 2;
pub const EXISTS: i32 = 3;
pub const GET_DATA: i32 = 4;
pub const GET_CHILDREN: i32 = 8;
pub const PING: i32 = 11;
pub const MULTI: i32 = 14;
pub const CREATE2: i32 = 15;
pub const REMOVE_WATCHES: i32 = 18;

/// Forwards between clients and one server, frame by frame.
pub struct Proxy {
    address: String,
    shared: Arc<Shared>,
    accepting: tokio::task::JoinHandle<()>,
}

struct Shared {
    server: String,
    requests: Mutex<Vec<i32>>,
    replies: AtomicUsize,
    holding: watch::Sender<bool>,
    holding_from: Mutex<Option<i32>>,
    losing: Mutex<Option<(i32, oneshot::Sender<()>)>>,
}

impl Proxy {
    pub async fn start(server: &TestingServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared {
            server: server.connect_string(),
            requests: Mutex::default(),
            replies: AtomicUsize::new(0),
            holding: watch::Sender::new(false),
            holding_from: Mutex::default(),
            losing: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Self { address, shared, accepting }
    }

    pub fn connect_string(&self) -> &str {
        &self.address
    }

    /// The opcodes of the requests since the last call, without pings.
    pub fn take_requests(&self) -> Vec<i32> {
        std::mem::take(&mut self.shared.requests.lock().unwrap())
    }

    /// The number of requests since the last [`take_requests`](Self::take_requests).
    pub fn requests_seen(&self) -> usize {
        self.shared.requests.lock().unwrap().len()
    }

    /// The number of replies that the server has given so far, also of those held back.
    pub fn replies_seen(&self) -> usize {
        self.shared.replies.load(SeqCst)
    }

    /// Holds all replies back, or lets them go.
    pub fn hold_replies(&self, hold: bool) {
        self.shared.holding.send_replace(hold);
    }

    /// Holds back the reply to the next request with this opcode, and all later ones.
    pub fn hold_from_reply_to(&self, opcode: i32) {
        *self.shared.holding_from.lock().unwrap() = Some(opcode);
    }

    /// Whether replies are held back.
    pub fn is_holding(&self) -> bool {
        *self.shared.holding.borrow()
    }

    /// Lets the next request with this opcode through, waits for the server's reply, and cuts the connection
    /// instead of forwarding it. The receiver hears when that has happened.
    pub fn lose_reply_to(&self, opcode: i32) -> oneshot::Receiver<()> {
        let (lost, heard) = oneshot::channel();
        *self.shared.losing.lock().unwrap() = Some((opcode, lost));
        heard
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let shared = shared.clone();
        tokio::spawn(async move {
            if let Ok(server) = TcpStream::connect(&shared.server).await {
                // Either side may close whenever it likes.
                let _ = forward(client, server, &shared).await;
            }
        });
    }
}

async fn forward(client: TcpStream, server: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let awaited = Mutex::new(None);
    let held_from = Mutex::new(None);
    // The first frame of either side is the handshake.
    let requests = async {
        let handshake = read_frame(&mut from_client).await?;
        write_frame(&mut to_server, &handshake).await?;
        loop {
            let frame = read_frame(&mut from_client).await?;
            let opcode = number_at(&frame, 4);
            if opcode != PING {
                shared.requests.lock().unwrap().push(opcode);
            }
            if shared.holding_from.lock().unwrap().take_if(|from| *from == opcode).is_some() {
                *held_from.lock().unwrap() = Some(number_at(&frame, 0));
            }
            let lost = shared.losing.lock().unwrap().take_if(|(losing, _)| *losing == opcode);
            if let Some((_, lost)) = lost {
                *awaited.lock().unwrap() = Some((number_at(&frame, 0), lost));
            }
            write_frame(&mut to_server, &frame).await?;
        }
    };
    let (given, mut replies) = mpsc::unbounded_channel();
    let giving = async {
        let handshake = read_frame(&mut from_server).await?;
        let _ = given.send(handshake);
        loop {
            let frame = read_frame(&mut from_server).await?;
            let xid = number_at(&frame, 0);
            if let Some((_, lost)) = awaited.lock().unwrap().take_if(|(awaited, _)| *awaited == xid) {
                let _ = lost.send(());
                return Ok(());
            }
            if held_from.lock().unwrap().take_if(|from| *from == xid).is_some() {
                shared.holding.send_replace(true);
            }
            shared.replies.fetch_add(1, SeqCst);
            let _ = given.send(frame);
        }
    };
    let forwarding = async {
        let mut holding = shared.holding.subscribe();
        while let Some(frame) = replies.recv().await {
            let _ = holding.wait_for(|holding| !holding).await;
            write_frame(&mut to_client, &frame).await?;
        }
        Ok(())
    };
    tokio::select! {
        ended = requests => ended,
        ended = giving => ended,
        ended = forwarding => ended,
    }
}

fn number_at(frame: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(frame[at..at + 4].try_into().unwrap())
}

async fn read_frame(from: &mut (impl AsyncReadExt + Unpin)) -> std::io::Result<Vec<u8>> {
    let mut frame = vec![0; from.read_u32().await? as usize];
    from.read_exact(&mut frame).await?;
    Ok(frame)
}

async fn write_frame(to: &mut (impl AsyncWriteExt + Unpin), frame: &[u8]) -> std::io::Result<()> {
    let mut bytes = (frame.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(frame);
    to.write_all(&bytes).await
}
