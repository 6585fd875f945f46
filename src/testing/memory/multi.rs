//! Requests of several operations, and the results of each.

use super::code::Code;
use crate::testing::jute::{Decoded, Reader, Writer};
use crate::testing::opcode;

/// Reads operations, each with a header, up to the header that ends them.
pub(super) fn read<T>(
    reader: &mut Reader<'_>,
    one: fn(i32, &mut Reader<'_>) -> Decoded<T>,
) -> Decoded<Vec<T>> {
    let mut operations = Vec::new();
    loop {
        let operation = reader.i32()?;
        let is_end = reader.bool()?;
        let _error = reader.i32()?;
        if is_end {
            return Ok(operations);
        }
        operations.push(one(operation, reader)?);
    }
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

/// Returns the results of a failed transaction: no error before the operation that failed, and after it that the
/// operation was not tried.
pub(super) fn failure(count: usize, failed: usize, code: Code) -> Writer {
    let mut body = Writer::new();
    for index in 0..count {
        let error = match index.cmp(&failed) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => code as i32,
            std::cmp::Ordering::Greater => Code::RuntimeInconsistency as i32,
        };
        put_error(&mut body, error);
    }
    put_end(&mut body);
    body
}
