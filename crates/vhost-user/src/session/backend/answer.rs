//! Answers of the embedder, and the replies made from them.
#![allow(private_interfaces, reason = "`Answer` is sealed: nobody outside calls or implements it")]

use std::os::fd::OwnedFd;

use crate::codec::crypto::{CryptoForm, CryptoSessionReply};
use crate::codec::payload::{ConfigAccess, Inflight, LogArea, MemoryTable, VringState};
use crate::codec::reply::ReplyBody;
use crate::session::{Outcome, Refusal};
use crate::vring::VringBase;

/// The bytes of configuration space, exactly as many as asked for.
pub type ConfigBytes = Result<Vec<u8>, Refusal>;
/// A fresh in-flight buffer: its size and offset in bytes, and its file.
pub type InflightArea = Result<(u64, u64, OwnedFd), Refusal>;
/// A userfaultfd.
pub type Userfault = Result<OwnedFd, Refusal>;
/// The number of a new session of a crypto device, at most `i64::MAX`.
pub type CryptoSession = Result<CryptoSessionNumber, Refusal>;
/// The number of a session of a crypto device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CryptoSessionNumber(pub u64);
/// The addresses at which the back-end mapped the regions, in their order.
pub type MappedBases = Result<Vec<u64>, Refusal>;
/// The device's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceStatus(pub u8);

/// The descriptor for the transfer of a device's state.
#[derive(Debug)]
pub enum StateChannel {
    /// The front-end's descriptor is used.
    Offered,
    /// The transfer uses this descriptor instead. It is passed to the front-end, which closes the descriptor that it
    /// sent.
    Replaced(OwnedFd),
    /// There is no transfer, for this reason.
    Refused(Refusal),
}

/// The parts of the request that a reply repeats.
#[derive(Clone, Debug)]
pub(super) enum Echo {
    /// Nothing. The reply is sent only if it was asked for.
    OnRequest,
    /// Nothing. The reply is always sent.
    Acknowledge,
    /// The log area. The vhost-user text leaves the reply's form open: QEMU reads only its number, the vhost
    /// crate expects the request's content. No front-end reads an error in it, so a refusal closes the session.
    Log(LogArea),
    /// A number.
    Number,
    /// The queue.
    Vring(u32),
    /// Offset and flags.
    Config(ConfigAccess),
    /// The form of a crypto session's message.
    CryptoSession(CryptoForm),
    /// Queue count and size.
    Inflight(Inflight),
    /// The regions, whose addresses the answer replaces.
    MemoryTable(MemoryTable),
    /// The one region, whose address the answer replaces.
    Region(crate::codec::payload::MemoryRegion),
    /// A descriptor.
    Descriptor,
}

/// A reply, if there is one, or a refusal that cannot be sent to the peer.
pub(super) struct Answered {
    pub(super) reply: Option<ReplyBody>,
    pub(super) refusal: Option<Refusal>,
}

impl Answered {
    fn reply(body: ReplyBody) -> Self {
        Self { reply: Some(body), refusal: None }
    }
}

mod sealed {
    pub trait Sealed {}
}

impl sealed::Sealed for Outcome {}
impl sealed::Sealed for VringBase {}
impl sealed::Sealed for ConfigBytes {}
impl sealed::Sealed for CryptoSession {}
impl sealed::Sealed for InflightArea {}
impl sealed::Sealed for Userfault {}
impl sealed::Sealed for MappedBases {}
impl sealed::Sealed for DeviceStatus {}
impl sealed::Sealed for StateChannel {}

/// An answer to an event.
pub trait Answer: sealed::Sealed + Sized {
    #[doc(hidden)]
    fn answered(self, echo: Echo, need_reply: bool) -> Answered;
}

impl Answer for Outcome {
    fn answered(self, echo: Echo, need_reply: bool) -> Answered {
        if let Echo::Log(area) = echo {
            let reply = self.is_ok().then_some(ReplyBody::Log(area));
            return Answered { reply, refusal: self.err() };
        }
        let wanted = need_reply || matches!(echo, Echo::Acknowledge);
        let reply = wanted.then(|| ReplyBody::acknowledge(self.is_ok()));
        Answered { reply, refusal: self.err() }
    }
}

impl Answer for VringBase {
    fn answered(self, echo: Echo, _: bool) -> Answered {
        let index = if let Echo::Vring(index) = echo { index } else { 0 };
        Answered::reply(ReplyBody::VringState(VringState { index, num: self.to_wire() }))
    }
}

impl Answer for ConfigBytes {
    fn answered(self, echo: Echo, _: bool) -> Answered {
        let Echo::Config(asked) = echo else { return Answered::reply(ReplyBody::Config(None)) };
        let right_size = |bytes: Vec<u8>| match bytes.len() == asked.bytes.len() {
            true => Ok(bytes),
            false => Err(Refusal::new(format!(
                "the device gave {} bytes of configuration for {}",
                bytes.len(),
                asked.bytes.len()
            ))),
        };
        match self.and_then(right_size) {
            Ok(bytes) => Answered::reply(ReplyBody::Config(Some(ConfigAccess { bytes, ..asked }))),
            Err(refusal) => Answered { reply: Some(ReplyBody::Config(None)), refusal: Some(refusal) },
        }
    }
}

impl Answer for CryptoSession {
    fn answered(self, echo: Echo, _: bool) -> Answered {
        let Echo::CryptoSession(form) = echo else {
            return Answered { reply: None, refusal: Some(Refusal::new("no session was asked for")) };
        };
        let number = self.and_then(|CryptoSessionNumber(number)| {
            i64::try_from(number)
                .map_err(|_| Refusal::new(format!("session number {number} does not fit the reply")))
        });
        let reply = CryptoSessionReply { form, number: *number.as_ref().unwrap_or(&-1) };
        Answered { reply: Some(ReplyBody::CryptoSession(reply)), refusal: number.err() }
    }
}

impl Answer for InflightArea {
    fn answered(self, echo: Echo, _: bool) -> Answered {
        match (self, echo) {
            (Ok((size_bytes, offset, file)), Echo::Inflight(asked)) => {
                Answered::reply(ReplyBody::Inflight(Inflight { size_bytes, offset, ..asked }, file.into()))
            }
            (Ok(_), _) => Answered { reply: None, refusal: Some(Refusal::new("no buffer was asked for")) },
            (Err(refusal), _) => Answered { reply: None, refusal: Some(refusal) },
        }
    }
}

impl Answer for Userfault {
    fn answered(self, _: Echo, _: bool) -> Answered {
        match self {
            Ok(fd) => Answered::reply(ReplyBody::Descriptor(Some(fd.into()))),
            Err(refusal) => Answered { reply: Some(ReplyBody::Descriptor(None)), refusal: Some(refusal) },
        }
    }
}

impl Answer for MappedBases {
    fn answered(self, echo: Echo, _: bool) -> Answered {
        let refused = |refusal| Answered { reply: None, refusal: Some(refusal) };
        let bases = match self {
            Ok(bases) => bases,
            Err(refusal) => return refused(refusal),
        };
        match echo {
            Echo::MemoryTable(mut table) if table.regions.len() == bases.len() => {
                table.regions.iter_mut().zip(bases).for_each(|(region, base)| region.user_address = base);
                Answered::reply(ReplyBody::MemoryTable(table))
            }
            Echo::Region(mut region) if bases.len() == 1 => {
                region.user_address = bases[0];
                Answered::reply(ReplyBody::SingleRegion(region))
            }
            _ => refused(Refusal::new("postcopy needs one address for each region")),
        }
    }
}

impl Answer for DeviceStatus {
    fn answered(self, _: Echo, _: bool) -> Answered {
        Answered::reply(ReplyBody::Number(self.0.into()))
    }
}

impl Answer for StateChannel {
    fn answered(self, _: Echo, _: bool) -> Answered {
        // Bits 0 to 7: error; bit 8: no descriptor comes along.
        match self {
            Self::Offered => Answered::reply(ReplyBody::Number(0x100)),
            Self::Replaced(fd) => Answered::reply(ReplyBody::NumberWithFd(0, fd.into())),
            Self::Refused(refusal) => {
                Answered { reply: Some(ReplyBody::Number(0x101)), refusal: Some(refusal) }
            }
        }
    }
}
