//! ZooKeeper's framing: four bytes of length, then as many bytes. The first frame in each direction is the
//! handshake.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, BufReader};

use super::request::Request;

/// Anything longer is not a frame: ZooKeeper itself accepts a megabyte at most, by default.
const LONGEST: usize = 64 << 20;
const LENGTH: usize = 4;
/// The maximum number of bytes in one read.
const CHUNK: usize = 64 << 10;

/// Splits a stream into frames.
pub(super) struct Frames<R> {
    source: BufReader<R>,
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
        Self { source: BufReader::with_capacity(CHUNK, source), before }
    }

    /// Returns the next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<Piece>> {
        let mut bytes = Vec::new();
        let mut is_message = false;
        if let Before::Unknown = self.before {
            bytes.reserve(CHUNK);
            self.source.read_buf(&mut bytes).await?;
        } else {
            self.read_up_to(LENGTH, &mut bytes).await?;
            match bytes.first_chunk().map(|length| u32::from_be_bytes(*length) as usize) {
                Some(length) if length <= LONGEST => {
                    self.read_up_to(length, &mut bytes).await?;
                    let is_whole = bytes.len() == LENGTH + length;
                    is_message = is_whole && matches!(self.before, Before::Message);
                    self.before = Before::Message;
                }
                _ => self.before = Before::Unknown,
            }
        }
        Ok((!bytes.is_empty()).then_some(Piece { bytes, is_message }))
    }

    /// Reads this many bytes, or fewer if there are no more.
    async fn read_up_to(&mut self, count: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
        (&mut self.source).take(count as u64).read_to_end(bytes).await.map(drop)
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
        Some(Request::of(opcode, self.bytes.get(LENGTH + 8..).unwrap_or_default()))
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
