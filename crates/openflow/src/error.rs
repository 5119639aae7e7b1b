//! The message for a refused request (OpenFlow 1.5 §7.5.4).

use crate::bytes::{Reader, Writer};
use crate::{ErrorCode, Failure, Version};

/// The type of an experimenter's error.
const EXPERIMENTER: u16 = 0xffff;
/// Type and code of Nicira's errors in OpenFlow 1.0.
const NICIRA_10: (u16, u16) = (0xb0c2, 0);
/// The most bytes of the request that go with an error: the error itself has a length of 16 bits.
const REQUEST_BYTES: usize = u16::MAX as usize - 32;

/// The message for a refused request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ErrorMessage {
    /// The reason, with the numbers of the version.
    pub code: ErrorCode,
    /// The request, at least its beginning; for a failed hello a text.
    pub data: Vec<u8>,
}

impl ErrorMessage {
    /// Refuses a request, which goes with the error as in Open vSwitch.
    pub fn new(failure: Failure, version: Version, request: &[u8]) -> Self {
        let data = request[..request.len().min(REQUEST_BYTES)].to_vec();
        Self { code: failure.code(version), data }
    }

    /// The failure that the code means, if it is known.
    pub fn failure(&self, version: Version) -> Option<Failure> {
        Failure::by_code(version, self.code)
    }

    pub(crate) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        let (kind, code) = (reader.u16()?, reader.u16()?);
        let code = match (kind, code) {
            (EXPERIMENTER, code) if version != Version::V10 => ErrorCode::Experimenter(reader.u32()?, code),
            NICIRA_10 if version == Version::V10 => {
                if reader.u32()? != crate::NICIRA {
                    return Err(Failure::BadExperimenter);
                }
                ErrorCode::Nicira(reader.u16()?, reader.u16()?)
            }
            (kind, code) => ErrorCode::Standard(kind, code),
        };
        Ok(Self { code, data: reader.rest().to_vec() })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        match self.code {
            ErrorCode::Standard(kind, code) => writer.u16(kind).u16(code),
            ErrorCode::Experimenter(experimenter, code) => {
                writer.u16(EXPERIMENTER).u16(code).u32(experimenter)
            }
            ErrorCode::Nicira(kind, code) => {
                writer.u16(NICIRA_10.0).u16(NICIRA_10.1).u32(crate::NICIRA).u16(kind).u16(code)
            }
        };
        writer.put(&self.data);
    }
}
