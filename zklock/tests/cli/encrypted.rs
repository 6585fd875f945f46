//! The command `zklock` over encrypted and authenticated connections.

use std::process::{Output, Stdio};

use tempfile::TempDir;
use tokio::process::Command;

use crate::installed::{Generation, Peers};
use crate::pki::Ca;
use crate::stage::{TlsServer, sasl_server, server};
use crate::support::{bystander_of, within};
use crate::wiretap::Wiretap;
use crate::zklock::{Running, zklock};

/// Files with certificates and keys.
struct Files(TempDir);

impl Files {
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

async fn run(tap: &Wiretap, tls: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zklock"));
    command.args(["--connect", &format!("localhost:{}", tap.port), "--connect-timeout", "10s"]).args(tls);
    command.args(["run", "/locks/encrypted", "--", "sh", "-c", "echo \"held: $ZKLOCK_PATH\""]);
    command.env_remove("ZK_CONNECT").env_remove("ZKLOCK_AUTH").stdin(Stdio::null()).kill_on_drop(true);
    within(command.output()).await.unwrap()
}

async fn locks_over_mutual_tls(generation: Generation) {
    if Peers::if_installed(generation).is_none() {
        return;
    }
    let (ca, other) = (Ca::new("ca"), Ca::new("another ca"));
    let server = TlsServer::start(server(generation), &ca.server("localhost"), &ca.pem).await;
    let files = Files(tempfile::tempdir().unwrap());
    let alice = ca.client("alice");
    let (trusted, cert, key) = (
        files.write("ca.pem", &ca.pem),
        files.write("alice.pem", &alice.certificate),
        files.write("alice.key", &alice.key),
    );
    let identity = ["--tls-cert", &cert, "--tls-key", &key];

    let tap = Wiretap::to(server.secure_port).await;
    let held = run(&tap, &[&["--tls-ca", &trusted][..], &identity].concat()).await;
    assert_eq!((held.status.code(), &*held.stdout), (Some(0), &b"held: /locks/encrypted\n"[..]), "{held:?}");
    tap.assert_encrypted();
    let sent = tap.sent().concat();
    assert!(sent.len() > 500, "it went another way");

    // Servers that it does not trust, and servers that do not trust it.
    let distrusted = files.write("other.pem", &other.pem);
    for tls in [&[&["--tls-ca", &distrusted][..], &identity].concat()[..], &["--tls-ca", &trusted]] {
        let tap = Wiretap::to(server.secure_port).await;
        let refused = run(&tap, tls).await;
        assert_eq!((refused.status.code(), &*refused.stdout), (Some(121), &b""[..]), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("TLS"), "{refused:?}");
        tap.assert_encrypted();
    }
}

#[tokio::test]
async fn a_password_is_used_for_sasl() {
    if Peers::if_installed(Generation::Debian).is_none() {
        return;
    }
    let files = tempfile::tempdir().unwrap();
    let server = sasl_server(Generation::Debian, &files).await;
    for (credentials, path, code) in [
        ("alice:right", "/locks/a", 0),
        ("alice:right", "/locks/a", 0),
        ("bob:bobs", "/locks/a", 125),
        ("bob:bobs", "/bob", 0),
        // Digest authentication would know no wrong password.
        ("alice:wrong", "/wrong", 125),
        ("", "/none", 122),
    ] {
        let arguments = ["run", "--sasl", "--creator-only", path, "--", "true"];
        let mut command = zklock(&server.connect_string(), &arguments);
        command.env("ZKLOCK_AUTH", credentials);
        let ended = Running::start(command).ended().await;
        assert_eq!(ended.code, Some(code), "{credentials}: {ended:?}");
        assert_eq!(ended.errors.contains("--auth-file"), code == 122, "{ended:?}");
    }
}

/// By those of another CA, on both sides. The files are named by the environment.
#[tokio::test]
async fn files_that_are_replaced_are_used_while_the_lock_is_held() {
    if Peers::if_installed(Generation::Debian).is_none() {
        return;
    }
    let (ca, next) = (Ca::new("ca"), Ca::new("the next ca"));
    let mut server = TlsServer::start(server(Generation::Debian), &ca.server("localhost"), &ca.pem).await;
    let files = Files(tempfile::tempdir().unwrap());
    let write = |ca: &Ca| {
        let alice = ca.client("alice");
        [
            ("ZKLOCK_TLS_KEY", files.write("alice.key", &alice.key)),
            ("ZKLOCK_TLS_CERT", files.write("alice.pem", &alice.certificate)),
            ("ZKLOCK_TLS_CA", files.write("ca.pem", &ca.pem)),
        ]
    };
    // Longer than until the files are looked at once more, should they be read in between.
    let mut command = zklock(
        &format!("localhost:{}", server.secure_port),
        &["hold", "--session-timeout", "60s", "/locks/encrypted"],
    );
    command.envs(write(&ca)).stdin(Stdio::piped());
    let mut holding = Running::start(command);
    let input = holding.input();
    let line = holding.line().await;
    let (_, node) = line.split_once(' ').unwrap();

    write(&next);
    holding.complains("the certificates were replaced").await;
    server.restart_with(&next.server("localhost"), &next.pem).await;
    let zookeeper = bystander_of(&server.server.connect_string()).await;
    assert!(zookeeper.check_stat(node).await.unwrap().is_some());
    drop(input);
    let ended = holding.ended().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(zookeeper.check_stat(node).await.unwrap(), None);
}

#[tokio::test]
async fn locks_over_mutual_tls_on_zookeeper_3_8() {
    locks_over_mutual_tls(Generation::Debian).await;
}

#[tokio::test]
async fn locks_over_mutual_tls_on_zookeeper_3_9() {
    locks_over_mutual_tls(Generation::Current).await;
}
