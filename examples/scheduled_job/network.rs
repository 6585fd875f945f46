//! The network between the workers and the servers: a cable for each worker, which can be cut.
//!
//! A cut is silence, by which neither side hears that the other one has gone.
//!
//! - As root on Linux, each worker is in a network namespace of its own. Nothing is there but one end of a virtual
//!   cable; at the other end this process forwards to the servers. The cable is pulled by setting its link down. The
//!   namespace has no name: it goes with its worker, and the cable with it, even if this process is killed.
//! - Elsewhere each worker has forwarders on 127.0.0.1, which fall silent.

use std::net::Ipv4Addr;
use std::process::Stdio;

use tokio::net::{TcpListener, TcpSocket};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::forwarder::forward;
use crate::{Result, servers};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Network {
    /// The third number of all addresses.
    Namespaces(u8),
    Forwarders,
}

/// What a worker has to the servers. Nothing of it outlives this, if the worker does not.
pub(crate) struct Cable {
    /// Our end of the link to the namespace, if there is one.
    link: Option<String>,
    silent: watch::Sender<bool>,
    /// Where the worker finds the servers.
    servers: String,
    _forwarders: JoinSet<()>,
}

impl Network {
    /// The best one that can be had here, and what to say about it.
    pub(crate) async fn choose() -> (Self, String) {
        match try_namespaces().await {
            Ok(subnet) => {
                let how = "network namespaces; the cut is a link that is set down";
                (Self::Namespaces(subnet), how.into())
            }
            Err(error) => {
                let how = format!("forwarders that fall silent; for network namespaces: {error}");
                (Self::Forwarders, how)
            }
        }
    }

    /// Starts this program as a process of this network.
    pub(crate) fn command(self) -> Result<Command> {
        let program = std::env::current_exe()?;
        Ok(match self {
            Self::Namespaces(_) => {
                // It becomes the program: there is no process in between.
                let mut command = Command::new("unshare");
                command.arg("--net").arg(program);
                command
            }
            Self::Forwarders => Command::new(program),
        })
    }

    /// Connects a process that was started so and runs by now. Each has another number.
    pub(crate) async fn connect(self, process: u32, number: u8) -> Result<Cable> {
        let (link, address) = match self {
            Self::Namespaces(subnet) => {
                let (ours, theirs) = (4 * number + 1, 4 * number + 2);
                let link = link(number);
                let created =
                    run(&format!("ip link add {link} type veth peer name eth0 netns {process}")).await;
                let connected = async {
                    created?;
                    run(&format!("ip address add 10.200.{subnet}.{ours}/30 dev {link}")).await?;
                    run(&format!("ip link set {link} up")).await?;
                    let inside = format!("nsenter --net=/proc/{process}/ns/net ip");
                    run(&format!("{inside} address add 10.200.{subnet}.{theirs}/30 dev eth0")).await?;
                    run(&format!("{inside} link set eth0 up")).await
                };
                connected.await?;
                (Some(link), Ipv4Addr::new(10, 200, subnet, ours))
            }
            Self::Forwarders => (None, Ipv4Addr::LOCALHOST),
        };
        let (silent, silence) = watch::channel(false);
        let mut forwarders = JoinSet::new();
        let given = servers();
        let (hosts, chroot) = given.split_at(given.find('/').unwrap_or(given.len()));
        let mut addresses = Vec::new();
        for host in hosts.split(',').map(str::trim) {
            let server = if host.contains(':') { host.into() } else { format!("{host}:2181") };
            let listener = listen(address, link.as_deref())?;
            addresses.push(listener.local_addr()?.to_string());
            forwarders.spawn(forward(listener, server, silence.clone()));
        }
        let servers = addresses.join(",") + chroot;
        Ok(Cable { link, silent, servers, _forwarders: forwarders })
    }
}

impl Cable {
    pub(crate) fn servers(&self) -> &str {
        &self.servers
    }

    pub(crate) async fn cut(&self) -> Result<()> {
        self.set_cut(true).await
    }

    pub(crate) async fn mend(&self) -> Result<()> {
        self.set_cut(false).await
    }

    async fn set_cut(&self, is_cut: bool) -> Result<()> {
        if let Some(link) = &self.link {
            run(&format!("ip link set {link} {}", if is_cut { "down" } else { "up" })).await?;
        } else {
            self.silent.send_replace(is_cut);
        }
        Ok(())
    }
}

/// Removes the link of that number at once, if there is one. By itself it goes a moment after its worker; one that is
/// cut as late as the kernel gives up what the worker had to say, which are minutes.
pub(crate) async fn remove(number: u8) -> Result<()> {
    let link = link(number);
    let exists = || std::path::Path::new("/sys/class/net").join(&link).exists();
    if exists() {
        let removed = run(&format!("ip link delete {link}")).await;
        // It may have gone by itself meanwhile.
        return if exists() { removed.map(drop) } else { Ok(()) };
    }
    Ok(())
}

/// At most 15 letters.
fn link(number: u8) -> String {
    format!("zkr{}-{number}", std::process::id())
}

/// Answers a subnet that is free.
async fn try_namespaces() -> Result<u8> {
    if !rustix::process::geteuid().is_root() {
        return Err("this is not run by root".into());
    }
    run("unshare --net true").await?;
    run("nsenter --net=/proc/self/ns/net true").await?;
    let link = link(0);
    run(&format!("ip link add {link} type veth peer name {link}p")).await?;
    run(&format!("ip link delete {link}")).await?;
    // Parallel runs have others.
    for _ in 0..20 {
        let subnet = fastrand::u8(..);
        if run(&format!("ip -4 route show root 10.200.{subnet}.0/24")).await?.is_empty() {
            return Ok(subnet);
        }
    }
    Err("there is no free subnet below 10.200.0.0/16".into())
}

/// Runs a command of a few words, and answers what it prints.
async fn run(words: &str) -> Result<String> {
    let mut words_of_it = words.split(' ');
    let mut command = Command::new(words_of_it.next().unwrap_or_default());
    let output = command.args(words_of_it).stdin(Stdio::null()).output().await;
    let output = output.map_err(|error| format!("`{words}`: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{words}`: {}, {}", said.trim(), output.status).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn listen(address: Ipv4Addr, link: Option<&str>) -> Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    // While the link is down, nothing for the worker shall take another way.
    #[cfg(target_os = "linux")]
    socket.bind_device(link.map(str::as_bytes))?;
    #[cfg(not(target_os = "linux"))]
    let _ = link;
    socket.bind((address, 0).into())?;
    Ok(socket.listen(64)?)
}
