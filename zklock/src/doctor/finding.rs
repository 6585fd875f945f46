//! What was found, and how it is told.

use std::error::Error;

use serde_json::{Value, json};
use zk_recipes::report;

use crate::queue::printable;
use crate::table::table;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Ok,
    /// Locks work, but see to it.
    Warning,
    /// Locks do not work, or are not safe.
    Problem,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// What was looked at.
    pub(super) check: &'static str,
    /// Where: a server or a path.
    pub(super) subject: Option<String>,
    pub(super) text: String,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

impl Finding {
    pub(super) fn ok(check: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Ok, check, subject: None, text: text.into() }
    }

    pub(super) fn warning(check: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::ok(check, text) }
    }

    pub(super) fn problem(check: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Problem, ..Self::ok(check, text) }
    }

    /// It could not be looked at.
    pub(super) fn failed(check: &'static str, error: &(dyn Error + 'static)) -> Self {
        Self::problem(check, report(error).to_string())
    }

    pub(super) fn of(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    pub(super) fn as_json(&self) -> Value {
        json!({ "level": self.level.name(), "check": self.check, "subject": self.subject, "text": self.text })
    }
}

/// All findings as lines.
pub(super) fn as_text(findings: &[Finding]) -> String {
    let rows = findings.iter().map(|finding| {
        let subject = finding.subject.as_deref().unwrap_or("-");
        [
            finding.level.name().to_owned(),
            finding.check.to_owned(),
            printable(subject),
            printable(&finding.text),
        ]
    });
    table(["LEVEL", "CHECK", "OF", "FINDING"], &rows.collect::<Vec<_>>())
}

/// The worst of them.
pub(super) fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
}
