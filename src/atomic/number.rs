//! The number in the data of a node.

use crate::client::decompressed;

/// Reads the number as Curator does: no data is zero, and what follows the eight bytes does not matter.
///
/// # Errors
/// The length of data that is no number.
pub(super) fn parse(data: &[u8]) -> Result<i64, usize> {
    let plain = decompressed(data);
    let data = plain.as_deref().unwrap_or(data);
    match data.first_chunk() {
        Some(number) => Ok(i64::from_be_bytes(*number)),
        None if data.is_empty() => Ok(0),
        None => Err(data.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::compressed;

    #[test]
    fn numbers_are_read_as_curator_reads_them() {
        assert_eq!(parse(b""), Ok(0));
        for number in [0, 1, -1, i64::MIN, i64::MAX, 0x1f8b_0800_0000_0000] {
            assert_eq!(parse(&number.to_be_bytes()), Ok(number));
            assert_eq!(parse(&compressed(&number.to_be_bytes())), Ok(number));
        }
        assert_eq!(parse(b"\0\0\0\0\0\0\x01\x02more"), Ok(258));
        assert_eq!(parse(b"seven"), Err(5));
    }
}
