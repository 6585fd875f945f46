//! Jute, the encoding of ZooKeeper's protocol: big-endian numbers, and lengths before what they belong to.

/// What was received cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

pub(super) type Decoded<T> = Result<T, Malformed>;

/// Takes values from the front of a message.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, length: usize) -> Decoded<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    pub(super) fn bool(&mut self) -> Decoded<bool> {
        Ok(self.array::<1>()? != [0])
    }

    pub(super) fn i32(&mut self) -> Decoded<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(super) fn i64(&mut self) -> Decoded<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// Reads bytes; a length of -1 stands for none at all.
    pub(super) fn buffer(&mut self) -> Decoded<Option<&'a [u8]>> {
        match self.i32()? {
            -1 => Ok(None),
            length => self.take(usize::try_from(length).map_err(|_| Malformed)?).map(Some),
        }
    }

    pub(super) fn string(&mut self) -> Decoded<String> {
        let bytes = self.buffer()?.ok_or(Malformed)?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Reads a list, whose length is not believed before its elements are there.
    pub(super) fn list<T>(&mut self, mut element: impl FnMut(&mut Self) -> Decoded<T>) -> Decoded<Vec<T>> {
        match self.i32()? {
            -1 => Ok(Vec::new()),
            length => (0..u32::try_from(length).map_err(|_| Malformed)?).map(|_| element(self)).collect(),
        }
    }
}

/// A message under construction. Its length comes before it.
#[derive(Debug)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn new() -> Self {
        Self(vec![0; 4])
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let length = length(self.0.len() - 4);
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0
    }

    /// Appends what another message has after its length.
    pub(super) fn append(&mut self, other: &Self) -> &mut Self {
        self.0.extend(&other.0[4..]);
        self
    }

    pub(super) fn bool(&mut self, value: bool) -> &mut Self {
        self.0.push(value.into());
        self
    }

    pub(super) fn i32(&mut self, value: i32) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn i64(&mut self, value: i64) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn buffer(&mut self, bytes: Option<&[u8]>) -> &mut Self {
        match bytes {
            None => self.i32(-1),
            Some(bytes) => {
                self.i32(length(bytes.len()));
                self.0.extend(bytes);
                self
            }
        }
    }

    pub(super) fn string(&mut self, text: &str) -> &mut Self {
        self.buffer(Some(text.as_bytes()))
    }

    pub(super) fn list<T>(&mut self, items: &[T], mut put: impl FnMut(&mut Self, &T)) -> &mut Self {
        self.i32(length(items.len()));
        items.iter().for_each(|item| put(self, item));
        self
    }
}

/// Lengths have 31 bits. What is longer cannot have been received.
fn length(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let mut writer = Writer::new();
        writer.bool(true).i32(-7).i64(1 << 40).string("näme").buffer(None);
        writer.list(&["a", "b"], |writer, text| {
            writer.string(text);
        });
        let message = writer.finish();
        assert_eq!(message[..4], (message.len() as u32 - 4).to_be_bytes());
        let mut reader = Reader::new(&message[4..]);
        assert_eq!(reader.bool(), Ok(true));
        assert_eq!(reader.i32(), Ok(-7));
        assert_eq!(reader.i64(), Ok(1 << 40));
        assert_eq!(reader.string().as_deref(), Ok("näme"));
        assert_eq!(reader.buffer(), Ok(None));
        assert_eq!(reader.list(Reader::string), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert!(reader.is_empty());
    }

    #[test]
    fn lengths_are_not_believed() {
        for message in [&[0x7f, 0xff, 0xff, 0xff][..], &[0xff, 0xff, 0xff, 0xfe], &[0, 0, 0, 2, b'a'], &[0]] {
            assert_eq!(Reader::new(message).string(), Err(Malformed), "{message:?}");
            assert_eq!(Reader::new(message).buffer(), Err(Malformed), "{message:?}");
            assert_eq!(Reader::new(message).list(Reader::string), Err(Malformed), "{message:?}");
        }
    }
}
