//! Redis and etcd, where they are installed. They end when this is dropped.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::Service;
use crate::Result;

const START_PATIENCE: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(crate) struct Program {
    service: Service,
    version: String,
    port: u16,
    process: Child,
    _data: TempDir,
}

impl Program {
    /// `None`, and a line that says how to get it, if there is no such program.
    pub(crate) async fn start(service: Service) -> Result<Option<Self>> {
        let (name, package) = match service {
            Service::Redis => ("redis-server", "redis-server"),
            Service::Etcd => ("etcd", "etcd-server"),
            Service::ZooKeeper => return Err("ZooKeeper is started by the module testing".into()),
        };
        let version = match Command::new(name).arg("--version").output().await {
            Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                eprintln!(
                    "without {service:?}: there is no {name} on the PATH; Debian's package is {package}"
                );
                return Ok(None);
            }
            Err(error) => return Err(format!("{name} --version: {error}").into()),
        };
        let data = tempfile::tempdir()?;
        let port = free_port()?;
        let mut command = Command::new(name);
        command.current_dir(data.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match service {
            // In memory only.
            Service::Redis => {
                command.args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string()])
            }
            Service::Etcd | Service::ZooKeeper => {
                let [clients, peers] = [port, free_port()?].map(|port| format!("http://127.0.0.1:{port}"));
                command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
                command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
                command.args(["--initial-cluster", &format!("default={peers}")])
            }
        };
        let process = command.kill_on_drop(true).spawn().map_err(|error| format!("{name}: {error}"))?;
        let program = Self { service, version: first_number(&version), port, process, _data: data };
        program.wait_until_it_serves(name).await?;
        Ok(Some(program))
    }

    async fn wait_until_it_serves(&self, name: &str) -> Result<()> {
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.is_err() {
            if started.elapsed() > START_PATIENCE {
                return Err(format!("{name} does not serve {START_PATIENCE:?} after its start").into());
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    pub(crate) fn service(&self) -> Service {
        self.service
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn process_id(&self) -> Option<u32> {
        self.process.id()
    }
}

/// Out of `etcd Version: 3.4.23` or `Redis server v=7.0.15 sha=...`.
fn first_number(version: &str) -> String {
    let mut words = version.split(|character: char| !character.is_ascii_digit() && character != '.');
    words.find(|word| word.contains('.')).unwrap_or("of an unknown version").to_owned()
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
