//! Passwords are neither traced nor printed.

use std::fmt::Debug;
use std::fs;

use zk_recipes::testing::{FaultProxy, TestingServer, kill_session};
use zk_recipes::{InterProcessMutex, LeaderLatch, LeaderOptions};
use zookeeper_client::{SaslOptions, TlsOptions};

use crate::capture;
use crate::installed::Generation;
use crate::pki::Ca;
use crate::stage::{PATIENCE, TlsServer, builder, server};
use crate::support::within;

const DIGEST: &str = "marker-of-digest-4711";
const SASL: &str = "marker-of-sasl-4712";
const WRONG: &str = "marker-of-nobody-4713";

#[derive(Default)]
struct Printed(Vec<String>);

impl Printed {
    fn debug(&mut self, value: &impl Debug) {
        self.0.push(format!("{value:?} {value:#?}"));
    }

    fn error(&mut self, error: &zk_recipes::Error) {
        self.debug(error);
        self.0.push(error.to_string());
    }
}

/// As text, as a list of bytes, and in hexadecimal.
fn forms(secret: &str) -> [String; 3] {
    let list = format!("{:?}", secret.as_bytes());
    let hex = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    [secret.to_owned(), list.trim_matches(['[', ']']).to_owned(), hex]
}

async fn started(generation: Generation) -> (TestingServer, tempfile::TempDir) {
    let files = tempfile::tempdir().unwrap();
    let jaas = files.path().join("jaas.conf");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
    fs::write(&jaas, format!("Server {{ {module} required user_alice=\"{SASL}\"; }};")).unwrap();
    let server = server(generation)
        .property("authProvider.sasl", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider")
        .system_property("java.security.auth.login.config", jaas.to_str().unwrap());
    (server.start().await.unwrap(), files)
}

pub(crate) async fn no_secret_is_printed(generation: Generation) {
    capture::start();
    let (server, _files) = started(generation).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let mut printed = Printed::default();

    // A client with every credential through acquires, a lost connection and a lost session.
    let settings = builder()
        .auth("digest", format!("alice:{DIGEST}"))
        .sasl(SaslOptions::digest_md5("alice", SASL))
        .creator_only();
    printed.debug(&settings);
    let client = within(settings.connect(&proxy.connect_string())).await.unwrap();
    printed.debug(&client);
    let mutex = InterProcessMutex::new(&client, "/secret/lock").unwrap();
    let guard = within(mutex.acquire()).await.unwrap();
    printed.debug(&(&mutex, &guard));
    let mut state = client.watch_connection();
    proxy.cut();
    within(state.wait_for(|state| !state.is_connected())).await.unwrap();
    within(state.wait_for(|state| state.is_connected())).await.unwrap();
    within(kill_session(&client)).await.unwrap();
    within(guard.lost()).await;
    printed.debug(&guard);
    if let Err(error) = within(guard.release()).await {
        printed.error(&error);
    }
    drop(within(mutex.acquire()).await.unwrap());
    let latch = LeaderLatch::start(&client, "/secret/latch", LeaderOptions::default()).unwrap();
    printed.debug(&latch);

    // Refused: by the path's ACL, by the password.
    let bob = builder().auth("digest", format!("bob:{WRONG}")).creator_only();
    let bob = within(bob.connect(&proxy.connect_string())).await.unwrap();
    let bobs = InterProcessMutex::new(&bob, "/secret/lock").unwrap();
    printed.error(&within(bobs.acquire()).await.unwrap_err());
    let wrong = builder().sasl(SaslOptions::digest_md5("alice", WRONG));
    printed.error(&within(wrong.connect(&proxy.connect_string())).await.unwrap_err());
    let unknown = builder().auth("no-such-scheme", WRONG).connection_timeout(PATIENCE);
    if let Err(error) = within(unknown.connect(&proxy.connect_string())).await {
        printed.error(&error);
    }
    // Refused: by nobody there.
    proxy.refuse_connections(true).unwrap();
    let away = builder().auth("digest", format!("bob:{WRONG}")).connection_timeout(PATIENCE);
    printed.error(&within(away.connect(&proxy.connect_string())).await.unwrap_err());

    // The key of a client's certificate.
    let ca = Ca::new("ca");
    let identity = ca.client("alice");
    let other = self::server(generation);
    let encrypted = TlsServer::start(other, &ca.server("localhost"), &ca.pem).await;
    let options = TlsOptions::new().with_pem_ca(&ca.pem).unwrap();
    let options = options.with_pem_identity(&identity.certificate, &identity.key).unwrap();
    let settings = builder().tls(options).creator_only();
    printed.debug(&settings);
    let hosts = format!("tcp+tls://localhost:{}", encrypted.secure_port);
    printed.debug(&within(settings.connect(&hosts)).await.unwrap());
    let key = identity.key.lines().nth(1).expect("a key has lines").to_owned();

    let traced = capture::lines();
    // What is searched has what it should have.
    assert!(traced.iter().any(|line| line.contains("TRACE") || line.contains("DEBUG zookeeper_client")));
    assert!(
        traced.iter().any(|line| line.contains("zk_recipes") && line.contains("connection state changed"))
    );
    let secrets = [DIGEST, SASL, WRONG, &key].into_iter().flat_map(forms);
    for secret in secrets {
        for text in traced.iter().chain(&printed.0) {
            assert!(!text.contains(&secret), "a secret is printed: {text}");
        }
    }
}
