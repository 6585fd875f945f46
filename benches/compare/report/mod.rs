//! What came out: a table, a file for programs, and a page.

mod json;
mod page;
mod plot;
mod table;
mod verdict;

use std::path::PathBuf;

use crate::Result;
use crate::cases::Case;
use crate::options::Options;
use crate::peers;
use crate::summary::Figures;

pub(crate) use self::table::table;

#[derive(Debug)]
pub(crate) struct Comparison {
    quick: bool,
    /// Of what was started or is known, in the order of its coming up.
    versions: Vec<(String, String)>,
    pub(crate) measured: Vec<Measured>,
}

/// A case, by all who took part.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) servers: usize,
    pub(crate) case: Case,
    pub(crate) figures: Vec<Figures>,
}

/// What is to be known with every figure.
const NOTES: [&str; 8] = [
    "All on one machine; the participants take turns, round by round. The ratios say more than the figures.",
    "ZooKeeper waits for the disk before it answers, as by default (forceSync=yes); its JVM has 256 MB and one of its two \
     compilers. Redis keeps nothing on disk here, and a waiter polls it each millisecond; etcd waits for the disk.",
    "The floor is the writes of the lock alone, sent by hand one after the other over zookeeper-client.",
    "Cycles per second are the median of the rounds. Under contention, p50 and p99 are of an acquire with its wait, and grants are those of the unluckiest and of the \
     luckiest contender.",
    "Requests, bytes and CPU time are of a whole cycle, acquire and release, also where only the acquire is timed; replies \
     include the events of watches.",
    "First time on a path: a new lock object, on a container that was made beforehand and has not been used.",
    "Re-entrant acquires are timed by the thousand. Memory is by what the resident memory of the process grows.",
    "zookeeper-client's lock is released by a drop that nobody can wait for; its cycle ends before the release is done.",
];

impl Comparison {
    pub(crate) fn new(options: &Options) -> Self {
        let versions = vec![("zk-recipes".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
        Self { quick: options.quick, versions, measured: Vec::new() }
    }

    pub(crate) fn add_version(&mut self, of: &str, version: &str) {
        if !self.versions.iter().any(|(known, _)| known == of) {
            self.versions.push((of.to_owned(), version.to_owned()));
        }
    }

    /// What was measured with what, in a line.
    fn headline(&self) -> String {
        let versions: Vec<_> = self.versions.iter().map(|(of, version)| format!("{of} {version}")).collect();
        let effort = if self.quick { "a quick run, for orientation only" } else { "a full run" };
        format!("{}; {effort}", versions.join(", "))
    }

    /// The case of the shortest queue, by which others are judged.
    fn shortest_queue(&self, servers: usize) -> Option<&Measured> {
        self.measured.iter().find(|measured| measured.servers == servers && measured.case.is_shortest_queue())
    }
}

impl Measured {
    fn of(&self, participant: &str) -> Option<&Figures> {
        self.figures.iter().find(|figures| figures.participant == participant)
    }
}

/// Writes the files, and says where they are; the plots beside them, each by itself.
pub(crate) fn write_files(comparison: &Comparison) -> Result<[PathBuf; 3]> {
    let folder = peers::repository().join("target/compare");
    std::fs::create_dir_all(&folder)?;
    let files = ["compare.txt", "compare.json", "compare.html"].map(|name| folder.join(name));
    let texts = [table(comparison), json::text(comparison)?, page::text(comparison)];
    for (file, text) in files.iter().zip(texts) {
        std::fs::write(file, text)?;
    }
    for (name, plot) in page::plots(comparison) {
        std::fs::write(folder.join(format!("{name}.svg")), plot)?;
    }
    Ok(files)
}
