//! Passwords.

use std::os::unix::ffi::OsStrExt;

use rustix::process::Signal;
use zk_recipes::Client;
use zk_recipes::testing::MemoryServer;

use crate::pki::Ca;
use crate::support::{acquire_in_task, bystander_of, empty_server, mutex_at, queue_of};
use crate::zklock::{Running, UNTIL_TERM, done, done_at, zklock};

const SECRET: &str = "zklock-tests:a-secret-word";

#[tokio::test]
async fn passwords_are_in_no_command_line_and_not_passed_on() {
    let server = empty_server().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{SECRET}\n")).unwrap();
    let file = file.path().to_str().unwrap();
    let script = format!("env; {UNTIL_TERM}");
    let by_file = zklock(
        &server.connect_string(),
        &["run", "--auth-file", file, "--creator-only", "/locks/a", "--", "sh", "-c", &script],
    );
    let mut by_environment =
        zklock(&server.connect_string(), &["run", "--creator-only", "/locks/b", "--", "sh", "-c", &script]);
    by_environment.env("ZKLOCK_AUTH", SECRET);
    for (command, path) in [(by_file, "/locks/a"), (by_environment, "/locks/b")] {
        let mut running = Running::start(command);
        loop {
            let line = running.line().await;
            assert!(!line.contains("a-secret-word"), "{line}");
            if line == "started" {
                break;
            }
        }
        let command_line = std::fs::read(format!("/proc/{}/cmdline", running.id())).unwrap();
        assert!(!String::from_utf8_lossy(&command_line).contains("a-secret-word"));
        // The node is its own, and it is told so without the password.
        let others = done(&server, &["show", path]).await;
        assert_eq!(others.code, Some(125), "{others:?}");
        assert!(others.errors.contains("--auth-file"), "{others:?}");
        let client =
            Client::builder().auth("digest", SECRET).connect(&server.connect_string()).await.unwrap();
        assert_eq!(client.zookeeper().await.unwrap().list_children(path).await.unwrap().len(), 1);
        running.send(rustix::process::Signal::TERM);
        let ended = running.ended().await;
        assert_eq!(ended.code, Some(3), "{ended:?}");
        assert!(!ended.errors.contains("a-secret-word"), "{ended:?}");
    }
    // What is not as it should be is not printed either.
    let mut wrong = zklock(&server.connect_string(), &["ls"]);
    wrong.env("ZKLOCK_AUTH", std::ffi::OsStr::from_bytes(b"a-secret-word"));
    let ended = Running::start(wrong).ended().await;
    assert_eq!(ended.code, Some(122), "{ended:?}");
    assert!(!ended.errors.contains("a-secret-word"), "{ended:?}");
}

/// Passwords alone reserve nothing.
#[tokio::test]
async fn nodes_that_stay_open_in_spite_of_a_password_are_told() {
    let server = MemoryServer::start().unwrap();
    let started = |arguments: &[&str]| {
        let mut command = zklock(&server.connect_string(), arguments);
        command.env("ZKLOCK_AUTH", SECRET);
        Running::start(command).ended()
    };
    for command in ["run", "elect"] {
        for (option, is_open) in [(None, true), (Some("--creator-only"), false)] {
            let arguments: Vec<_> = [command].into_iter().chain(option).collect();
            let path = format!("/{command}{}", option.unwrap_or_default());
            let ended = started(&[&arguments[..], &[&*path, "--", "true"]].concat()).await;
            assert_eq!(ended.code, Some(0), "{ended:?}");
            assert_eq!(ended.errors.contains("--creator-only"), is_open, "{ended:?}");
        }
    }
    let looked = started(&["ls"]).await;
    assert_eq!((looked.code, &*looked.errors), (Some(0), ""), "it creates nothing");
}

/// Nothing is sent in the clear that was to be encrypted.
#[tokio::test]
async fn what_cannot_encrypt_says_so() {
    let server = empty_server().await;
    let ca = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ca.path(), Ca::new("ca").pem).unwrap();
    let ca = ca.path().to_str().unwrap();
    for (options, hint) in [
        (&["--tls-ca", "/dev/null", "ls"][..], "no certificates in /dev/null"),
        (
            &["--tls-ca", ca, "--tls-cert", "/dev/null", "--tls-key", "/dev/null", "ls"],
            "are not a certificate and its key",
        ),
        (&["--tls-ca", "/dev/null", "doctor"], "no certificates in /dev/null"),
        (&["--tls-cert", "/dev/null", "ls"], "--tls-key"),
    ] {
        let ended = done(&server, options).await;
        assert_eq!((ended.code, &*ended.output), (Some(122), ""), "{options:?}: {ended:?}");
        assert!(ended.errors.contains(hint), "{ended:?}");
    }
}

/// A holder whose node others may not read, at a path that they may list.
async fn with_a_secret_holder() -> (MemoryServer, Running) {
    let server = MemoryServer::start().unwrap();
    let connect = server.connect_string();
    // It leaves the path open to everyone.
    assert_eq!(done_at(&connect, &["run", "/open/a", "--", "true"]).await.code, Some(0));
    let mut secret = zklock(&connect, &["--creator-only", "run", "/open/a", "--", "sh", "-c", UNTIL_TERM]);
    secret.env("ZKLOCK_AUTH", SECRET);
    let mut secret = Running::start(secret);
    secret.says("started").await;
    (server, secret)
}

#[tokio::test]
async fn one_node_that_may_not_be_read_does_not_hide_all_others() {
    let (server, _secret) = with_a_secret_holder().await;
    let connect = server.connect_string();
    let zookeeper = bystander_of(&connect).await;
    let [client, other] =
        [Client::connect(&connect).await.unwrap(), Client::connect(&connect).await.unwrap()];
    let _one = mutex_at(&client, "/locks/a").acquire().await.unwrap();
    let _two = mutex_at(&other, "/locks/b").acquire().await.unwrap();
    for (client, path) in [(&client, "/locks/b"), (&other, "/locks/a"), (&client, "/open/a")] {
        acquire_in_task(&mutex_at(client, path));
        queue_of(&zookeeper, path, 2).await;
    }
    let found = done_at(&connect, &["deadlocks", "/"]).await;
    assert_eq!(found.code, Some(119), "{found:?}");
    assert!(found.errors.contains("left out /open/a"), "{found:?}");
    let listed = done_at(&connect, &["ls", "/"]).await;
    assert_eq!(listed.code, Some(0), "{listed:?}");
    for path in ["/locks/a", "/locks/b", "/open/a"] {
        assert!(listed.output.contains(path), "{listed:?}");
    }
}

#[tokio::test]
async fn an_inner_run_waits_for_a_holder_that_may_not_be_read() {
    let (server, secret) = with_a_secret_holder().await;
    let zookeeper = bystander_of(&server.connect_string()).await;
    let mut inner = zklock(&server.connect_string(), &["run", "/open/a", "--", "echo", "ran"]);
    inner.env("ZKLOCK_HELD", "0x1 /outer/_c_x-lock-0000000000");
    let running = Running::start(inner);
    queue_of(&zookeeper, "/open/a", 2).await;
    secret.send(Signal::TERM);
    assert_eq!(secret.ended().await.code, Some(3));
    let ended = running.ended().await;
    assert_eq!((ended.code, &*ended.output), (Some(0), "ran\n"), "{ended:?}");
}
