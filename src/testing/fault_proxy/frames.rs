//! ZooKeeper's framing: four bytes of length, then as many bytes. The first frame in each direction is the
//! handshake.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::request::Request;

/// Anything longer is not a frame: ZooKeeper itself accepts a megabyte at most, by default.
const LONGEST: usize = 64 << 20;
const LENGTH: usize = 4;
/// The maximum number of bytes in one read.
const CHUNK: usize = 64 << 10;

/// Splits a stream into frames.
pub(super) struct Frames<R> {
    source: R,
    buffer: Vec<u8>,
    before: Before,
}

/// What the next bytes are.
#[derive(Clone, Copy)]
pub(super) enum Before {
    Handshake,
    Message,
    /// A protocol other than ZooKeeper's: TLS, or a four-letter word.
    Unknown,
}

/// A frame with its length, or some bytes of another protocol.
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    /// Whether it is neither the handshake nor of an unknown protocol.
    is_message: bool,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(super) fn new(source: R, before: Before) -> Self {
        Self { source, buffer: Vec::new(), before }
    }

    /// Returns the next piece; `None` at the end. Cancel safe.
    pub(super) async fn next(&mut self) -> io::Result<Option<Piece>> {
        loop {
            if let Some(piece) = self.take() {
                return Ok(Some(piece));
            }
            self.buffer.reserve(CHUNK);
            if self.source.read_buf(&mut self.buffer).await? == 0 {
                // The rest may be part of a frame.
                self.before = Before::Unknown;
                return Ok(self.take());
            }
        }
    }

    fn take(&mut self) -> Option<Piece> {
        let length = self.buffer.first_chunk().map(|length| u32::from_be_bytes(*length) as usize);
        if length.is_some_and(|length| length > LONGEST) {
            self.before = Before::Unknown;
        }
        let end = match (self.before, length) {
            (Before::Unknown, _) if self.buffer.is_empty() => return None,
            (Before::Unknown, _) => self.buffer.len(),
            (_, None) => return None,
            (_, Some(length)) => LENGTH + length,
        };
        if self.buffer.len() < end {
            return None;
        }
        let is_message = matches!(self.before, Before::Message);
        if let Before::Handshake = self.before {
            self.before = Before::Message;
        }
        let rest = self.buffer.split_off(end);
        Some(Piece { bytes: std::mem::replace(&mut self.buffer, rest), is_message })
    }
}

impl Piece {
    /// Returns the xid, which matches a reply with its request; negative for pings, notifications and the like.
    pub(super) fn xid(&self) -> Option<i32> {
        self.number_at(LENGTH)
    }

    /// Returns the kind of the request.
    pub(super) fn request(&self) -> Option<Request> {
        let opcode = self.number_at(LENGTH + 4)?;
        Some(Request::of(opcode).with_body(self.bytes.get(LENGTH + 8..).unwrap_or_default()))
    }

    fn number_at(&self, at: usize) -> Option<i32> {
        if !self.is_message {
            return None;
        }
        Some(i32::from_be_bytes(*self.bytes.get(at..)?.first_chunk()?))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    async fn pieces(parts: &[&[u8]]) -> Vec<(Vec<u8>, Option<i32>, Option<Request>)> {
        // Arrives byte by byte.
        let (mut writing, reading) = duplex(1);
        let mut frames = Frames::new(reading, Before::Handshake);
        let mut pieces = Vec::new();
        let write = async move {
            for part in parts {
                writing.write_all(part).await.unwrap();
            }
        };
        let read = async {
            while let Some(piece) = frames.next().await.unwrap() {
                pieces.push((piece.xid(), piece.request(), piece.bytes));
            }
        };
        tokio::join!(write, read);
        pieces.into_iter().map(|(xid, request, bytes)| (bytes, xid, request)).collect()
    }

    #[tokio::test]
    async fn the_handshake_has_no_opcode_and_what_follows_has() {
        let handshake: &[u8] = &[0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 2];
        let request: &[u8] = &[0, 0, 0, 9, 0, 0, 0, 7, 0, 0, 0, 14, 9];
        let short: &[u8] = &[0, 0, 0, 1, 5];
        let pieces = pieces(&[handshake, request, short]).await;
        let multi = Some(Request::Multi);
        let expected = [(handshake, None, None), (request, Some(7), multi), (short, None, None)];
        assert_eq!(pieces, expected.map(|(bytes, xid, request)| (bytes.to_vec(), xid, request)));
    }

    #[tokio::test]
    async fn neither_an_unfinished_frame_nor_another_protocol_is_lost() {
        for text in [b"\0\0\0\x08\0\0" as &[u8], b"ruok", b"\0\0\0\0ruok and more", b"\0\0"] {
            let pieces = pieces(&[text]).await;
            assert!(pieces.iter().all(|(_, xid, _)| xid.is_none()), "{text:?}");
            assert_eq!(pieces.into_iter().flat_map(|(bytes, ..)| bytes).collect::<Vec<_>>(), text);
        }
    }
}
