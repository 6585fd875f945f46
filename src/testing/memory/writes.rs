//! Writes, and what they return: one at a time, or several as a transaction.

use super::code::Code;
use super::opcode;
use super::request::Write;
use super::settings::MemorySettings;
use super::tree::{Change, Kind, Stat, Transaction};
use crate::testing::jute::Writer;

/// What a write has done.
#[derive(Debug)]
pub(super) enum Outcome {
    Created { path: String, stat: Option<Stat> },
    Deleted,
    DataSet(Stat),
    Checked,
}

/// Does one write.
pub(super) fn write(
    transaction: &mut Transaction<'_>,
    write: Write,
    settings: &MemorySettings,
) -> Result<Outcome, Code> {
    match write {
        Write::Create { create, returns_stat } => {
            let create = create?;
            if matches!(create.kind, Kind::Ttl(_)) && !settings.has_ttl_nodes {
                return Err(Code::Unimplemented);
            }
            let (path, stat) = transaction.create(create)?;
            Ok(Outcome::Created { path, stat: returns_stat.then_some(stat) })
        }
        Write::Delete { path, version } => transaction.delete(&path, version).map(|()| Outcome::Deleted),
        Write::SetData { path, data, version } => {
            transaction.set_data(&path, data, version).map(Outcome::DataSet)
        }
        Write::Check { path, version } => transaction.check(&path, version).map(|()| Outcome::Checked),
    }
}

/// Does all writes or none. Puts their results into the body of the reply, and returns the changes.
pub(super) fn write_all(
    mut transaction: Transaction<'_>,
    writes: Vec<Write>,
    settings: &MemorySettings,
    body: &mut Writer,
) -> Vec<Change> {
    let count = writes.len();
    let mut outcomes = Vec::new();
    for one in writes {
        let is_plain = match &one {
            Write::Create { create: Ok(create), .. } => {
                matches!(create.kind, Kind::Persistent | Kind::Ephemeral)
            }
            _ => false,
        };
        match write(&mut transaction, one, settings) {
            // Old servers take it for a create that returns none.
            Ok(Outcome::Created { path, .. }) if is_plain && !settings.version.has_stats_in_multi() => {
                outcomes.push(Outcome::Created { path, stat: None });
            }
            Ok(outcome) => outcomes.push(outcome),
            Err(code) => {
                put_failure(body, count, outcomes.len(), code);
                return Vec::new();
            }
        }
    }
    for outcome in &outcomes {
        put_header(body, outcome.opcode(), 0);
        outcome.put(body);
    }
    put_end(body);
    transaction.commit()
}

/// Puts the results of a failed transaction: no error before the operation that failed, and after it that the
/// operation was not tried.
fn put_failure(body: &mut Writer, count: usize, failed: usize, code: Code) {
    for index in 0..count {
        let error = match index.cmp(&failed) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => code as i32,
            std::cmp::Ordering::Greater => Code::RuntimeInconsistency as i32,
        };
        put_error(body, error);
    }
    put_end(body);
}

/// Puts the header of the result of one operation.
pub(super) fn put_header(body: &mut Writer, operation: i32, error: i32) {
    body.i32(operation).bool(false).i32(error);
}

pub(super) fn put_error(body: &mut Writer, error: i32) {
    put_header(body, opcode::ERROR, error);
    body.i32(error);
}

pub(super) fn put_end(body: &mut Writer) {
    body.i32(opcode::ERROR).bool(true).i32(-1);
}

impl Outcome {
    /// Puts it as the body of a reply.
    pub(super) fn put(&self, body: &mut Writer) {
        match self {
            Self::Created { path, stat } => {
                body.string(path);
                if let Some(stat) = stat {
                    stat.put(body);
                }
            }
            Self::DataSet(stat) => stat.put(body),
            Self::Deleted | Self::Checked => {}
        }
    }

    fn opcode(&self) -> i32 {
        match self {
            Self::Created { stat: None, .. } => opcode::CREATE,
            Self::Created { stat: Some(_), .. } => opcode::CREATE_2,
            Self::Deleted => opcode::DELETE,
            Self::DataSet(_) => opcode::SET_DATA,
            Self::Checked => opcode::CHECK,
        }
    }
}
