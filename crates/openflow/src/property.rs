//! Properties: type, length and value, padded to eight bytes (OpenFlow 1.5 §7.2.3.8 and others).

use crate::Failure;
use crate::bytes::{Reader, Writer};

/// One property. A property; the reader of its value fails with [`Failure::PropertyLength`].
pub(crate) struct Property<'a> {
    pub kind: u16,
    pub value: Reader<'a>,
}

impl<'a> Property<'a> {
    /// Reads the next property.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Failure> {
        let mut head = reader.with(Failure::PropertyLength);
        let (kind, length) = (head.u16()?, usize::from(head.u16()?));
        let mut whole = reader.with(Failure::PropertyLength);
        let mut value = whole.padded(length)?;
        value.skip(4)?;
        reader.skip(length + crate::bytes::padding(length))?;
        Ok(Self { kind, value })
    }

    /// All properties up to the end.
    pub(crate) fn all(reader: &mut Reader<'a>) -> Result<Vec<Property<'a>>, Failure> {
        reader.all(Self::read)
    }

    /// A value of 8 bits.
    pub(crate) fn u8(&mut self) -> Result<u8, Failure> {
        let value = self.value.u8()?;
        self.value.end().map(|()| value)
    }

    /// A value of 16 bits. OpenFlow pads it to 32 bits, and some senders do not.
    pub(crate) fn u16(&mut self) -> Result<u16, Failure> {
        self.value.u16()
    }

    /// A value of 32 bits.
    pub(crate) fn u32(&mut self) -> Result<u32, Failure> {
        let value = self.value.u32()?;
        self.value.end().map(|()| value)
    }

    /// A value of 64 bits, behind four bytes that align it.
    pub(crate) fn u64(&mut self) -> Result<u64, Failure> {
        self.value.skip(4)?;
        let value = self.value.u64()?;
        self.value.end().map(|()| value)
    }

    /// Properties in a property, behind four bytes that align them.
    pub(crate) fn nested(&mut self) -> Result<Vec<Property<'a>>, Failure> {
        self.value.skip(4)?;
        Property::all(&mut self.value)
    }
}

/// Writes a property; `value` writes its value.
pub(crate) fn write(writer: &mut Writer, kind: u16, value: impl FnOnce(&mut Writer)) {
    let start = writer.len();
    writer.u16(kind).u16(0);
    value(writer);
    writer.length(start, 2).pad(start);
}

pub(crate) fn write_u8(writer: &mut Writer, kind: u16, value: u8) {
    write(writer, kind, |writer| {
        writer.u8(value);
    });
}

pub(crate) fn write_u16(writer: &mut Writer, kind: u16, value: u16) {
    write(writer, kind, |writer| {
        writer.u16(value).zeros(2);
    });
}

pub(crate) fn write_u32(writer: &mut Writer, kind: u16, value: u32) {
    write(writer, kind, |writer| {
        writer.u32(value);
    });
}

pub(crate) fn write_u64(writer: &mut Writer, kind: u16, value: u64) {
    write(writer, kind, |writer| {
        writer.zeros(4).u64(value);
    });
}

pub(crate) fn write_bytes(writer: &mut Writer, kind: u16, value: &[u8]) {
    write(writer, kind, |writer| {
        writer.put(value);
    });
}

/// A property that is kept unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RawProperty {
    /// Its type.
    pub kind: u16,
    /// The property's value, without padding.
    pub value: Vec<u8>,
}

impl RawProperty {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        Property::read(reader)
            .map(|mut property| Self { kind: property.kind, value: property.value.rest().to_vec() })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        write_bytes(writer, self.kind, &self.value);
    }
}
