//! Log settings: a failed start logs its reason, a good one logs little.
//!
//! ZooKeeper's releases contain log4j 1, logback or log4j 2, and Debian's package none. Without a file, log4j 1
//! logs nothing and logback logs everything.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use super::config::system_property;

const LOGBACK: &str = "<configuration>
  <appender name=\"out\" class=\"ch.qos.logback.core.ConsoleAppender\">
    <encoder><pattern>%d %-5level %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <root level=\"WARN\"><appender-ref ref=\"out\"/></root>
</configuration>
";

const LOG4J_1: &str = "log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %-5p %c{1} - %m%n
";

/// Writes the files into `directory`, and returns the JVM's arguments that name them.
pub(super) fn quiet(directory: &Path) -> io::Result<Vec<OsString>> {
    let logback = directory.join("logback.xml");
    let log4j_1 = directory.join("log4j.properties");
    fs::write(&logback, LOGBACK)?;
    fs::write(&log4j_1, LOG4J_1)?;
    let mut log4j_1_url = OsString::from("file:");
    log4j_1_url.push(log4j_1);
    Ok(vec![
        system_property("logback.configurationFile", logback),
        system_property("log4j.configuration", log4j_1_url),
        system_property("log4j2.level", "WARN"),
        system_property("org.slf4j.simpleLogger.defaultLogLevel", "warn"),
    ])
}
