//! Node data compressed with gzip, as Curator writes it after `enableCompression`.

use std::borrow::Cow;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::handle::Client;
use crate::error::{Error, Result};

/// Nodes have at most 1 MiB of data. Data that would decompress to more is not taken for compressed data.
const LONGEST: usize = 1 << 20;

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

/// Returns the data of a node as it was before compression; `None` if it is not compressed.
pub(crate) fn decompressed(data: &[u8]) -> Option<Vec<u8>> {
    decompressed_to(data, LONGEST)
}

/// The same; `None` also if it has more than so many bytes.
pub(crate) fn decompressed_to(data: &[u8], longest: usize) -> Option<Vec<u8>> {
    if !is_gzip(data) {
        return None;
    }
    let mut plain = Vec::new();
    let mut decoder = MultiGzDecoder::new(data).take(longest as u64 + 1);
    let length = decoder.read_to_end(&mut plain).ok()?;
    (length <= longest).then_some(plain)
}

/// How much the data of one look may have before compression, all together: those of strangers may be compressed a
/// thousandfold.
#[derive(Debug)]
pub(crate) struct Room {
    left: usize,
}

impl Room {
    pub(crate) const ALL: usize = 64 << 20;

    /// What is left once so many bytes are in memory.
    pub(crate) fn beside(taken: usize) -> Self {
        Self { left: Self::ALL.saturating_sub(taken) }
    }

    #[cfg(feature = "discovery")]
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Whether the data of a node may not fit.
    pub(crate) fn is_short(&self) -> bool {
        self.left < LONGEST
    }

    /// Takes so many bytes. Returns false if there are not as many.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    /// Does the same as [`decompressed`]; `None` also if there is no room for it.
    pub(crate) fn decompressed(&mut self, data: &[u8]) -> Option<Vec<u8>> {
        let plain = decompressed_to(data, LONGEST.min(self.left))?;
        self.take(plain.len());
        Some(plain)
    }
}

impl Default for Room {
    fn default() -> Self {
        Self::beside(0)
    }
}

/// Whether the data begin as gzip does.
pub(crate) fn is_gzip(data: &[u8]) -> bool {
    data.starts_with(GZIP_MAGIC)
}

pub(crate) fn compressed(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let compressed = encoder.write_all(data).and_then(|()| encoder.finish());
    // Writing to memory does not fail.
    compressed.unwrap_or_default()
}

impl Client {
    /// Returns node data in the form in which this client writes it.
    pub(crate) fn node_data<'a>(&self, data: &'a [u8]) -> Cow<'a, [u8]> {
        if self.core.settings.compresses { Cow::Owned(compressed(data)) } else { Cow::Borrowed(data) }
    }

    /// # Errors
    /// [`Error::InvalidArgument`] if readers would not take this data, once compressed, for compressed data.
    pub(crate) fn ensure_readable(&self, argument: &'static str, data: &[u8]) -> Result<()> {
        if !self.core.settings.compresses || data.len() <= LONGEST {
            return Ok(());
        }
        let reason = format!(
            "it has {} bytes before compression, and readers decompress at most {LONGEST}; give less data",
            data.len()
        );
        Err(Error::InvalidArgument { argument, reason })
    }

    /// Returns the data that a user has written, from the form in which a node holds it. A client that does not compress
    /// takes it as it is, since the user may have written compressed data.
    pub(crate) fn user_data(&self, data: Vec<u8>) -> Vec<u8> {
        if self.core.settings.compresses { decompressed(&data).unwrap_or(data) } else { data }
    }

    /// The same within the room of many nodes; `None` if there is none for it.
    pub(crate) fn user_data_in(&self, room: &mut Room, data: Vec<u8>) -> Option<Vec<u8>> {
        if !self.core.settings.compresses {
            return Some(data);
        }
        match room.decompressed(&data) {
            Some(plain) => Some(plain),
            // It may fit once others are gone.
            None if is_gzip(&data) && room.is_short() => None,
            None => Some(data),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn what_curator_has_compressed_is_read() {
        // Written by the `GzipCompressionProvider` of Curator 5.9.
        for (plain, hex) in [
            ("", "1f8b08000000000000ff03000000000000000000"),
            ("x", "1f8b08000000000000ffab00008316dc8c01000000"),
            ("__REVOKE__", "1f8b08000000000000ff8b8f0f720df3f7768d8f0700ea2c89fb0a000000"),
        ] {
            assert_eq!(decompressed(&bytes(hex)).as_deref(), Some(plain.as_bytes()), "{plain}");
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        for plain in [&b""[..], b"billing-7", &[7; LONGEST]] {
            assert_eq!(decompressed(&compressed(plain)).as_deref(), Some(plain));
        }
    }

    #[test]
    fn what_is_no_gzip_stays_as_it_is() {
        let gzip = compressed(b"billing-7");
        let mut corrupt = gzip.clone();
        corrupt[12] ^= 0xff;
        let garbage_behind = [&gzip[..], b"x"].concat();
        for data in
            [&b""[..], b"\x1f", b"\x1f\x8b", b"10.1.2.3", &gzip[..gzip.len() - 1], &corrupt, &garbage_behind]
        {
            assert_eq!(decompressed(data), None, "{data:?}");
        }
    }

    #[test]
    fn a_bomb_is_not_blown_up() {
        let bomb = compressed(&vec![0; LONGEST + 1]);
        assert!(bomb.len() < 2000, "it is small: {}", bomb.len());
        assert_eq!(decompressed(&bomb), None);
        let bombs = bomb.repeat(100);
        assert_eq!(decompressed(&bombs), None);
    }

    #[test]
    fn all_data_of_a_look_have_a_limit() {
        let (mut room, bomb) = (Room::default(), compressed(&vec![b' '; LONGEST]));
        for _ in 0..Room::ALL / LONGEST {
            assert!(room.decompressed(&bomb).is_some());
        }
        assert_eq!((room.left(), room.decompressed(&compressed(b"x"))), (0, None));
        assert!(room.take(0) && !room.take(1));
        assert_eq!(Room::beside(Room::ALL - 1).decompressed(&compressed(b"x")).as_deref(), Some(&b"x"[..]));
    }
}
