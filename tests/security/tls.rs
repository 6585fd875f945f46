//! Encrypted connections.

use zk_recipes::{ClientBuilder, ConnectionState, Error, InterProcessMutex, LockState};
use zookeeper_client::{TlsCa, TlsCerts, TlsDynamicCerts, TlsIdentity, TlsOptions};

use crate::installed::Generation;
use crate::pki::{Ca, Identity};
use crate::stage::{PATIENCE, TlsServer, builder, hold_over_a_cut, lock_once, server};
use crate::support::within;
use crate::wiretap::Wiretap;

const SECRET: &str = "in-the-clear-99";

fn options(ca: &Ca, identity: Option<&Identity>) -> TlsOptions {
    let options = TlsOptions::new().with_pem_ca(&ca.pem).unwrap();
    match identity {
        None => options,
        Some(identity) => options.with_pem_identity(&identity.certificate, &identity.key).unwrap(),
    }
}

fn client(options: TlsOptions) -> ClientBuilder {
    builder().tls(options).auth("digest", format!("alice:{SECRET}"))
}

/// No session, in good time, with an error that says where to look; and whoever listens has learnt nothing.
async fn refused(what: &str, client: ClientBuilder, host: &str, tap: &Wiretap) {
    let hosts = format!("tcp+tls://{host}:{}", tap.port);
    let error = within(client.connection_timeout(PATIENCE).connect(&hosts)).await.expect_err(what);
    assert!(matches!(error, Error::NotConnected { .. }), "{what}: {error}");
    let text = error.to_string();
    assert!(text.contains("TLS") && text.contains(&tap.port.to_string()), "{what}: {text}");
    tap.assert_encrypted();
    for sent in tap.sent() {
        assert!(!contains(&sent, SECRET), "{what}");
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

pub(crate) async fn locks_work_over_mutual_tls_and_nothing_is_sent_in_the_clear(generation: Generation) {
    let server = server(generation);
    let ca = Ca::new("ca");
    let server = TlsServer::start(server, &ca.server("localhost"), &ca.pem).await;
    let tap = Wiretap::to(server.secure_port).await;
    let client = client(options(&ca, Some(&ca.client("alice")))).creator_only();
    let client = within(client.connect(&format!("tcp+tls://localhost:{}", tap.port))).await.unwrap();
    lock_once(&client, "/locks/encrypted").await;
    hold_over_a_cut(&client, "/locks/encrypted", &tap).await;
    tap.assert_encrypted();
    let sent = tap.sent().concat();
    assert!(sent.len() > 500, "it went another way");
    assert!(!contains(&sent, SECRET) && !contains(&sent, "/locks"));
    // The tap sees what is sent in the clear.
    let plain = Wiretap::to(server.server.port()).await;
    let open = builder().auth("digest", format!("alice:{SECRET}")).creator_only();
    let open = within(open.connect(&format!("localhost:{}", plain.port))).await.unwrap();
    let mutex = InterProcessMutex::new(&open, "/others/a").unwrap();
    drop(within(mutex.acquire()).await.unwrap());
    assert!(contains(&plain.sent().concat(), SECRET) && contains(&plain.sent().concat(), "/others"));
}

pub(crate) async fn servers_that_cannot_be_trusted_get_nothing(generation: Generation) {
    let server = server(generation);
    let ca = Ca::new("ca");
    let server = TlsServer::start(server, &ca.server("localhost"), &ca.pem).await;
    let alice = ca.client("alice");
    let good = options(&ca, Some(&alice));
    let tap = || Wiretap::to(server.secure_port);
    let other_ca = Ca::new("another ca");
    refused("another CA", client(options(&other_ca, Some(&alice))), "localhost", &tap().await).await;
    refused("another host name", client(good.clone()), "127.0.0.1", &tap().await).await;
    refused("no client certificate", client(options(&ca, None)), "localhost", &tap().await).await;
    let stranger = options(&ca, Some(&other_ca.client("mallory")));
    refused("a client certificate of another CA", client(stranger), "localhost", &tap().await).await;
    // The plain port of the same server takes no encrypted connection, and is given no other.
    let plain = Wiretap::to(server.server.port()).await;
    refused("a server that does not encrypt", client(good.clone()), "localhost", &plain).await;
    // It was not for anything else.
    let tap = tap().await;
    drop(
        within(client(good).creator_only().connect(&format!("tcp+tls://localhost:{}", tap.port)))
            .await
            .unwrap(),
    );
}

pub(crate) async fn an_expired_certificate_is_refused(generation: Generation) {
    let server = server(generation);
    let ca = Ca::new("ca");
    let server = TlsServer::start(server, &ca.expired_server("localhost"), &ca.pem).await;
    let tap = Wiretap::to(server.secure_port).await;
    let alice = ca.client("alice");
    refused("an expired certificate", client(options(&ca, Some(&alice))), "localhost", &tap).await;
}

/// By those of another CA, on both sides.
pub(crate) async fn certificates_are_replaced_while_a_lock_is_held(generation: Generation) {
    let [(old, alice), (new, alice_again)] = ["ca", "the next ca"].map(|name| {
        let ca = Ca::new(name);
        let alice = ca.client("alice");
        (ca, alice)
    });
    let certs = |ca: &Ca, identity: &Identity| {
        let identity = TlsIdentity::from_pem(&identity.certificate, &identity.key).unwrap();
        TlsCerts::builder()
            .with_ca(TlsCa::from_pem(&ca.pem).unwrap())
            .with_identity(identity)
            .build()
            .unwrap()
    };
    let mut server = TlsServer::start(server(generation), &old.server("localhost"), &old.pem).await;
    let current = TlsDynamicCerts::new(certs(&old, &alice));
    let hosts = format!("tcp+tls://localhost:{}", server.secure_port);
    let client = client(TlsOptions::new().with_certs(current.clone()));
    let client = within(client.connect(&hosts)).await.unwrap();
    let guard = within(InterProcessMutex::new(&client, "/locks/a").unwrap().acquire()).await.unwrap();

    current.update(certs(&new, &alice_again));
    server.restart_with(&new.server("localhost"), &new.pem).await;
    let mut states = client.watch_connection();
    within(states.wait_for(|state| *state == ConnectionState::Reconnected)).await.unwrap();
    within(guard.watch_state().wait_for(|state| *state == LockState::Held)).await.unwrap();
    within(guard.release()).await.unwrap();
    let tap = Wiretap::to(server.secure_port).await;
    refused("replaced certificates", self::client(options(&old, Some(&alice))), "localhost", &tap).await;
}

pub(crate) async fn creator_only_counts_certificates(generation: Generation) {
    let server = server(generation);
    let ca = Ca::new("ca");
    let server = TlsServer::start(server, &ca.server("localhost"), &ca.pem).await;
    let hosts = format!("tcp+tls://localhost:{}", server.secure_port);
    let user = async |name: &str| {
        let client = builder().tls(options(&ca, Some(&ca.client(name)))).creator_only();
        within(client.connect(&hosts)).await.unwrap()
    };
    let (alice, alice_again, bob) = (user("alice").await, user("alice").await, user("bob").await);
    lock_once(&alice, "/alice/lock").await;
    lock_once(&alice_again, "/alice/lock").await;
    let mutex = InterProcessMutex::new(&bob, "/alice/lock").unwrap();
    let error = within(mutex.acquire()).await.unwrap_err();
    assert!(error.to_string().contains("lack a permission"), "{error}");
}
