//! The servers, each asked by its four-letter words.

use std::io;
use std::time::Duration;

use futures_util::future::{join_all, join3};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::finding::Finding;
use super::version::Version;

/// An answer is not read any further.
const LONGEST: u64 = 1 << 20;
/// From how many of the files that it may open a server is about to run out of them, in percent.
const FULL: u64 = 80;

/// What one server says of itself.
#[derive(Debug)]
pub(super) struct Server {
    name: String,
    srvr: Answer,
    conf: Answer,
    mntr: Answer,
}

/// The answer to one word.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Text(String),
    /// The server does not answer this word.
    NotAllowed,
    /// It runs, but has no quorum.
    NotServing,
    Failed(String),
    /// The port is encrypted.
    NotAsked,
}

impl Server {
    /// Asks all servers of a connect string.
    pub(super) async fn all(connect: &str, patience: Duration, is_encrypted: bool) -> Vec<Self> {
        join_all(hosts(connect).into_iter().map(|host| Self::ask(host, patience, is_encrypted))).await
    }

    async fn ask(
        (name, is_encrypted_itself): (String, bool),
        patience: Duration,
        is_encrypted: bool,
    ) -> Self {
        let ask = async |word| match is_encrypted || is_encrypted_itself {
            true => Answer::NotAsked,
            false => Answer::to(word, &name, patience).await,
        };
        let (srvr, conf, mntr) = join3(ask("srvr"), ask("conf"), ask("mntr")).await;
        Self { name, srvr, conf, mntr }
    }

    fn version(&self) -> Option<Version> {
        Version::read(self.srvr.after("Zookeeper version: ").or(self.mntr.after("zk_version\t"))?)
    }

    fn mode(&self) -> Option<&str> {
        self.srvr.after("Mode: ").or(self.mntr.after("zk_server_state\t"))
    }

    /// A setting, in milliseconds or as a number.
    fn setting(&self, name: &str) -> Option<u64> {
        self.conf.after(&format!("{name}="))?.parse().ok()
    }

    fn judge(&self, is_in_ensemble: bool) -> Vec<Finding> {
        let version = self.version().map(|version| version.judge(is_in_ensemble));
        let all = [Some(self.state()), version, self.settings(), self.load()];
        all.into_iter().flatten().map(|finding| finding.of(&*self.name)).collect()
    }

    fn state(&self) -> Finding {
        const CHECK: &str = "server";
        match (&self.srvr, self.mode()) {
            (Answer::Failed(error), _) => Finding::problem(CHECK, format!("does not answer: {error}")),
            (Answer::NotServing, _) => Finding::problem(CHECK, "runs, but serves nobody: it has no quorum"),
            (Answer::NotAsked, _) => Finding::ok(
                CHECK,
                "not asked for its version and settings: four-letter words are not encrypted",
            ),
            (_, None) => Finding::warning(
                CHECK,
                "does not tell its version and mode: `srvr` is not in its 4lw.commands.whitelist",
            ),
            (_, Some("standalone")) => Finding::warning(
                CHECK,
                "standalone: an outage of it stops all locks; in production, run three or five servers",
            ),
            (_, Some(mode)) => Finding::ok(CHECK, mode),
        }
    }

    fn settings(&self) -> Option<Finding> {
        const CHECK: &str = "settings";
        if self.conf == Answer::NotAllowed {
            return Some(Finding::ok(CHECK, "not told: `conf` is not in its 4lw.commands.whitelist"));
        }
        let tick = self.setting("tickTime")?;
        let limit = |name| self.setting(name).map_or("?".to_owned(), |limit| format!("{limit}ms"));
        let (least, most) = (limit("minSessionTimeout"), limit("maxSessionTimeout"));
        Some(Finding::ok(CHECK, format!("tick {tick}ms, session timeouts from {least} to {most}")))
    }

    fn load(&self) -> Option<Finding> {
        const CHECK: &str = "load";
        if self.mntr == Answer::NotAllowed {
            return Some(Finding::ok(CHECK, "not told: `mntr` is not in its 4lw.commands.whitelist"));
        }
        let number = |name: &str| self.mntr.after(&format!("{name}\t"));
        let latency = number("zk_avg_latency")?;
        let text = format!(
            "latency {latency}ms on average, {}ms at most; {} requests wait; {} connections",
            number("zk_max_latency").unwrap_or("?"),
            number("zk_outstanding_requests").unwrap_or("?"),
            number("zk_num_alive_connections").unwrap_or("?"),
        );
        let files = |name| number(name)?.parse::<u64>().ok();
        let (open, most) = (files("zk_open_file_descriptor_count"), files("zk_max_file_descriptor_count"));
        Some(match open.zip(most) {
            Some((open, most)) if open.saturating_mul(100) > most.saturating_mul(FULL) => {
                Finding::warning(CHECK, format!("{text}; {open} of {most} files are open"))
            }
            _ => Finding::ok(CHECK, text),
        })
    }
}

/// Judges each server, and all of them together.
pub(super) fn judge(servers: &[Server]) -> Vec<Finding> {
    let is_in_ensemble = |server: &Server| match server.mode() {
        Some(mode) => mode != "standalone",
        None => servers.len() > 1,
    };
    let mut findings: Vec<_> =
        servers.iter().flat_map(|server| server.judge(is_in_ensemble(server))).collect();
    let leaders = servers.iter().filter(|server| server.mode() == Some("leader")).count();
    if leaders > 1 || servers.len() > 1 && servers.iter().any(|server| server.mode() == Some("standalone")) {
        findings.push(Finding::problem(
            "ensemble",
            "these servers are not one ensemble, so two clients can hold one lock: check --connect",
        ));
    }
    let differ = |what: &dyn Fn(&Server) -> Option<String>| {
        let mut values: Vec<_> = servers.iter().filter_map(what).collect();
        values.sort_unstable();
        values.dedup();
        Some(values).filter(|values| values.len() > 1).map(|values| values.join(", "))
    };
    if let Some(versions) = differ(&|server| server.version().map(|version| version.to_string())) {
        findings.push(Finding::warning("ensemble", format!("the versions differ: {versions}")));
    }
    for name in ["tickTime", "minSessionTimeout", "maxSessionTimeout"] {
        if let Some(values) = differ(&|server| server.setting(name).map(|value| value.to_string())) {
            findings.push(Finding::warning("ensemble", format!("{name} differs: {values}")));
        }
    }
    findings
}

/// The session limits that a server tells, in milliseconds.
pub(super) fn session_limits(servers: &[Server]) -> Option<(u64, u64)> {
    servers
        .iter()
        .find_map(|server| Some((server.setting("minSessionTimeout")?, server.setting("maxSessionTimeout")?)))
}

impl Answer {
    async fn to(word: &str, server: &str, patience: Duration) -> Self {
        let exchange = async {
            let mut stream = TcpStream::connect(server).await?;
            stream.write_all(word.as_bytes()).await?;
            let mut answer = Vec::new();
            // A server that closes at once may do so by a reset.
            match stream.take(LONGEST).read_to_end(&mut answer).await {
                Err(error) if answer.is_empty() => Err(error),
                _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
            }
        };
        match timeout(patience, exchange).await {
            Err(_) => Self::Failed(format!("no answer within {patience:?}")),
            Ok(Err(error)) => Self::Failed(reason(&error)),
            Ok(Ok(text)) => Self::read(text),
        }
    }

    fn read(text: String) -> Self {
        if text.contains("is not executed because it is not in the whitelist") || text.trim().is_empty() {
            Self::NotAllowed
        } else if text.contains("not currently serving requests") {
            Self::NotServing
        } else {
            Self::Text(text)
        }
    }

    /// The rest of the line that begins so.
    fn after(&self, label: &str) -> Option<&str> {
        let Self::Text(text) = self else { return None };
        text.lines().find_map(|line| line.strip_prefix(label)).map(str::trim)
    }
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "the connection is refused".into(),
        _ => error.to_string(),
    }
}

/// The servers of a connect string that the client has accepted, as `host:port`, and whether they are encrypted.
fn hosts(connect: &str) -> Vec<(String, bool)> {
    let one = |host: &str| {
        let (scheme, host) = host.split_once("://").unwrap_or(("tcp", host));
        let host = host.split_once('/').map_or(host, |(host, _)| host);
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']') && !port.is_empty());
        let host = if has_port { host.to_owned() } else { format!("{}:2181", host.trim_end_matches(':')) };
        (host, scheme == "tcp+tls")
    };
    connect.split(',').map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    fn server(name: &str, srvr: &str, conf: &str, mntr: &str) -> Server {
        let read = |text: &str| Answer::read(text.to_owned());
        Server { name: name.to_owned(), srvr: read(srvr), conf: read(conf), mntr: read(mntr) }
    }

    fn told(servers: &[Server]) -> Vec<(Level, String)> {
        judge(servers).into_iter().map(|finding| (finding.level, finding.text)).collect()
    }

    fn says(findings: &[(Level, String)], level: Level, text: &str) -> bool {
        findings.iter().any(|(found, message)| *found == level && message.contains(text))
    }

    #[test]
    fn the_servers_of_a_connect_string_are_asked() {
        let plain = |host: &str| (host.to_owned(), false);
        assert_eq!(hosts("zk1:2182,zk2/apps/a"), [plain("zk1:2182"), plain("zk2:2181")]);
        assert_eq!(hosts("[::1]:2182,[::1],tcp://zk3:"), ["[::1]:2182", "[::1]:2181", "zk3:2181"].map(plain));
        assert_eq!(hosts("tcp+tls://zk1:2281/a"), [("zk1:2281".to_owned(), true)]);
    }

    #[test]
    fn what_servers_hide_is_said() {
        let hidden = "conf is not executed because it is not in the whitelist.\n";
        let found = told(&[server(
            "zk1:2181",
            "Zookeeper version: 3.9.4-x, built\nMode: follower\n",
            hidden,
            hidden,
        )]);
        assert!(says(&found, Level::Ok, "`conf` is not in its 4lw.commands.whitelist"), "{found:?}");
        assert!(says(&found, Level::Ok, "`mntr`") && says(&found, Level::Ok, "3.9.4"), "{found:?}");
        let found = told(&[server("zk1:2181", hidden, hidden, hidden)]);
        assert!(says(&found, Level::Warning, "`srvr`"), "{found:?}");
    }

    #[test]
    fn servers_that_are_down_or_apart_are_problems() {
        let none = "This ZooKeeper instance is not currently serving requests\n";
        let found = told(&[server("zk1:2181", none, "", "")]);
        assert!(says(&found, Level::Problem, "no quorum"), "{found:?}");
        let leader = "Zookeeper version: 3.9.4-x, built\nMode: leader\n";
        let found = told(&[
            server("a:1", leader, "tickTime=2000\n", ""),
            server("b:1", leader, "tickTime=500\n", ""),
        ]);
        assert!(says(&found, Level::Problem, "not one ensemble"), "{found:?}");
        assert!(says(&found, Level::Warning, "tickTime differs: 2000, 500"), "{found:?}");
        let alone = server(
            "a:1",
            "Zookeeper version: 3.9.3-x\nMode: standalone\n",
            "tickTime=2000\nminSessionTimeout=4000\nmaxSessionTimeout=40000\n",
            "zk_avg_latency\t0.5\nzk_open_file_descriptor_count\t90\nzk_max_file_descriptor_count\t100\n",
        );
        let found = told(std::slice::from_ref(&alone));
        assert!(says(&found, Level::Ok, "from 4000ms to 40000ms"), "{found:?}");
        assert!(says(&found, Level::Warning, "90 of 100 files"), "{found:?}");
        assert_eq!(session_limits(&[alone]), Some((4000, 40000)));
    }
}
