//! `zklock doctor`.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::Value;
use zk_recipes::testing::TestingServer;
use zk_recipes::{Acl, AuthId, Permission, zookeeper_client as zk};

use crate::support::{Server, bystander, children, empty_server};
use crate::zklock::{Running, done, json, zklock};

/// The level and text of the findings of a check.
fn of(told: &Value, check: &str) -> Vec<(String, String)> {
    let findings = told["findings"].as_array().unwrap().iter();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    findings
        .filter(|finding| finding["check"] == check)
        .map(|finding| (text(finding, "level"), text(finding, "text")))
        .collect()
}

fn assert_says(told: &Value, check: &str, level: &str, text: &str) {
    let findings = of(told, check);
    assert!(
        findings.iter().any(|(found, said)| found == level && said.contains(text)),
        "{check} {level} {text}: {told:#}"
    );
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn a_good_server_has_no_problem() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let before = children(&zookeeper, "/").await;
    let told = json(&server, &["doctor", "--json"]).await;
    assert_says(&told, "server", "warning", "standalone");
    assert_says(&told, "settings", "ok", "tick 100ms");
    assert_says(&told, "load", "ok", "latency");
    assert_says(&told, "session", "ok", "15s");
    assert_says(&told, "lock", "ok", "acquired in");
    assert_says(&told, "container nodes", "ok", "supported");
    // They run on this machine.
    assert_says(&told, "clock", "ok", "to within");
    let ttl = of(&told, "TTL nodes");
    assert!(ttl.len() == 1 && ttl[0].0 == "ok", "{ttl:?}");
    assert_eq!(of(&told, "version").len(), 1);
    assert_eq!(children(&zookeeper, "/").await, before, "the path that was tried is removed");
    let text = done(&server, &["doctor"]).await;
    assert_eq!(text.code, Some(0), "{text:?}");
    assert_eq!(text.output.lines().count(), 1 + told["findings"].as_array().unwrap().len(), "{text:?}");
}

#[tokio::test]
#[ignore = "needs a real ZooKeeper"]
async fn what_may_not_be_asked_is_said() {
    let builder = TestingServer::builder()
        .property("4lw.commands.whitelist", "srvr, ruok")
        .session_timeout_bounds(Duration::from_secs(1), Duration::from_secs(5))
        .system_property("zookeeper.extendedTypesEnabled", "true");
    let server = Server::from(builder.start().await.unwrap());
    let told = json(&server, &["--session-timeout", "1m", "doctor", "--json"]).await;
    assert_says(&told, "settings", "ok", "`conf` is not in its 4lw.commands.whitelist");
    assert_says(&told, "load", "ok", "`mntr` is not in its 4lw.commands.whitelist");
    assert_says(&told, "session", "warning", "the servers grant 5s");
    assert_says(&told, "TTL nodes", "ok", "supported");
}

#[tokio::test]
async fn paths_that_let_everybody_in_are_told() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let anyone = |permission| Acl::new(permission, AuthId::anyone());
    for (path, acls) in [
        ("/open", vec![anyone(Permission::ALL)]),
        ("/half", vec![anyone(Permission::READ), anyone(Permission::CREATE | Permission::DELETE)]),
        ("/shown", vec![anyone(Permission::READ), Acl::new(Permission::ALL, AuthId::new("ip", "127.0.0.1"))]),
    ] {
        let options = zk::CreateMode::Persistent.with_acls((&*acls).into());
        zookeeper.create(path, b"", &options).await.unwrap();
    }
    let told = json(&server, &["doctor", "--json", "/open", "/half", "/shown", "/absent", "/"]).await;
    let found: Vec<_> = of(&told, "acl");
    let levels: Vec<_> = found.iter().map(|(level, _)| &**level).collect();
    assert_eq!(levels, ["warning", "warning", "ok", "warning", "warning"], "{found:?}");
    assert!(
        found[0].1.contains("WRITE|CREATE|DELETE|ADMIN") && found[1].1.contains("CREATE|DELETE:"),
        "{found:?}"
    );
    assert!(found[2].1.contains("world:anyone may READ, ip:127.0.0.1 may "), "{found:?}");
    assert!(found[3].1.starts_with("does not exist; at /, everyone"), "{found:?}");
    zookeeper.delete("/shown", None).await.unwrap();
}

#[tokio::test]
async fn no_server_is_a_problem() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = port.local_addr().unwrap().to_string();
    drop(port);
    let ended =
        Running::start(zklock(&nowhere, &["--connect-timeout=500ms", "doctor", "--json"])).ended().await;
    assert_eq!(ended.code, Some(118), "{ended:?}");
    let told: Value = serde_json::from_str(&ended.output).unwrap();
    assert_says(&told, "server", "problem", "refused");
    assert_says(&told, "session", "problem", &nowhere);
}
