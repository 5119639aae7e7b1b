//! Reading and writing numbers in native byte order (vhost-user text, "Message Specification").
use crate::violation::Violation;

/// A value that is read from and written to payloads.
pub(crate) trait Wire: Sized {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Violation>;
    fn write(&self, out: &mut Vec<u8>);
}

/// The unread part of a payload.
pub(crate) struct Reader<'a> {
    message: &'static str,
    whole: usize,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(message: &'static str, payload: &'a [u8]) -> Self {
        Self { message, whole: payload.len(), rest: payload }
    }

    pub(crate) fn violation(&self, field: &'static str, value: u64, expected: &'static str) -> Violation {
        Violation::new(self.message, field, value, expected)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Violation> {
        let (head, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or_else(|| self.violation("payload size", self.whole as u64, "more bytes"))?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Violation> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Violation> {
        Ok(u16::from_ne_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Violation> {
        Ok(u32::from_ne_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Violation> {
        Ok(u64::from_ne_bytes(self.array()?))
    }

    /// The payload's length in bytes.
    pub(crate) fn whole(&self) -> usize {
        self.whole
    }

    /// The next `len` bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Violation> {
        let too_few = self.violation("payload size", self.whole as u64, "more bytes");
        let (head, rest) = self.rest.split_at_checked(len).ok_or(too_few)?;
        self.rest = rest;
        Ok(head)
    }

    /// All remaining bytes.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Skips at most `limit` bytes that a C compiler may have added behind the last field.
    pub(crate) fn padding(&mut self, limit: usize) {
        self.rest = &self.rest[limit.min(self.rest.len())..];
    }

    pub(crate) fn finish(self) -> Result<(), Violation> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(self.violation("payload size", self.whole as u64, "fewer bytes"))
    }
}

impl Wire for () {
    fn read(_: &mut Reader<'_>) -> Result<Self, Violation> {
        Ok(())
    }
    fn write(&self, _: &mut Vec<u8>) {}
}

impl Wire for u32 {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Violation> {
        reader.u32()
    }
    fn write(&self, out: &mut Vec<u8>) {
        put32(out, &[*self]);
    }
}

impl Wire for u64 {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Violation> {
        reader.u64()
    }
    fn write(&self, out: &mut Vec<u8>) {
        put64(out, &[*self]);
    }
}

/// Appends numbers in native byte order.
pub(crate) fn put32(out: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_ne_bytes()));
}

/// Appends numbers in native byte order.
pub(crate) fn put64(out: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_ne_bytes()));
}
