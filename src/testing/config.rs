//! The command line of a server: zoo.cfg and the JVM's arguments.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::settings::{Settings, invalid};

/// Small and quick to start: the optimising compiler and parallel collectors would cost each test two seconds.
const JVM: [&str; 4] = [
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    // Otherwise a killed JVM leaves its statistics file behind.
    "-XX:-UsePerfData",
];

/// How long a member may take to find a leader and to load its data.
const JOIN_LIMIT: Duration = Duration::from_secs(10);
/// After this long without a sign of life, leader and followers give each other up, so a paused leader is replaced
/// after it.
const SILENCE_LIMIT: Duration = Duration::from_secs(2);

/// The ports on which the members of a cluster talk to each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) quorum_port: u16,
    pub(super) election_port: u16,
}

/// Returns the text of zoo.cfg. `members` is empty for a single server.
pub(super) fn zoo_cfg(settings: &Settings, data: &Path, port: u16, members: &[Member]) -> io::Result<String> {
    let data = data
        .to_str()
        .ok_or_else(|| invalid(format!("ZooKeeper cannot read a path that is no text: {data:?}")))?;
    let (shortest, longest) = settings.session_timeouts();
    let ticks =
        |limit: Duration| limit.as_millis().div_ceil(settings.tick_time.as_millis()).max(2).to_string();
    let mut text = String::new();
    let mut set = |key: &str, value: &str| {
        // The file is read as Java properties, where a backslash begins an escape.
        let _ = writeln!(text, "{key}={}", value.replace('\\', "\\\\"));
    };
    set("dataDir", data);
    set("clientPort", &port.to_string());
    set("clientPortAddress", "127.0.0.1");
    set("tickTime", &settings.tick_time.as_millis().to_string());
    set("minSessionTimeout", &shortest.as_millis().to_string());
    set("maxSessionTimeout", &longest.as_millis().to_string());
    set("maxClientCnxns", "0");
    set("admin.enableServer", "false");
    set("4lw.commands.whitelist", "*");
    // In kilobytes. The default is 64 megabytes, for each server of each test.
    set("preAllocSize", "64");
    // Without it, writes still survive a kill; only a crash of the machine would lose them.
    set("forceSync", "no");
    if !members.is_empty() {
        set("initLimit", &ticks(JOIN_LIMIT));
        set("syncLimit", &ticks(SILENCE_LIMIT));
    }
    for (index, member) in members.iter().enumerate() {
        let Member { quorum_port, election_port } = member;
        set(&format!("server.{}", index + 1), &format!("127.0.0.1:{quorum_port}:{election_port}"));
    }
    // Last, since the last line of a key takes effect.
    for (key, value) in &settings.properties {
        set(key, value);
    }
    Ok(text)
}

/// Returns the arguments of `java`.
pub(super) fn arguments(
    settings: &Settings,
    class_path: &OsStr,
    logging: Vec<OsString>,
    zoo_cfg: &Path,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = JVM.map(Into::into).into();
    arguments.extend(logging);
    arguments.extend(settings.system_properties.iter().map(|(key, value)| system_property(key, value)));
    arguments.extend(["-cp".into(), class_path.into()]);
    arguments.extend(["org.apache.zookeeper.server.quorum.QuorumPeerMain".into(), zoo_cfg.into()]);
    arguments
}

pub(super) fn system_property(key: &str, value: impl AsRef<OsStr>) -> OsString {
    let mut argument = OsString::from(format!("-D{key}="));
    argument.push(value);
    argument
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_line_comes_last_and_backslashes_survive() {
        let mut settings = Settings::default();
        settings.properties.push(("preAllocSize".into(), r"a\b".into()));
        let text = zoo_cfg(&settings, Path::new("/data"), 1234, &[]).unwrap();
        assert!(text.contains("tickTime=100\n") && text.contains("clientPort=1234\n"), "{text}");
        assert_eq!(text.lines().last(), Some(r"preAllocSize=a\\b"));
        assert!(!text.contains("server.") && !text.contains("initLimit"), "{text}");
    }

    #[test]
    fn limits_of_a_cluster_are_times_not_ticks() {
        let member = Member { quorum_port: 1, election_port: 2 };
        let settings = Settings { tick_time: Duration::from_millis(300), ..Settings::default() };
        let text = zoo_cfg(&settings, Path::new("/data"), 3, &[member, member]).unwrap();
        assert!(text.contains("initLimit=34\n") && text.contains("syncLimit=7\n"), "{text}");
        assert!(text.contains("server.2=127.0.0.1:1:2\n"), "{text}");
    }
}
