//! The data of instances before compression, within limits: those of strangers may be compressed a thousandfold.

use std::borrow::Cow;

use crate::client::{Room, decompressed_to, is_gzip};

/// The most bytes of an instance, before compression.
pub(super) const LONGEST: usize = 64 << 10;

/// Whether there may be no room for an instance. It is not even decompressed then.
pub(super) fn is_short(room: &Room) -> bool {
    room.left() < LONGEST
}

/// Returns the data before compression.
///
/// # Errors
/// Why they are not taken.
pub(super) fn plain<'a>(data: &'a [u8], room: &mut Room) -> Result<Cow<'a, [u8]>, String> {
    if !is_gzip(data) {
        let too_long = || format!("it has more than {LONGEST} bytes");
        return (data.len() <= LONGEST).then_some(Cow::Borrowed(data)).ok_or_else(too_long);
    }
    // There may be room once others are gone.
    if is_short(room) {
        return Err(format!("the compressed instances of the service have more than {} bytes", Room::ALL));
    }
    let plain = decompressed_to(data, LONGEST)
        .ok_or_else(|| format!("it begins as gzip, but cannot be decompressed to at most {LONGEST} bytes"))?;
    room.take(plain.len());
    Ok(Cow::Owned(plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::compressed;

    #[test]
    fn instances_are_read_up_to_the_limit() {
        let (mut room, fits) = (Room::default(), vec![b' '; LONGEST]);
        let too_long = vec![b' '; LONGEST + 1];
        assert_eq!(plain(&fits, &mut room).as_deref(), Ok(&fits[..]));
        assert_eq!(plain(&too_long, &mut room), Err("it has more than 65536 bytes".into()));
        let reason = plain(&compressed(&too_long), &mut room).unwrap_err();
        assert!(reason.contains("cannot be decompressed"), "{reason}");
        assert_eq!(room.left(), Room::ALL, "what the servers hold needs no room");
        assert_eq!(plain(&compressed(&fits), &mut room).as_deref(), Ok(&fits[..]));
        assert_eq!(room.left(), Room::ALL - LONGEST);
    }

    #[test]
    fn all_compressed_instances_together_have_a_limit() {
        let (mut room, bomb) = (Room::default(), compressed(&vec![b' '; LONGEST]));
        for _ in 0..Room::ALL / LONGEST {
            assert!(plain(&bomb, &mut room).is_ok());
        }
        let reason = plain(&compressed(b"{}"), &mut room).unwrap_err();
        assert!(reason.contains("the compressed instances"), "{reason}");
        assert_eq!(plain(b"{}", &mut room).as_deref(), Ok(&b"{}"[..]), "it is not compressed");
    }
}
