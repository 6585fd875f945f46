//! The settings of a builder, checked before anything starts.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

const DEFAULT_TICK: Duration = Duration::from_millis(100);
const DEFAULT_LONGEST_SESSION: Duration = Duration::from_secs(60);

/// The zoo.cfg keys that this module writes, and how to set them.
const OWN_KEYS: [(&str, &str); 6] = [
    ("tickTime", "use `tick_time`"),
    ("minSessionTimeout", "use `session_timeout_bounds`"),
    ("maxSessionTimeout", "use `session_timeout_bounds`"),
    ("dataDir", "the data lie in a temporary folder"),
    ("clientPort", "a free port is found"),
    ("clientPortAddress", "servers listen on 127.0.0.1 only"),
];

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) tick_time: Duration,
    pub(super) session_timeout_bounds: Option<(Duration, Duration)>,
    pub(super) properties: Vec<(String, String)>,
    pub(super) system_properties: Vec<(String, String)>,
    pub(super) class_path: Option<OsString>,
}

// Without the values of properties, which may be passwords of key stores.
debug_by!(Settings, |it|
    tick_time: it.tick_time, session_timeouts: it.session_timeouts(), properties: names(&it.properties),
    system_properties: names(&it.system_properties), class_path: it.class_path
);

fn names(pairs: &[(String, String)]) -> Vec<&str> {
    pairs.iter().map(|(name, _)| name.as_str()).collect()
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tick_time: DEFAULT_TICK,
            session_timeout_bounds: None,
            properties: Vec::new(),
            system_properties: Vec::new(),
            class_path: None,
        }
    }
}

impl Settings {
    /// Returns the shortest and the longest session timeout that a server grants.
    pub(super) fn session_timeouts(&self) -> (Duration, Duration) {
        self.session_timeout_bounds
            .unwrap_or_else(|| (self.tick_time * 2, DEFAULT_LONGEST_SESSION.max(self.tick_time * 20)))
    }

    pub(super) fn check(&self) -> io::Result<()> {
        check_duration("tick_time", self.tick_time)?;
        // The default bounds are multiples of the tick.
        check_duration("tick_time, times 20,", self.tick_time.saturating_mul(20))?;
        let (shortest, longest) = self.session_timeouts();
        check_duration("the lower bound of session timeouts", shortest)?;
        check_duration("the upper bound of session timeouts", longest)?;
        if shortest > longest {
            return Err(invalid(format!(
                "the lower bound of session timeouts, {shortest:?}, is above the upper one, {longest:?}"
            )));
        }
        for (key, value) in &self.properties {
            check_pair("property", key, value)?;
            if let Some((_, way)) = OWN_KEYS.iter().find(|(own, _)| own == key) {
                return Err(invalid(format!("property {key:?} is set by this module: {way}")));
            }
            if key.starts_with("server.") {
                return Err(invalid(format!("property {key:?} is set by this module: use `TestingCluster`")));
            }
        }
        self.system_properties.iter().try_for_each(|(key, value)| check_pair("system property", key, value))
    }
}

/// Checks for milliseconds that ZooKeeper can read: more than zero, less than 2^31.
fn check_duration(name: &str, duration: Duration) -> io::Result<()> {
    match i32::try_from(duration.as_millis()) {
        Ok(1..) => Ok(()),
        _ => Err(invalid(format!("{name} must be 1 to {} milliseconds, not {duration:?}", i32::MAX))),
    }
}

fn check_pair(what: &str, key: &str, value: &str) -> io::Result<()> {
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
        return Err(invalid(format!(
            "the name of {what} {key:?} must consist of letters, digits, '.', '_' and '-'"
        )));
    }
    if value.chars().any(char::is_control) {
        return Err(invalid(format!("the value of {what} {key:?} has control characters")));
    }
    Ok(())
}

pub(super) fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl Fn(&mut Settings)) -> bool {
        let mut settings = Settings::default();
        settings.check().expect("the default is valid");
        change(&mut settings);
        settings.check().is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput)
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(refused(|settings| settings.tick_time = Duration::ZERO));
        assert!(refused(|settings| settings.tick_time = Duration::from_micros(999)));
        assert!(refused(|settings| settings.tick_time = Duration::MAX));
        let bounds =
            |low, high| move |settings: &mut Settings| settings.session_timeout_bounds = Some((low, high));
        assert!(refused(bounds(Duration::from_secs(2), Duration::from_secs(1))));
        assert!(refused(bounds(Duration::ZERO, Duration::from_secs(1))));
        assert!(refused(bounds(Duration::from_secs(1), Duration::from_secs(1 << 40))));
        assert!(!refused(bounds(Duration::from_secs(1), Duration::from_secs(1))));
        for (key, value) in
            [("", "1"), ("a b", "1"), ("a=b", "1"), ("dataDir", "/"), ("server.1", "x"), ("a", "1\nb=2")]
        {
            assert!(
                refused(|settings| settings.properties.push((key.into(), value.into()))),
                "{key} = {value}"
            );
        }
        assert!(refused(|settings| settings.system_properties.push(("a=b".into(), "1".into()))));
        assert!(!refused(|settings| settings.properties.push(("snapCount".into(), "10".into()))));
    }

    #[test]
    fn a_slow_tick_keeps_the_default_bounds_in_order() {
        assert!(!refused(|settings| settings.tick_time = Duration::from_secs(100)));
    }

    #[test]
    fn debug_prints_no_values() {
        let mut settings = Settings::default();
        settings.properties.push(("ssl.keyStore.password".into(), "hunter2".into()));
        settings.system_properties.push(("javax.net.ssl.trustStorePassword".into(), "hunter2".into()));
        let text = format!("{settings:?}");
        assert!(text.contains("ssl.keyStore.password") && !text.contains("hunter2"), "{text}");
    }
}
