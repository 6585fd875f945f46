//! Finds Java and ZooKeeper's jars.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// Debian's packages. The manifest of the first names all others that it needs, except for a log backend.
const DEBIAN: [&str; 2] = ["/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"];

const WAYS_OUT: &str = "set ZK_CLASSPATH to a class path, or ZOOKEEPER_HOME to an unpacked ZooKeeper (or a folder of jars), or \
    install Debian's packages libzookeeper-java and libslf4j-java, or run under zk-docker/with-zookeeper";

/// Reads an environment variable. An empty one counts as not set.
pub(super) fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the class path to use if the builder was not given one.
pub(super) fn class_path(environment: impl Fn(&str) -> Option<OsString>) -> io::Result<OsString> {
    class_path_or(environment, &DEBIAN.map(Path::new))
}

fn class_path_or(environment: impl Fn(&str) -> Option<OsString>, packaged: &[&Path]) -> io::Result<OsString> {
    if let Some(class_path) = environment("ZK_CLASSPATH") {
        return Ok(class_path);
    }
    if let Some(home) = environment("ZOOKEEPER_HOME") {
        return distribution(Path::new(&home)).ok_or_else(|| {
            not_found(&format!(
                "ZOOKEEPER_HOME is {home:?}, but there is no zookeeper*.jar in it or in its lib; {WAYS_OUT}"
            ))
        });
    }
    if packaged.iter().all(|jar| jar.exists()) {
        return join(packaged);
    }
    Err(not_found(&format!("found no ZooKeeper server to start: {WAYS_OUT}")))
}

/// Returns the jars of a binary distribution (`lib`, and the folder itself before 3.5), or of a plain folder.
fn distribution(home: &Path) -> Option<OsString> {
    let folders = [home.join("lib"), home.to_owned()];
    if !folders.iter().any(|folder| has_zookeeper(folder)) {
        return None;
    }
    join(&folders.map(|folder| folder.join("*"))).ok()
}

fn has_zookeeper(folder: &Path) -> bool {
    let Ok(entries) = folder.read_dir() else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("zookeeper") && name.ends_with(".jar")
    })
}

fn join(parts: &[impl AsRef<OsStr>]) -> io::Result<OsString> {
    std::env::join_paths(parts).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// Returns the `java` to run.
pub(super) fn java(environment: impl Fn(&str) -> Option<OsString>) -> io::Result<PathBuf> {
    if let Some(home) = environment("JAVA_HOME") {
        let java = Path::new(&home).join("bin/java");
        return if java.is_file() {
            Ok(java)
        } else {
            Err(not_found(&format!(
                "JAVA_HOME is {home:?}, but there is no bin/java in it; correct or unset it"
            )))
        };
    }
    let path = environment("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join("java")).find(|java| java.is_file()).ok_or_else(|| {
        not_found("found no java to run ZooKeeper: set JAVA_HOME, or install one (Debian: default-jre-headless)")
    })
}

fn not_found(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, message)
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir, write};

    use super::*;

    fn only(name: &'static str, value: &Path) -> impl Fn(&str) -> Option<OsString> {
        let value = value.as_os_str().to_owned();
        move |asked| (asked == name).then(|| value.clone())
    }

    #[test]
    fn the_class_path_variable_comes_first() {
        let all = |name: &str| Some(OsString::from(format!("value of {name}")));
        assert_eq!(class_path_or(all, &[]).unwrap(), "value of ZK_CLASSPATH");
    }

    #[test]
    fn a_distribution_has_its_jars_in_lib() {
        let home = tempfile::tempdir().unwrap();
        create_dir(home.path().join("lib")).unwrap();
        write(home.path().join("lib/zookeeper-3.9.5.jar"), "").unwrap();
        let class_path = class_path_or(only("ZOOKEEPER_HOME", home.path()), &[]).unwrap();
        let first = std::env::split_paths(&class_path).next().unwrap();
        assert_eq!(first, home.path().join("lib/*"));
    }

    #[test]
    fn a_plain_folder_of_jars_will_do() {
        let home = tempfile::tempdir().unwrap();
        write(home.path().join("zookeeper-3.9.5.jar"), "").unwrap();
        let class_path = class_path_or(only("ZOOKEEPER_HOME", home.path()), &[]).unwrap();
        assert!(std::env::split_paths(&class_path).any(|part| part == home.path().join("*")));
    }

    #[test]
    fn a_wrong_home_is_an_error_even_where_packages_are_installed() {
        let home = tempfile::tempdir().unwrap();
        let error = class_path_or(only("ZOOKEEPER_HOME", home.path()), &[home.path()]).unwrap_err();
        assert!(error.to_string().contains(&*home.path().to_string_lossy()), "{error}");
    }

    #[test]
    fn without_jars_the_error_names_the_ways_out() {
        let error = class_path_or(|_| None, &[Path::new("/nonexistent/zookeeper.jar")]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        for way in ["ZK_CLASSPATH", "ZOOKEEPER_HOME", "libzookeeper-java", "zk-docker/with-zookeeper"] {
            assert!(error.to_string().contains(way), "{error}");
        }
    }

    #[test]
    fn java_home_comes_before_the_path_and_a_wrong_one_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        assert!(java(only("JAVA_HOME", home.path())).unwrap_err().to_string().contains("JAVA_HOME"));
        create_dir(home.path().join("bin")).unwrap();
        write(home.path().join("bin/java"), "").unwrap();
        assert_eq!(java(only("JAVA_HOME", home.path())).unwrap(), home.path().join("bin/java"));
        assert_eq!(java(only("PATH", &home.path().join("bin"))).unwrap(), home.path().join("bin/java"));
    }
}
