//! The process that a client belongs to: the default data of its nodes.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::path::Path;

/// The maximum length of each name. Host names on Linux are no longer than that.
const LONGEST_NAME: usize = 64;

/// The most bytes of this format, with room for fields of later versions.
const LONGEST: usize = 4 << 10;

/// What is known of a process. As text: `10.1.2.3 host=web-3 pid=4711 program=billing`, without the unknown parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) address: Option<IpAddr>,
    pub(crate) host: Option<String>,
    pub(crate) pid: Option<u32>,
    pub(crate) program: Option<String>,
}

impl Process {
    /// Describes this process, without the address of its machine.
    pub(crate) fn here(program: Option<&str>) -> Self {
        // The name by which the program was called is the one that `ps` shows, even if the file was replaced since.
        let called = std::env::args_os().next();
        let called = called.as_deref().and_then(|called| Path::new(called).file_name());
        Self {
            address: None,
            host: name(&gethostname::gethostname()),
            pid: Some(std::process::id()),
            program: program.map(OsStr::new).or(called).and_then(name),
        }
    }

    /// Parses node data in this format, or only an address as Curator writes it. Returns `None` for all other data.
    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        if data.len() > LONGEST {
            return None;
        }
        let text = std::str::from_utf8(data).ok()?;
        if let Ok(address) = text.parse() {
            return Some(Self { address: Some(address), ..Self::default() });
        }
        let with_address =
            text.split_once(' ').and_then(|(address, rest)| Some((address.parse().ok()?, rest)));
        let (address, fields) = with_address.map_or((None, text), |(address, rest)| (Some(address), rest));
        let mut process = Self { address, ..Self::default() };
        for field in fields.split(' ') {
            match field.split_once('=')? {
                ("host", host) => process.host = Some(decoded(host)?),
                ("pid", pid) => process.pid = Some(pid.parse().ok()?),
                ("program", program) => process.program = Some(decoded(program)?),
                // A field of a later version.
                _ => {}
            }
        }
        process.pid.is_some().then_some(process)
    }

    pub(crate) fn to_data(&self) -> Vec<u8> {
        self.to_string().into_bytes()
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, host, pid, program } = self;
        let fields = [
            address.map(|address| address.to_string()),
            host.as_ref().map(|host| format!("host={}", encoded(host))),
            pid.map(|pid| format!("pid={pid}")),
            program.as_ref().map(|program| format!("program={}", encoded(program))),
        ];
        f.write_str(&fields.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

/// Shortens a name; `None` if it is empty.
fn name(name: &OsStr) -> Option<String> {
    let name: String = name.to_string_lossy().chars().take(LONGEST_NAME).collect();
    (!name.is_empty()).then_some(name)
}

/// Encodes a name as one word of visible characters, which [`decoded`] reads.
fn encoded(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_alphanumeric() || c.is_ascii_graphic() && c != '%' {
            encoded.push(c);
        } else {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

/// Returns `None` for text that is not [`encoded`].
fn decoded(encoded: &str) -> Option<String> {
    let mut parts = encoded.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(is_hex.then(|| u8::from_str_radix(digits, 16).ok())??);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn process(address: Option<&str>, host: &str, program: &str) -> Process {
        Process {
            address: address.map(|address| address.parse().unwrap()),
            host: name(host.as_ref()),
            pid: Some(4711),
            program: name(program.as_ref()),
        }
    }

    #[test]
    fn as_text_it_can_be_read_by_people() {
        for (process, text) in [
            (process(Some("10.1.2.3"), "web-3", "billing"), "10.1.2.3 host=web-3 pid=4711 program=billing"),
            (process(Some("2001:db8::1"), "web-3", "b"), "2001:db8::1 host=web-3 pid=4711 program=b"),
            (process(None, "web-3", "billing"), "host=web-3 pid=4711 program=billing"),
            (process(None, "", ""), "pid=4711"),
            (process(None, "köln", "a b=c%d\n"), "host=köln pid=4711 program=a%20b=c%25d%0A"),
            // A character that would reverse the text direction.
            (process(None, "a\u{202e}b", "x"), "host=a%E2%80%AEb pid=4711 program=x"),
        ] {
            assert_eq!(process.to_string(), text);
            assert_eq!(Process::read(text.as_bytes()), Some(process));
        }
    }

    #[test]
    fn this_process_is_known() {
        let here = Process::read(&Process::here(None).to_data()).unwrap();
        assert_eq!((here.address, here.pid), (None, Some(std::process::id())));
        assert!(here.host.is_some_and(|host| !host.is_empty()));
        let called = std::env::args().next().unwrap();
        assert!(called.ends_with(&here.program.unwrap()), "{called}");
        assert_eq!(Process::here(Some("billing")).program.as_deref(), Some("billing"));
    }

    #[test]
    fn long_names_are_cut() {
        let long = "ü".repeat(1000);
        let process = process(None, &long, "");
        assert_eq!(process.host.as_deref(), Some(&*"ü".repeat(64)));
        let longest = "\u{10ffff}".repeat(1000);
        assert!(super::tests::process(None, &longest, &longest).to_data().len() < 2000);
    }

    #[test]
    fn data_of_others_is_not_mistaken_for_ours() {
        let address = Process { address: Some(IpAddr::from([10, 1, 2, 3])), ..Process::default() };
        assert_eq!(Process::read(b"10.1.2.3"), Some(address), "as Curator's");
        for data in [
            &b""[..],
            b" ",
            b"web-3",
            b"web-3:8080",
            b"10.1.2.3:8080",
            b"10.1.2.3 ",
            b"10.1.2.3 web-3",
            b"10.1.2.3 host=web-3",
            b"10.1.2.3 host=web-3 pid=x program=y",
            b"10.1.2.3 host=web%3 pid=1 program=y",
            b"10.1.2.3 host=web%zz pid=1 program=y",
            b"10.1.2.3 host=web%+1 pid=1 program=y",
            b"10.1.2.3 host=%FF pid=1 program=y",
            b"10.1.2.3  pid=1",
            b"host= pid=1",
            b"node pid=1",
            b"__REVOKE__",
            b"pid=1 \xff",
        ] {
            assert_eq!(Process::read(data), None, "{:?}", String::from_utf8_lossy(data));
        }
    }

    #[test]
    fn fields_of_later_versions_are_passed_over() {
        let read = Process::read(b"10.1.2.3 host=web-3 pid=4711 zone=a program=billing").unwrap();
        assert_eq!(read, process(Some("10.1.2.3"), "web-3", "billing"));
    }

    proptest! {
        #[test]
        fn any_name_is_read_as_it_was_written(host in any::<String>(), program in any::<String>()) {
            let process = process(Some("::1"), &host, &program);
            prop_assert_eq!(Process::read(&process.to_data()), Some(process));
        }

        #[test]
        fn any_data_can_be_read(data in any::<Vec<u8>>()) {
            let _ = Process::read(&data);
        }
    }
}
