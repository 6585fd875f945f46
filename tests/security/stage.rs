//! Servers that encrypt, and servers that know passwords.

use std::fs;
use std::time::Duration;

use tempfile::TempDir;
use zk_recipes::testing::{TestingServer, TestingServerBuilder};
use zk_recipes::{Client, ClientBuilder, ConnectionState, InterProcessMutex, LockState, RetryPolicy};

use crate::installed::{Generation, Peers};
use crate::pki::Identity;
use crate::support::{BOUND, within};
use crate::wiretap::Wiretap;

/// How long those wait that must fail.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);

/// A server of that generation.
pub(crate) fn server(generation: Generation) -> TestingServerBuilder {
    let mut class_path = Peers::of(generation).class_path;
    if let Generation::Debian = generation {
        // The package does not name all of Netty that it needs.
        for part in ["buffer", "codec", "common", "handler", "resolver", "transport"] {
            class_path.push_str(&format!(":/usr/share/java/netty-{part}.jar"));
        }
        for part in ["unix-common", "epoll"] {
            class_path.push_str(&format!(":/usr/share/java/netty-transport-native-{part}.jar"));
        }
    }
    TestingServer::builder().class_path(class_path)
}

/// A server that knows the passwords of Alice and Bob, for SASL with DIGEST-MD5.
pub(crate) async fn sasl_server(generation: Generation, files: &TempDir) -> TestingServer {
    let jaas = files.path().join("jaas.conf");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
    fs::write(&jaas, format!("Server {{ {module} required user_alice=\"right\" user_bob=\"bobs\"; }};"))
        .unwrap();
    server(generation)
        .property("authProvider.sasl", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider")
        .system_property("java.security.auth.login.config", jaas.to_str().unwrap())
        .start()
        .await
        .unwrap()
}

/// A server with an encrypted port beside the plain one.
pub(crate) struct TlsServer {
    pub(crate) server: TestingServer,
    pub(crate) secure_port: u16,
    files: TempDir,
}

impl TlsServer {
    /// It demands that clients have certificates of this CA.
    pub(crate) async fn start(server: TestingServerBuilder, identity: &Identity, clients: &str) -> Self {
        let files = tempfile::tempdir().unwrap();
        let [key_store, trust_store] = write_stores(&files, identity, clients);
        // Somebody else may take the port before the server does.
        for _ in 0..5 {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let secure_port = free.local_addr().unwrap().port();
            drop(free);
            let started = server
                .clone()
                .property("secureClientPort", secure_port.to_string())
                .property("secureClientPortAddress", "127.0.0.1")
                .property("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory")
                .property("ssl.keyStore.type", "PEM")
                .property("ssl.keyStore.location", &key_store)
                .property("ssl.trustStore.type", "PEM")
                .property("ssl.trustStore.location", &trust_store)
                .property("authProvider.x509", "org.apache.zookeeper.server.auth.X509AuthenticationProvider")
                .start()
                .await;
            match started {
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
                started => return Self { server: started.unwrap(), secure_port, files },
            }
        }
        panic!("no free port for encrypted connections");
    }

    /// Restarts it with another identity and another CA of its clients.
    pub(crate) async fn restart_with(&mut self, identity: &Identity, clients: &str) {
        write_stores(&self.files, identity, clients);
        self.server.restart().await.unwrap();
    }
}

/// Writes the key store and the trust store of a server, and returns their paths.
fn write_stores(files: &TempDir, identity: &Identity, clients: &str) -> [String; 2] {
    let own = format!("{}{}", identity.key, identity.certificate);
    [("server.pem", own.as_str()), ("clients.pem", clients)].map(|(name, text)| {
        let path = files.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    })
}

/// A client that does nothing twice, and has time for handshakes on a busy machine.
pub(crate) fn builder() -> ClientBuilder {
    Client::builder()
        .session_timeout(Duration::from_secs(20))
        .connection_timeout(BOUND)
        .retry_policy(RetryPolicy::n_times(0, Duration::from_millis(10)))
}

/// Acquires and releases, which takes a session that works.
pub(crate) async fn lock_once(client: &Client, path: &str) {
    let mutex = InterProcessMutex::new(client, path).unwrap();
    let guard = within(mutex.acquire()).await.unwrap();
    assert!(guard.is_valid());
    within(guard.release()).await.unwrap();
}

/// Each connection of a session is made and authenticated anew, so that a hold outlasts those before.
pub(crate) async fn hold_over_a_cut(client: &Client, path: &str, tap: &Wiretap) {
    let guard = within(InterProcessMutex::new(client, path).unwrap().acquire()).await.unwrap();
    let mut state = client.watch_connection();
    let connections = tap.sent().len();
    tap.cut();
    within(state.wait_for(|state| *state == ConnectionState::Reconnected)).await.unwrap();
    within(guard.watch_state().wait_for(|state| *state == LockState::Held)).await.unwrap();
    within(guard.release()).await.unwrap();
    lock_once(client, path).await;
    assert!(tap.sent().len() > connections);
}
