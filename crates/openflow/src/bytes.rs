//! Bytes in network order: a reader that checks each length, and a writer that fills in lengths.

use crate::Failure;

/// Reads a part of a message from front to back. If the part is too short, the reader returns the failure of the
/// part.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    failure: Failure,
}

macro_rules! numbers {
    ($($name:ident $type:ty;)*) => {
        $(pub(crate) fn $name(&mut self) -> Result<$type, Failure> {
            self.array().map(<$type>::from_be_bytes)
        })*
    };
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], failure: Failure) -> Self {
        Self { rest: bytes, failure }
    }

    /// Returns a reader of these bytes that reports `failure` if they are too short.
    pub(crate) fn with(self, failure: Failure) -> Self {
        Self { failure, ..self }
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Failure> {
        let (first, rest) = self.rest.split_at_checked(count).ok_or(self.failure)?;
        self.rest = rest;
        Ok(first)
    }

    pub(crate) fn part(&mut self, count: usize) -> Result<Reader<'a>, Failure> {
        self.bytes(count).map(|bytes| Reader::new(bytes, self.failure))
    }

    /// Reads a part and its padding to eight bytes.
    pub(crate) fn padded(&mut self, count: usize) -> Result<Reader<'a>, Failure> {
        let part = self.part(count)?;
        self.skip(padding(count))?;
        Ok(part)
    }

    /// Reads an entry that begins with its own length of 16 bits, at least `least` bytes, and its padding. The
    /// returned reader begins behind the length.
    pub(crate) fn entry(&mut self, least: usize) -> Result<Reader<'a>, Failure> {
        let mut ahead = *self;
        let length = usize::from(ahead.u16()?);
        if length < least {
            return Err(self.failure);
        }
        let mut whole = self.part(length)?;
        self.skip(padding(length).min(self.len()))?;
        whole.skip(2)?;
        Ok(whole)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        self.rest.split_first_chunk::<N>().map(|(first, rest)| (*first, rest)).ok_or(self.failure).map(
            |(first, rest)| {
                self.rest = rest;
                first
            },
        )
    }

    numbers! {
        u8 u8;
        u16 u16;
        u32 u32;
        u64 u64;
        u128 u128;
    }

    pub(crate) fn skip(&mut self, count: usize) -> Result<(), Failure> {
        self.bytes(count).map(drop)
    }

    /// Reads bytes that must be zero.
    pub(crate) fn zeros(&mut self, count: usize, failure: Failure) -> Result<(), Failure> {
        if self.bytes(count)?.iter().any(|byte| *byte != 0) { Err(failure) } else { Ok(()) }
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// The remaining bytes, which stay unread.
    pub(crate) fn peek(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the failure if bytes remain unread.
    pub(crate) fn end(&self) -> Result<(), Failure> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.failure) }
    }

    /// Reads all elements up to the end. Each element must take at least one byte.
    pub(crate) fn all<T>(
        &mut self,
        mut one: impl FnMut(&mut Reader<'a>) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        let mut all = Vec::new();
        while !self.is_empty() {
            let before = self.len();
            all.push(one(self)?);
            if self.len() == before {
                return Err(self.failure);
            }
        }
        Ok(all)
    }
}

/// The number of padding bytes that fill a length up to a multiple of eight.
pub(crate) fn padding(length: usize) -> usize {
    length.wrapping_neg() % 8
}

/// Writes a message.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    refused: Option<&'static str>,
    /// The sizes of the first tunnel options in bytes; 0 if the size is unknown.
    pub option_bytes: [u8; 8],
}

impl Writer {
    pub(crate) fn new(option_bytes: [u8; 8]) -> Self {
        Self { option_bytes, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The written bytes, or the name of the part that has no form in the version.
    pub(crate) fn finish(self) -> Result<Vec<u8>, &'static str> {
        self.refused.map_or(Ok(self.bytes), Err)
    }

    /// Records that a part has no form in the version.
    pub(crate) fn refuse(&mut self, what: &'static str) {
        self.refused.get_or_insert(what);
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.put(&[value])
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.put(&value.to_be_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_be_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_be_bytes())
    }

    pub(crate) fn zeros(&mut self, count: usize) -> &mut Self {
        self.bytes.resize(self.bytes.len() + count, 0);
        self
    }

    /// Overwrites two bytes.
    pub(crate) fn set_u16(&mut self, at: usize, value: u16) -> &mut Self {
        self.bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
        self
    }

    /// Writes the low bytes of a value.
    pub(crate) fn value(&mut self, value: u128, bytes: usize) -> &mut Self {
        self.put(&value.to_be_bytes()[16 - bytes..])
    }

    /// Pads the bytes since `start` to a multiple of eight.
    pub(crate) fn pad(&mut self, start: usize) -> &mut Self {
        self.zeros(padding(self.len() - start))
    }

    /// Writes the length of the bytes since `start` to a place among them. A length beyond 64 KiB is refused later,
    /// by the check of the whole message's length.
    pub(crate) fn length(&mut self, start: usize, at: usize) -> &mut Self {
        self.set_u16(start + at, (self.len() - start) as u16) // checked for the whole message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_beyond_the_end() {
        let mut reader = Reader::new(&[1, 2, 3], Failure::BadLength);
        assert_eq!(reader.u16(), Ok(0x102));
        assert_eq!(reader.u16(), Err(Failure::BadLength));
        assert_eq!(reader.padded(1).map(drop), Err(Failure::BadLength));
        assert_eq!(padding(0), 0);
        assert_eq!(padding(9), 7);
    }
}
