//! One row for each message and each protocol feature: its format, and whether it is handled.
//!
//! The codec takes sizes and descriptor counts from here, and the sessions take preconditions and replies. The table
//! also shows a reader which messages are supported.
use std::ops::RangeInclusive;

use super::header::MAX_PAYLOAD_BYTES;
use super::message::Message;
use crate::bits::ProtocolFeatures as P;
use crate::violation::Violation;
use virtio::Features;

/// The form of a payload.
#[allow(missing_docs, reason = "each is named after its type in `payload`, or after what it is")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Empty,
    U64,
    VringState,
    VringAddress,
    VringFd,
    MemoryTable,
    SingleRegion,
    LogArea,
    Iotlb,
    Config,
    VringArea,
    Inflight,
    DeviceState,
    Uuid,
    CryptoSession,
    /// Read and discarded, for messages that are not offered.
    Opaque,
}

impl Shape {
    /// The payload sizes in bytes of this form. The parser checks the exact size.
    pub const fn sizes(self) -> RangeInclusive<usize> {
        match self {
            Self::Empty => 0..=0,
            Self::U64 | Self::VringState | Self::VringFd | Self::DeviceState => 8..=8,
            Self::VringAddress => 40..=40,
            Self::MemoryTable => 8..=8 + 8 * 32,
            // Eight bytes of zero acknowledge the regions of a postcopy exchange.
            Self::SingleRegion => 8..=40,
            Self::LogArea | Self::Uuid => 16..=16,
            Self::Iotlb => 26..=32,
            Self::Config => 12..=12 + super::payload::MAX_CONFIG_BYTES,
            Self::VringArea => 24..=24,
            Self::Inflight => 20..=24,
            Self::CryptoSession => 632..=1072,
            Self::Opaque => 0..=MAX_PAYLOAD_BYTES,
        }
    }
}

/// The kind of answer to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// 0 or an error code, if the sender set need_reply (REPLY_ACK).
    OnRequest,
    /// 0 or an error code, always.
    Acknowledgement,
    /// A payload of its own.
    Payload(Shape),
    /// An empty payload with a file descriptor.
    Descriptor,
}

/// The features that must have been negotiated before the message may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Nothing.
    Always,
    /// The back-end offers VHOST_USER_F_PROTOCOL_FEATURES; the front-end need not have set it yet.
    ProtocolFeatures,
    /// The back-end offers this protocol feature; the vhost-user text requires no more for these messages.
    Offered(P),
    /// SET_PROTOCOL_FEATURES had this bit.
    Negotiated(P),
    /// SET_FEATURES had this bit.
    Device(Features),
}

/// Whether this crate handles a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Both sessions handle the message.
    Handled,
    /// The message is rejected like an unknown message, for this reason.
    NotOffered(&'static str),
}
use Support::{Handled, NotOffered};

/// The properties of one message.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Number in the header.
    pub id: u32,
    /// Name in the vhost-user text, without `VHOST_USER_`.
    pub name: &'static str,
    /// Form of the payload.
    pub shape: Shape,
    /// How many file descriptors may be passed.
    pub fds: RangeInclusive<usize>,
    /// The reply.
    pub reply: Reply,
    /// The features that must have been negotiated.
    pub gate: Gate,
    /// Whether the message is handled, or the reason why it is not.
    pub support: Support,
}

const fn row(
    id: u32,
    name: &'static str,
    shape: Shape,
    fds: RangeInclusive<usize>,
    reply: Reply,
    gate: Gate,
    support: Support,
) -> Rule {
    Rule { id, name, shape, fds, reply, gate, support }
}

/// Requests of the front-end: id, name, payload, descriptors, reply, gate, support.
#[rustfmt::skip]
pub static FRONTEND_REQUESTS: [Rule; 44] = [
    row(1, "GET_FEATURES", Shape::Empty, 0..=0, Reply::Payload(Shape::U64), Gate::Always, Handled),
    row(2, "SET_FEATURES", Shape::U64, 0..=0, Reply::OnRequest, Gate::Always, Handled),
    row(3, "SET_OWNER", Shape::Empty, 0..=0, Reply::OnRequest, Gate::Always, Handled),
    row(4, "RESET_OWNER", Shape::Empty, 0..=0, Reply::OnRequest, Gate::Always, Handled),
    row(5, "SET_MEM_TABLE", Shape::MemoryTable, 0..=8, Reply::OnRequest, Gate::Always, Handled),
    row(6, "SET_LOG_BASE", Shape::LogArea, 1..=1, Reply::Payload(Shape::LogArea), Gate::Negotiated(P::LOG_SHMFD), Handled),
    row(7, "SET_LOG_FD", Shape::Empty, 1..=1, Reply::OnRequest, Gate::Always, Handled),
    row(8, "SET_VRING_NUM", Shape::VringState, 0..=0, Reply::OnRequest, Gate::Always, Handled),
    row(9, "SET_VRING_ADDR", Shape::VringAddress, 0..=0, Reply::OnRequest, Gate::Always, Handled),
    row(10, "SET_VRING_BASE", Shape::VringState, 0..=0, Reply::OnRequest, Gate::Always, Handled),
    row(11, "GET_VRING_BASE", Shape::VringState, 0..=0, Reply::Payload(Shape::VringState), Gate::Always, Handled),
    row(12, "SET_VRING_KICK", Shape::VringFd, 0..=1, Reply::OnRequest, Gate::Always, Handled),
    row(13, "SET_VRING_CALL", Shape::VringFd, 0..=1, Reply::OnRequest, Gate::Always, Handled),
    row(14, "SET_VRING_ERR", Shape::VringFd, 0..=1, Reply::OnRequest, Gate::Always, Handled),
    row(15, "GET_PROTOCOL_FEATURES", Shape::Empty, 0..=0, Reply::Payload(Shape::U64), Gate::ProtocolFeatures, Handled),
    row(16, "SET_PROTOCOL_FEATURES", Shape::U64, 0..=0, Reply::OnRequest, Gate::ProtocolFeatures, Handled),
    row(17, "GET_QUEUE_NUM", Shape::Empty, 0..=0, Reply::Payload(Shape::U64), Gate::Offered(P::MQ), Handled),
    row(18, "SET_VRING_ENABLE", Shape::VringState, 0..=0, Reply::OnRequest, Gate::ProtocolFeatures, Handled),
    row(19, "SEND_RARP", Shape::U64, 0..=0, Reply::OnRequest, Gate::Offered(P::RARP), Handled),
    row(20, "NET_SET_MTU", Shape::U64, 0..=0, Reply::OnRequest, Gate::Offered(P::MTU), Handled),
    row(21, "SET_BACKEND_REQ_FD", Shape::Empty, 1..=1, Reply::OnRequest, Gate::Offered(P::BACKEND_REQ), Handled),
    row(22, "IOTLB_MSG", Shape::Iotlb, 0..=0, Reply::Acknowledgement, Gate::Device(Features::ACCESS_PLATFORM), Handled),
    row(23, "SET_VRING_ENDIAN", Shape::VringState, 0..=0, Reply::OnRequest, Gate::Negotiated(P::CROSS_ENDIAN), NotOffered("legacy devices of the other byte order only")),
    row(24, "GET_CONFIG", Shape::Config, 0..=0, Reply::Payload(Shape::Config), Gate::Negotiated(P::CONFIG), Handled),
    row(25, "SET_CONFIG", Shape::Config, 0..=0, Reply::OnRequest, Gate::Negotiated(P::CONFIG), Handled),
    row(26, "CREATE_CRYPTO_SESSION", Shape::CryptoSession, 0..=0, Reply::Payload(Shape::CryptoSession), Gate::Negotiated(P::CRYPTO_SESSION), Handled),
    row(27, "CLOSE_CRYPTO_SESSION", Shape::U64, 0..=0, Reply::OnRequest, Gate::Negotiated(P::CRYPTO_SESSION), Handled),
    row(28, "POSTCOPY_ADVISE", Shape::Empty, 0..=0, Reply::Descriptor, Gate::Negotiated(P::PAGEFAULT), Handled),
    row(29, "POSTCOPY_LISTEN", Shape::Empty, 0..=0, Reply::OnRequest, Gate::Negotiated(P::PAGEFAULT), Handled),
    row(30, "POSTCOPY_END", Shape::Empty, 0..=0, Reply::Acknowledgement, Gate::Negotiated(P::PAGEFAULT), Handled),
    row(31, "GET_INFLIGHT_FD", Shape::Inflight, 0..=0, Reply::Payload(Shape::Inflight), Gate::Negotiated(P::INFLIGHT_SHMFD), Handled),
    row(32, "SET_INFLIGHT_FD", Shape::Inflight, 1..=1, Reply::OnRequest, Gate::Negotiated(P::INFLIGHT_SHMFD), Handled),
    row(33, "GPU_SET_SOCKET", Shape::Empty, 1..=1, Reply::OnRequest, Gate::Always, NotOffered("no GPU device over this protocol")),
    row(34, "RESET_DEVICE", Shape::Empty, 0..=0, Reply::OnRequest, Gate::Negotiated(P::RESET_DEVICE), Handled),
    row(35, "VRING_KICK", Shape::VringState, 0..=0, Reply::OnRequest, Gate::Negotiated(P::INBAND_NOTIFICATIONS), Handled),
    row(36, "GET_MAX_MEM_SLOTS", Shape::Empty, 0..=0, Reply::Payload(Shape::U64), Gate::Negotiated(P::CONFIGURE_MEM_SLOTS), Handled),
    row(37, "ADD_MEM_REG", Shape::SingleRegion, 0..=1, Reply::OnRequest, Gate::Negotiated(P::CONFIGURE_MEM_SLOTS), Handled),
    row(38, "REM_MEM_REG", Shape::SingleRegion, 0..=1, Reply::OnRequest, Gate::Negotiated(P::CONFIGURE_MEM_SLOTS), Handled),
    row(39, "SET_STATUS", Shape::U64, 0..=0, Reply::OnRequest, Gate::Negotiated(P::STATUS), Handled),
    row(40, "GET_STATUS", Shape::Empty, 0..=0, Reply::Payload(Shape::U64), Gate::Negotiated(P::STATUS), Handled),
    row(41, "GET_SHARED_OBJECT", Shape::Uuid, 0..=0, Reply::Descriptor, Gate::Negotiated(P::SHARED_OBJECT), NotOffered("dma-buf sharing is for GPU and video devices")),
    row(42, "SET_DEVICE_STATE_FD", Shape::DeviceState, 1..=1, Reply::Payload(Shape::U64), Gate::Negotiated(P::DEVICE_STATE), Handled),
    row(43, "CHECK_DEVICE_STATE", Shape::Empty, 0..=0, Reply::Acknowledgement, Gate::Negotiated(P::DEVICE_STATE), Handled),
    row(44, "GET_SHMEM_CONFIG", Shape::Empty, 0..=0, Reply::Payload(Shape::Opaque), Gate::Negotiated(P::SHMEM), NotOffered("no device of Tautline has VIRTIO shared memory regions")),
];

/// Requests of the back-end, over the socket that SET_BACKEND_REQ_FD passes.
#[rustfmt::skip]
pub static BACKEND_REQUESTS: [Rule; 10] = [
    row(1, "BACKEND_IOTLB_MSG", Shape::Iotlb, 0..=0, Reply::OnRequest, Gate::Device(Features::ACCESS_PLATFORM), Handled),
    row(2, "BACKEND_CONFIG_CHANGE_MSG", Shape::Empty, 0..=0, Reply::OnRequest, Gate::Negotiated(P::CONFIG), Handled),
    row(3, "BACKEND_VRING_HOST_NOTIFIER_MSG", Shape::VringArea, 0..=1, Reply::OnRequest, Gate::Negotiated(P::HOST_NOTIFIER), Handled),
    row(4, "BACKEND_VRING_CALL", Shape::VringState, 0..=0, Reply::OnRequest, Gate::Negotiated(P::INBAND_NOTIFICATIONS), Handled),
    row(5, "BACKEND_VRING_ERR", Shape::VringState, 0..=0, Reply::OnRequest, Gate::Negotiated(P::INBAND_NOTIFICATIONS), Handled),
    row(6, "BACKEND_SHARED_OBJECT_ADD", Shape::Uuid, 0..=0, Reply::OnRequest, Gate::Negotiated(P::SHARED_OBJECT), NotOffered("dma-buf sharing is for GPU and video devices")),
    row(7, "BACKEND_SHARED_OBJECT_REMOVE", Shape::Uuid, 0..=0, Reply::OnRequest, Gate::Negotiated(P::SHARED_OBJECT), NotOffered("dma-buf sharing is for GPU and video devices")),
    row(8, "BACKEND_SHARED_OBJECT_LOOKUP", Shape::Uuid, 0..=0, Reply::OnRequest, Gate::Negotiated(P::SHARED_OBJECT), NotOffered("dma-buf sharing is for GPU and video devices")),
    row(9, "BACKEND_SHMEM_MAP", Shape::Opaque, 0..=1, Reply::OnRequest, Gate::Negotiated(P::SHMEM), NotOffered("no device of Tautline has VIRTIO shared memory regions")),
    row(10, "BACKEND_SHMEM_UNMAP", Shape::Opaque, 0..=0, Reply::OnRequest, Gate::Negotiated(P::SHMEM), NotOffered("no device of Tautline has VIRTIO shared memory regions")),
];

/// The protocol features that are never offered, and why; all others are handled.
#[rustfmt::skip]
pub const NOT_OFFERED: [(P, &str); 6] = [
    (P::CROSS_ENDIAN, "legacy devices of the other byte order only; Tautline asks for VERSION_1"),
    (P::XEN_MMAP, "Xen's grant mappings cannot be mapped from a descriptor alone"),
    (P::SHARED_OBJECT, "dma-buf sharing is for GPU and video devices"),
    (P::GET_VRING_BASE_INFLIGHT, "queues are drained before they stop, nothing is left in flight"),
    (P::GPA_ADDRESSES, "ring addresses are user addresses with every front-end there is"),
    (P::SHMEM, "no device of Tautline has VIRTIO shared memory regions"),
];

/// A request's row, by its number.
fn find(rules: &'static [Rule], id: u32) -> Result<&'static Rule, Violation> {
    // Numbers start at 1 and have no holes; a test holds that.
    let at = (id as usize).wrapping_sub(1);
    rules.get(at).ok_or(Violation::new("unknown message", "id", id, "a message of the vhost-user text"))
}

/// The row of a front-end request, by its id.
///
/// # Errors
/// `id` is 0 or above the last request of the table.
pub fn frontend_request(id: u32) -> Result<&'static Rule, Violation> {
    find(&FRONTEND_REQUESTS, id)
}

/// The row of a back-end request, by its id.
///
/// # Errors
/// `id` is 0 or above the last request of the table.
pub fn backend_request(id: u32) -> Result<&'static Rule, Violation> {
    find(&BACKEND_REQUESTS, id)
}

impl Rule {
    /// A violation in this message.
    pub(crate) fn violation(
        &self,
        field: &'static str,
        value: impl Into<u64>,
        expected: &'static str,
    ) -> Violation {
        Violation::new(self.name, field, value, expected)
    }

    /// Checks that the end of an area in a file does not overflow.
    pub(crate) fn check_range(
        &self,
        field: &'static str,
        offset: u64,
        size: impl Into<u64>,
    ) -> Result<(), Violation> {
        match offset.checked_add(size.into()) {
            Some(_) => Ok(()),
            None => Err(self.violation(field, offset, "an offset that the size does not overflow")),
        }
    }

    /// Checks that these protocol features include all that each of them needs.
    pub(crate) fn check_needs(&self, features: P) -> Result<(), Violation> {
        match features.unmet_need() {
            None => Ok(()),
            Some(_) => Err(self.violation(
                "protocol features",
                features.bits(),
                "BACKEND_REQ and REPLY_ACK with INBAND_NOTIFICATIONS",
            )),
        }
    }

    /// Checks direction, payload size and number of descriptors of a request before its payload is parsed. Returns
    /// the row and the payload.
    ///
    /// # Errors
    /// The message is not offered, is a reply, or has a payload size or a number of descriptors that its row does
    /// not allow.
    pub fn check_request<'a>(
        &'static self,
        message: &'a Message,
    ) -> Result<(&'static Self, &'a [u8]), Violation> {
        if let NotOffered(_) = self.support {
            return Err(self.violation("id", self.id, "a message that was offered"));
        }
        if message.header.reply {
            return Err(self.violation("reply flag", 1u64, "a request"));
        }
        let size = message.payload.len();
        if size != message.header.size as usize || !self.shape.sizes().contains(&size) {
            return Err(self.violation("payload size", size as u64, "the size of this message"));
        }
        if !self.fds.contains(&message.fds.len()) {
            return Err(self.violation(
                "file descriptors",
                message.fds.len() as u64,
                "the number of this message",
            ));
        }
        Ok((self, &message.payload))
    }

    /// Whether the front-end must send SET_OWNER before this message. Memory and rings belong to the session that
    /// SET_OWNER begins, and all front-ends send it first, because the kernel's vhost requires it. DPDK's virtio-user
    /// (22.11) does not send it to a restarted back-end. A front-end's session therefore observes the rule, and a
    /// back-end's session does not require it.
    pub fn needs_owner(&self) -> bool {
        matches!(
            self.shape,
            Shape::VringState
                | Shape::VringAddress
                | Shape::VringFd
                | Shape::MemoryTable
                | Shape::SingleRegion
                | Shape::LogArea
        )
    }

    /// Checks that the features agreed on so far allow this message.
    ///
    /// # Errors
    /// The feature or protocol feature that the message needs was not offered or not negotiated.
    pub fn check_gate(&self, agreed: &Agreed) -> Result<(), Violation> {
        let protocol = agreed.offered.contains(Features::VHOST_PROTOCOL_FEATURES);
        match self.gate {
            Gate::Always => Ok(()),
            Gate::ProtocolFeatures if protocol => Ok(()),
            Gate::ProtocolFeatures => {
                Err(self.violation("feature bit", 30u64, "a feature that the back-end offers"))
            }
            Gate::Offered(bit) if protocol && agreed.protocol_offered.contains(bit) => Ok(()),
            Gate::Negotiated(bit) if agreed.protocol.contains(bit) => Ok(()),
            Gate::Offered(bit) | Gate::Negotiated(bit) => Err(self.violation(
                "protocol feature bit",
                bit.bits().trailing_zeros(),
                "a protocol feature that was agreed on",
            )),
            Gate::Device(bit) if agreed.features.contains(bit) => Ok(()),
            Gate::Device(bit) => Err(self.violation(
                "feature bit",
                bit.bits().trailing_zeros(),
                "a feature that was agreed on",
            )),
        }
    }
}

/// The negotiation of features so far, which both ends keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// GET_FEATURES.
    pub offered: Features,
    /// The features of SET_FEATURES; empty before it.
    pub features: Features,
    /// The features of the reply to GET_PROTOCOL_FEATURES.
    pub protocol_offered: P,
    /// The features of SET_PROTOCOL_FEATURES; empty before it.
    pub protocol: P,
}

#[cfg(test)]
mod tests {
    use super::super::header::Header;
    use super::*;

    #[test]
    fn ids_count_from_one_without_holes() {
        for table in [&FRONTEND_REQUESTS[..], &BACKEND_REQUESTS[..]] {
            for (at, rule) in table.iter().enumerate() {
                assert_eq!(rule.id as usize, at + 1, "{}", rule.name);
                assert!(*rule.fds.end() <= super::super::MAX_FDS);
                assert!(*rule.shape.sizes().end() <= super::super::MAX_PAYLOAD_BYTES);
            }
        }
        assert!(frontend_request(0).is_err() && frontend_request(45).is_err());
        assert!(backend_request(0).is_err() && backend_request(u32::MAX).is_err());
    }

    /// The parser of a payload refuses these sizes too: the table and the parser must each be correct alone.
    #[test]
    fn a_payload_of_another_size_is_refused_before_it_is_read() {
        let refused = |rule: &'static Rule, size: usize| {
            let header = Header { id: rule.id, reply: false, need_reply: false, size: size as u32 };
            let message = Message { header, payload: vec![0; size], fds: Vec::new() };
            matches!(rule.check_request(&message), Err(violation) if violation.field == "payload size")
        };
        let offered = |rule: &&Rule| rule.support == Handled;
        for rule in FRONTEND_REQUESTS.iter().chain(&BACKEND_REQUESTS).filter(offered) {
            let sizes = rule.shape.sizes();
            assert!(refused(rule, sizes.end() + 1), "{}", rule.name);
            assert!(sizes.start().checked_sub(1).is_none_or(|less| refused(rule, less)), "{}", rule.name);
        }
    }

    #[test]
    fn features_and_messages_say_the_same() {
        let named = P::from_bits_retain((1 << 23) - 1);
        let handled = NOT_OFFERED.iter().fold(named, |left, (bit, _)| left.difference(*bit));
        assert_eq!(handled, P::HANDLED);
        for rule in FRONTEND_REQUESTS.iter().chain(&BACKEND_REQUESTS) {
            if let Gate::Negotiated(bit) | Gate::Offered(bit) = rule.gate {
                assert_eq!(handled.contains(bit), rule.support == Handled, "{}", rule.name);
            }
        }
    }

    /// The crate's page lists every message, with its support, as this table has it.
    #[test]
    fn the_crate_page_lists_every_message() {
        let page = include_str!("../lib.rs");
        for rule in FRONTEND_REQUESTS.iter().chain(&BACKEND_REQUESTS) {
            let start = format!("//! | {} |", rule.name);
            let line = page.lines().find(|line| line.starts_with(&start));
            let line = line.unwrap_or_else(|| panic!("lib.rs does not list {}", rule.name));
            match rule.support {
                Handled => assert!(!line.contains("not offered"), "{line}"),
                NotOffered(why) => assert!(line.contains(&format!("not offered: {why}")), "{line}"),
            }
        }
        for (bit, _) in NOT_OFFERED {
            let name = bit.iter_names().next().map_or("", |(name, _)| name);
            assert!(page.contains(name), "lib.rs does not speak of {name}");
        }
    }
}
