//! Bundles: messages that take effect together (OpenFlow 1.5 §7.3.9; an extension in 1.3).

use crate::bytes::{Reader, Writer};
use crate::framer::HEADER_BYTES;
use crate::property::RawProperty;
use crate::{Failure, Version};

/// Steps of a bundle, as requests and their answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "OpenFlow's names")]
pub enum BundleStep {
    OpenRequest,
    OpenReply,
    CloseRequest,
    CloseReply,
    CommitRequest,
    CommitReply,
    DiscardRequest,
    DiscardReply,
}

const STEPS: [BundleStep; 8] = [
    BundleStep::OpenRequest,
    BundleStep::OpenReply,
    BundleStep::CloseRequest,
    BundleStep::CloseReply,
    BundleStep::CommitRequest,
    BundleStep::CommitReply,
    BundleStep::DiscardRequest,
    BundleStep::DiscardReply,
];

/// The way in which a bundle takes effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BundleFlags {
    /// Whether a packet sees either all of the bundle or none of it.
    pub atomic: bool,
    /// Whether the bundle's messages take effect in their order.
    pub ordered: bool,
}

impl BundleFlags {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        match reader.u16()? {
            flags @ 0..4 => Ok(Self { atomic: flags & 1 != 0, ordered: flags & 2 != 0 }),
            _ => Err(Failure::BundleFlags),
        }
    }

    fn write(self, writer: &mut Writer) {
        writer.u16(u16::from(self.atomic) | u16::from(self.ordered) << 1);
    }
}

/// A step of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BundleControl {
    /// The bundle's number.
    pub id: u32,
    /// The step.
    pub step: BundleStep,
    /// The way in which the bundle takes effect.
    pub flags: BundleFlags,
    /// Properties.
    pub properties: Vec<RawProperty>,
}

impl BundleControl {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let id = reader.u32()?;
        let step = *STEPS.get(usize::from(reader.u16()?)).ok_or(Failure::BundleType)?;
        let flags = BundleFlags::read(reader)?;
        Ok(Self { id, step, flags, properties: reader.all(RawProperty::read)? })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        let number = STEPS.iter().position(|step| *step == self.step).unwrap_or_default();
        writer.u32(self.id).u16(number as u16); // below eight
        self.flags.write(writer);
        self.properties.iter().for_each(|property| property.write(writer));
    }
}

/// A message for a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BundleAdd<M> {
    /// The bundle's number.
    pub id: u32,
    /// The flags of the bundle, which must be the same as when it was opened.
    pub flags: BundleFlags,
    /// The message, with the same transaction as the outer message.
    pub message: Box<M>,
}

impl<M> BundleAdd<M> {
    /// Reads the outer message's body. `transaction` is the outer message's; `decode` reads the inner message.
    pub(crate) fn read(
        reader: &mut Reader<'_>,
        version: Version,
        transaction: u32,
        decode: impl FnOnce(&[u8]) -> Result<M, Failure>,
    ) -> Result<Self, Failure> {
        let id = reader.u32()?;
        reader.skip(2)?;
        let flags = BundleFlags::read(reader)?;
        let mut ahead = reader.with(Failure::BundleMessageLength);
        let (number, _) = (ahead.u8()?, ahead.u8()?);
        let (length, inner) = (usize::from(ahead.u16()?), ahead.u32()?);
        if number != version.number() {
            return Err(Failure::BundleMessageVersion);
        }
        if length < HEADER_BYTES {
            return Err(Failure::BundleMessageLength);
        }
        let whole = reader.with(Failure::BundleMessageLength).bytes(length)?;
        reader.skip(length)?;
        if inner != transaction {
            return Err(Failure::BundleMessageTransaction);
        }
        let mut rest = *reader;
        rest.skip(crate::bytes::padding(length).min(rest.len()))?;
        if !rest.all(RawProperty::read)?.is_empty() {
            return Err(Failure::PropertyType);
        }
        reader.rest();
        let message = decode(whole)?;
        Ok(Self { id, flags, message: Box::new(message) })
    }

    /// Writes the bytes before the inner message.
    pub(crate) fn write_head(&self, writer: &mut Writer) {
        writer.u32(self.id).zeros(2);
        self.flags.write(writer);
    }
}
