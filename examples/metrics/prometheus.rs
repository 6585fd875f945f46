//! The example's alerts and dashboard, in a Prometheus that watches the example's service.
//!
//! Prometheus is installed by `tests/interop/install-peers`, or found on the `PATH`.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};
use zk_recipes::testing::TestingServer;

/// When something must have gone wrong.
const BOUND: Duration = Duration::from_secs(120);

type Failed = Box<dyn Error>;

#[test]
#[ignore = "it needs Prometheus, which tests/interop/install-peers installs"]
fn the_configuration_is_valid() -> Result<(), Failed> {
    promtool(&["check", "config", "prometheus.yml"])
}

#[test]
#[ignore = "it needs Prometheus, which tests/interop/install-peers installs"]
fn alerts_fire_as_they_should() -> Result<(), Failed> {
    promtool(&["test", "rules", "alerts.test.yaml"])
}

/// Healthy, holding a lock for too long, and without servers.
#[tokio::test]
#[ignore = "it needs Prometheus, which tests/interop/install-peers installs"]
async fn the_service_is_watched() -> Result<(), Failed> {
    let mut server = TestingServer::start().await?;
    let (listen, folder) = (free_address()?, tempfile::tempdir()?);
    let prometheus = Prometheus::start(&listen, folder.path())?;

    let mut healthy = service(&server, &listen, "0.05")?;
    for query in dashboard()? {
        prometheus.eventually(&query).await?;
    }
    // As long as any alert looks back here.
    prometheus.eventually("count_over_time(zk_recipes_leaders[15s]) >= 15").await?;
    let fired = prometheus.query(r#"max_over_time(ALERTS{alertstate="firing"}[10m])"#).await?;
    assert!(fired.is_empty(), "{fired:#?}");
    healthy.kill().await?; // its address is free then

    let _slow = service(&server, &listen, "3600")?;
    prometheus.fire(&["ZkLockHeldLong", "ZkLockWaitersStuck"]).await?;
    server.stop().await?;
    prometheus.fire(&["ZkLockLost", "ZkNotConnected", "ZkNoLeader"]).await
}

/// The queries of the dashboard, as Grafana sends them for all locks.
fn dashboard() -> Result<Vec<String>, Failed> {
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(file("dashboard.json"))?)?;
    let panels = dashboard["panels"].as_array().into_iter().flatten();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let queries: Vec<_> = targets
        .filter_map(|target| target["expr"].as_str())
        .map(|query| query.replace("$__rate_interval", "15s").replace("$lock", ".*"))
        .collect();
    assert!(queries.len() > 10, "{queries:#?}");
    Ok(queries)
}

struct Prometheus {
    address: String,
    _process: Child,
}

impl Prometheus {
    /// Starts one that looks every second, and for which seconds are minutes.
    fn start(service: &str, folder: &Path) -> Result<Self, Failed> {
        let configuration = fs::read_to_string(file("prometheus.yml"))?;
        let configuration = replaced(&configuration, "127.0.0.1:9898", service);
        fs::write(folder.join("prometheus.yml"), replaced(&configuration, "interval: 15s", "interval: 1s"))?;
        let mut alerts = fs::read_to_string(file("alerts.yaml"))?;
        for (long, short) in [("[5m]", "[15s]"), ("for: 1m", "for: 2s"), ("for: 5m", "for: 5s")] {
            alerts = replaced(&alerts, long, short);
        }
        fs::write(folder.join("alerts.yaml"), alerts)?;
        let address = free_address()?;
        let log = fs::File::create(folder.join("log"))?;
        let process = Command::new(program("prometheus").ok_or("there is no Prometheus")?)
            .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self { address, _process: process })
    }

    /// Waits until all of these alerts fire.
    async fn fire(&self, alerts: &[&str]) -> Result<(), Failed> {
        let mut fires = BTreeSet::new();
        let all = async {
            while !alerts.iter().all(|alert| fires.contains(*alert)) {
                sleep(Duration::from_millis(200)).await;
                let firing = self.query(r#"ALERTS{alertstate="firing"}"#).await?;
                fires = firing
                    .iter()
                    .filter_map(|alert| alert["metric"]["alertname"].as_str().map(str::to_owned))
                    .collect();
            }
            Ok::<_, Failed>(())
        };
        match timeout(BOUND, all).await {
            Ok(fired) => fired,
            Err(_) => Err(format!("of {alerts:?}, only these fire: {fires:?}").into()),
        }
    }

    /// Waits until the query has a result that is a number.
    async fn eventually(&self, query: &str) -> Result<(), Failed> {
        let answered = async {
            loop {
                let series = self.query(query).await.unwrap_or_default();
                if series.iter().any(|series| series["value"][1].as_str().is_some_and(|value| value != "NaN"))
                {
                    return;
                }
                sleep(Duration::from_millis(200)).await;
            }
        };
        timeout(BOUND, answered).await.map_err(|_| format!("no result: {query}").into())
    }

    async fn query(&self, query: &str) -> Result<Vec<Value>, Failed> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let mut connection = TcpStream::connect(&self.address).await?;
        let request = format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\n\r\n");
        connection.write_all(request.as_bytes()).await?;
        let mut response = String::new();
        connection.read_to_string(&mut response).await?;
        let (_, body) = response.split_once("\r\n\r\n").ok_or("no body")?;
        let body: Value = serde_json::from_str(body)?;
        match body["data"]["result"].as_array() {
            Some(series) => Ok(series.clone()),
            None => Err(format!("{query}: {body}").into()),
        }
    }
}

fn service(server: &TestingServer, listen: &str, order_seconds: &str) -> Result<Child, Failed> {
    let service = Command::new(env!("CARGO_BIN_EXE_metrics"))
        .env("ZK_CONNECT", server.connect_string())
        .env("METRICS_LISTEN", listen)
        .env("ORDER_SECONDS", order_seconds)
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    Ok(service)
}

fn promtool(arguments: &[&str]) -> Result<(), Failed> {
    let promtool = program("promtool").ok_or("there is no promtool")?;
    let checked = std::process::Command::new(promtool).args(arguments).current_dir(file("")).output()?;
    let said = [checked.stdout, checked.stderr].concat();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&said));
    Ok(())
}

/// A program of Prometheus: of the peers, or on the `PATH`.
fn program(name: &str) -> Option<PathBuf> {
    let peers = std::env::var_os("ZK_RECIPES_PEERS").map(PathBuf::from);
    let peers = peers.unwrap_or_else(|| file("../../target/interop-peers")).join("prometheus/usr/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::iter::once(peers).chain(std::env::split_paths(&path));
    folders.find_map(|folder| Some(folder.join(name)).filter(|program| program.is_file()))
}

/// A file of the example.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// An address at which nothing listens.
fn free_address() -> Result<String, Failed> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}: {text}");
    text.replace(from, to)
}
