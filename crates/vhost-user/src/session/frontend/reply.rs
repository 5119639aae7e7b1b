//! Answers of the back-end, checked against the requests.

use crate::SharedFd;
use crate::bits::ProtocolFeatures;
use crate::codec::crypto::{CryptoForm, CryptoSessionReply};
use crate::codec::payload::{
    ConfigAccess, Inflight, LogArea, MemoryRegion, MemoryTable, SingleRegion, VringState,
};
use crate::codec::table::Rule;
use crate::codec::{Message, reply};
use crate::violation::Violation;
use crate::vring::{RingLayout, VringBase, layout_of};
use virtio::Features;

/// The expected answer to a request.
#[derive(Clone, Debug)]
pub(super) enum Expect {
    Acknowledgement,
    Features,
    ProtocolFeatures,
    Number,
    VringBase(u32),
    Config(ConfigAccess),
    CryptoSession(CryptoForm),
    Inflight(Inflight),
    Userfault,
    MemoryTable(MemoryTable),
    Region(MemoryRegion),
    StateChannel,
    Log,
}

/// An answer of the back-end.
#[derive(Debug)]
pub enum Answer {
    /// The device features that the back-end offers.
    Features(Features),
    /// The protocol features that the back-end offers, including those that this crate does not handle.
    ProtocolFeatures(ProtocolFeatures),
    /// The count or status that the request asked for.
    Number {
        /// The request's name.
        request: &'static str,
        /// Its answer.
        value: u64,
    },
    /// The position at which a queue stopped.
    VringBase {
        /// The queue.
        index: u32,
        /// The position.
        base: VringBase,
    },
    /// Configuration bytes, or `None` if the back-end refused.
    Config(Option<Vec<u8>>),
    /// The number of the new session, or `None` if the back-end refused it.
    CryptoSession(Option<u64>),
    /// The in-flight buffer.
    Inflight(Inflight, SharedFd),
    /// A userfaultfd, or `None` if the back-end could not open one.
    Userfault(Option<SharedFd>),
    /// The regions with the back-end's addresses. The front-end must send an empty table once it serves their faults.
    MappedTable(MemoryTable),
    /// The region with the back-end's address.
    MappedRegion(MemoryRegion),
    /// The descriptor to use in place of the offered one; `None` if the offered one is used.
    StateChannel(Option<SharedFd>),
    /// The request was carried out.
    Done {
        /// The request's name.
        request: &'static str,
    },
    /// The request was refused.
    Refused {
        /// The request's name.
        request: &'static str,
        /// A number other than zero, without further meaning.
        code: u64,
    },
}

pub(super) fn read(
    rule: &'static Rule,
    expect: Expect,
    message: Message,
    features: Features,
) -> Result<Answer, Violation> {
    let fds = match expect {
        Expect::Inflight(_) => 1..=1,
        Expect::Userfault | Expect::StateChannel => 0..=1,
        _ => 0..=0,
    };
    reply::check(rule, &message, fds)?;
    Ok(match expect {
        Expect::Acknowledgement => acknowledgement(rule, &message)?,
        Expect::Features => Answer::Features(Features::from_bits_retain(reply::read(rule, &message)?)),
        Expect::ProtocolFeatures => {
            Answer::ProtocolFeatures(ProtocolFeatures::from_bits_retain(reply::read(rule, &message)?))
        }
        Expect::Number => Answer::Number { request: rule.name, value: reply::read(rule, &message)? },
        Expect::VringBase(index) => vring_base(rule, &message, index, layout_of(features))?,
        Expect::Config(asked) => config(rule, &message, &asked)?,
        Expect::CryptoSession(form) => {
            let given: CryptoSessionReply = reply::read(rule, &message)?;
            if given.form != form {
                return Err(rule.violation(
                    "payload size",
                    message.payload.len() as u64,
                    "the request's size",
                ));
            }
            Answer::CryptoSession(u64::try_from(given.number).ok())
        }
        Expect::Inflight(asked) => inflight(rule, message, &asked)?,
        Expect::Userfault => {
            if !message.payload.is_empty() {
                return Err(rule.violation("payload size", message.payload.len() as u64, "no payload"));
            }
            Answer::Userfault(message.fds.into_iter().next())
        }
        Expect::MemoryTable(asked) => {
            let table: MemoryTable = reply::read(rule, &message)?;
            let same = table.regions.len() == asked.regions.len()
                && table.regions.iter().zip(&asked.regions).all(|(mapped, asked)| same_memory(mapped, asked));
            if !same {
                return Err(rule.violation(
                    "regions",
                    table.regions.len() as u64,
                    "the regions that were sent",
                ));
            }
            Answer::MappedTable(table)
        }
        Expect::Region(asked) => {
            let SingleRegion(region) = reply::read(rule, &message)?;
            if !same_memory(&region, &asked) {
                return Err(rule.violation(
                    "guest address",
                    region.guest_address,
                    "the region that was sent",
                ));
            }
            Answer::MappedRegion(region)
        }
        Expect::Log => log(rule, &message)?,
        Expect::StateChannel => state_channel(rule, message)?,
    })
}

fn acknowledgement(rule: &'static Rule, message: &Message) -> Result<Answer, Violation> {
    let code = reply::read(rule, message)?;
    let request = rule.name;
    Ok(if code == 0 { Answer::Done { request } } else { Answer::Refused { request, code } })
}

/// The text leaves this reply's form open: the vhost crate sends the request back, libvhost-user a
/// number, others nothing.
fn log(rule: &'static Rule, message: &Message) -> Result<Answer, Violation> {
    match message.payload.len() {
        0 => Ok(Answer::Done { request: rule.name }),
        8 => acknowledgement(rule, message),
        _ => reply::read::<LogArea>(rule, message).map(|_| Answer::Done { request: rule.name }),
    }
}

fn vring_base(
    rule: &'static Rule,
    message: &Message,
    asked: u32,
    layout: RingLayout,
) -> Result<Answer, Violation> {
    let VringState { index, num } = reply::read(rule, message)?;
    if index != asked {
        return Err(rule.violation("index", index, "the queue that was asked for"));
    }
    let base = VringBase::from_wire(layout, num)
        .ok_or_else(|| rule.violation("num", num, "a position in sixteen bits"))?;
    Ok(Answer::VringBase { index, base })
}

fn config(rule: &'static Rule, message: &Message, asked: &ConfigAccess) -> Result<Answer, Violation> {
    if message.payload.is_empty() {
        return Ok(Answer::Config(None));
    }
    let given: ConfigAccess = reply::read(rule, message)?;
    // Some back-ends report an error by a size of zero in a whole payload.
    if given.bytes.is_empty() && !asked.bytes.is_empty() {
        return Ok(Answer::Config(None));
    }
    if given.bytes.len() != asked.bytes.len() || given.offset != asked.offset {
        return Err(rule.violation("size", given.bytes.len() as u64, "what was asked for"));
    }
    Ok(Answer::Config(Some(given.bytes)))
}

fn inflight(rule: &'static Rule, message: Message, asked: &Inflight) -> Result<Answer, Violation> {
    let given: Inflight = reply::read(rule, &message)?;
    if (given.queue_count, given.queue_size) != (asked.queue_count, asked.queue_size) {
        return Err(rule.violation("number of queues", given.queue_count, "what was asked for"));
    }
    if given.size_bytes == 0 || given.offset.checked_add(given.size_bytes).is_none() {
        return Err(rule.violation("size", given.size_bytes, "a buffer within its file"));
    }
    let file = message.fds.into_iter().next();
    let file = file.ok_or_else(|| rule.violation("file descriptors", 0u64, "1"))?;
    Ok(Answer::Inflight(given, file))
}

/// Bits 0 to 7: error; bit 8: no descriptor comes along.
fn state_channel(rule: &'static Rule, message: Message) -> Result<Answer, Violation> {
    let value: u64 = reply::read(rule, &message)?;
    let (code, announced) = (value & 0xff, value & 0x100 == 0);
    if code != 0 {
        return Ok(Answer::Refused { request: rule.name, code });
    }
    if announced == message.fds.is_empty() {
        return Err(rule.violation("file descriptors", message.fds.len() as u64, "as many as bit 8 says"));
    }
    Ok(Answer::StateChannel(message.fds.into_iter().next()))
}

fn same_memory(a: &MemoryRegion, b: &MemoryRegion) -> bool {
    (a.guest_address, a.size_bytes) == (b.guest_address, b.size_bytes)
}
