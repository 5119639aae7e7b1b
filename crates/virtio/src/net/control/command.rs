//! Commands as bytes and as values.
use crate::net::{GUEST_SEGMENTATION, MacAddress};
use crate::{Features, NetFeatures};

/// The longest accepted command, which has room for address tables of some ten thousand entries. A longer command is
/// rejected without being read.
pub const MAX_COMMAND_BYTES: usize = 64 * 1024;

/// A VLAN's number, below 4096 (IEEE 802.1Q §9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanId(u16);

impl VlanId {
    /// `None` for a number above 4095.
    pub const fn new(id: u16) -> Option<Self> {
        if id < 4096 { Some(VlanId(id)) } else { None }
    }

    /// The VLAN of a tag, whose upper four bits are priority and drop eligibility.
    pub const fn of_tag(tag: u16) -> Self {
        VlanId(tag & 0xfff)
    }

    /// The number, below 4096.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// A receive mode that can be on or off (§5.1.6.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveMode {
    /// Everything is received, whatever the other modes say.
    Promiscuous,
    /// All multicast frames are received.
    AllMulticast,
    /// All unicast frames are received.
    AllUnicast,
    /// No multicast frame is received; broadcasts are.
    NoMulticast,
    /// No unicast frame is received.
    NoUnicast,
    /// No broadcast is received.
    NoBroadcast,
}

/// A command that changes a receive filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterCommand<'b> {
    /// Turns a mode on or off.
    Mode(ReceiveMode, bool),
    /// Replaces the address table (§5.1.6.5.2), of any length.
    Addresses {
        /// Unicast addresses.
        unicast: &'b [[u8; 6]],
        /// Multicast addresses.
        multicast: &'b [[u8; 6]],
    },
    /// Sets the address of the device itself, which must not be a group address.
    Own(MacAddress),
    /// Lets frames of a VLAN pass (§5.1.6.5.3).
    AddVlan(VlanId),
    /// Stops frames of a VLAN.
    RemoveVlan(VlanId),
}

/// A command that the negotiated features allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'b> {
    /// Changes the receive filter.
    Filter(FilterCommand<'b>),
    /// Acknowledges an announcement request (§5.1.6.5.4): the device clears the status bit.
    AnnounceAck,
    /// Sets the number of queue pairs in use, 1 to the device's maximum (§5.1.6.5.6).
    QueuePairs(u16),
    /// Sets which of the negotiated `GUEST_*` offloads are on (§5.1.6.5.8).
    GuestOffloads(Features),
}

/// A command that is answered with [`super::Ack::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The command has no complete class and command.
    #[error("a command of {0} bytes; class and command take 2 (VIRTIO 1.3 §5.1.6.5)")]
    Short(usize),
    /// The class or command is unknown.
    #[error("class {class}, command {command} is unknown here (VIRTIO 1.3 §5.1.6.5)")]
    Unknown {
        /// `class`.
        class: u8,
        /// `command`.
        command: u8,
    },
    /// The feature that the command belongs to was not negotiated.
    #[error("class {class}, command {command} without feature {} (VIRTIO 1.3 {section})", NetFeatures(*feature))]
    NotNegotiated {
        /// `class`.
        class: u8,
        /// `command`.
        command: u8,
        /// The feature.
        feature: Features,
        /// The section of the specification that requires it.
        section: &'static str,
    },
    /// The data after class and command is too short or too long.
    #[error("class {class}, command {command} with {bytes} bytes of data (VIRTIO 1.3 {section})")]
    Length {
        /// `class`.
        class: u8,
        /// `command`.
        command: u8,
        /// Bytes of command-specific data.
        bytes: usize,
        /// The section of the specification that gives the length.
        section: &'static str,
    },
    /// The value is neither on nor off.
    #[error("receive mode set to {0}; it is 0 or 1 (VIRTIO 1.3 §5.1.6.5.1)")]
    Switch(u8),
    /// The device's own address must not be a group address.
    #[error("own address set to {0}, a multicast address (VIRTIO 1.3 §5.1.6.5.2)")]
    GroupAddress(MacAddress),
    /// Above 4095.
    #[error("VLAN {0} does not exist; the highest is 4095 (VIRTIO 1.3 §5.1.6.5.3)")]
    Vlan(u16),
    /// The number of queue pairs is 0 or above the maximum.
    #[error("{asked} queue pairs; the device has 1 to {max} (VIRTIO 1.3 §5.1.6.5.6)")]
    QueuePairs {
        /// The number that the driver asked for.
        asked: u16,
        /// `max_virtqueue_pairs`.
        max: u16,
    },
    /// Offloads that were not negotiated.
    #[error("offloads {0:?} were not negotiated or cannot be switched (VIRTIO 1.3 §5.1.6.5.8)")]
    Offloads(Features),
}

const RX: &str = "§5.1.6.5.1";
const MAC: &str = "§5.1.6.5.2";
const VLAN: &str = "§5.1.6.5.3";
const ANNOUNCE: &str = "§5.1.6.5.4";
const QUEUES: &str = "§5.1.6.5.6";
const OFFLOADS: &str = "§5.1.6.5.8";

impl<'b> Command<'b> {
    /// Parses a local copy of the driver's part of a message (class, command and data, VIRTIO 1.3 §5.1.6.5), without
    /// the answer byte.
    ///
    /// # Errors
    /// The message is shorter than class and command, class and command are unknown, or their feature was not
    /// negotiated. The data has the wrong length or a value outside its range: receive mode, MAC address, VLAN,
    /// number of queue pairs, or offloads.
    pub fn parse(bytes: &'b [u8], negotiated: Features, max_queue_pairs: u16) -> Result<Self, ControlError> {
        let &[class, command, ref data @ ..] = bytes else { return Err(ControlError::Short(bytes.len())) };
        let message = Message { class, command, data, negotiated };
        let mode = |mode| message.mode(mode).map(Command::Filter);
        match (class, command) {
            (0, 0) => mode(ReceiveMode::Promiscuous),
            (0, 1) => mode(ReceiveMode::AllMulticast),
            (0, 2) => mode(ReceiveMode::AllUnicast),
            (0, 3) => mode(ReceiveMode::NoMulticast),
            (0, 4) => mode(ReceiveMode::NoUnicast),
            (0, 5) => mode(ReceiveMode::NoBroadcast),
            (1, 0) => message.addresses().map(Command::Filter),
            (1, 1) => {
                message.needs(NetFeatures::CTRL_MAC_ADDR, MAC)?;
                let address = MacAddress(message.exactly(MAC)?);
                match address.is_group() {
                    true => Err(ControlError::GroupAddress(address)),
                    false => Ok(Command::Filter(FilterCommand::Own(address))),
                }
            }
            (2, 0) => Ok(Command::Filter(FilterCommand::AddVlan(message.vlan()?))),
            (2, 1) => Ok(Command::Filter(FilterCommand::RemoveVlan(message.vlan()?))),
            (3, 0) => {
                message.needs(NetFeatures::GUEST_ANNOUNCE, ANNOUNCE)?;
                message.exactly::<0>(ANNOUNCE).map(|_| Command::AnnounceAck)
            }
            (4, 0) => {
                message.needs(NetFeatures::MQ, QUEUES)?;
                let asked = u16::from_le_bytes(message.exactly(QUEUES)?);
                let max = max_queue_pairs;
                match (1..=max).contains(&asked) {
                    true => Ok(Command::QueuePairs(asked)),
                    false => Err(ControlError::QueuePairs { asked, max }),
                }
            }
            (5, 0) => {
                message.needs(NetFeatures::CTRL_GUEST_OFFLOADS, OFFLOADS)?;
                let asked = Features::from_bits_retain(u64::from_le_bytes(message.exactly(OFFLOADS)?));
                let allowed = [NetFeatures::GUEST_CSUM]
                    .into_iter()
                    .chain(GUEST_SEGMENTATION)
                    .filter(|offload| negotiated.contains(*offload));
                let beyond = allowed.fold(asked, Features::difference);
                match beyond == Features::empty() {
                    true => Ok(Command::GuestOffloads(asked)),
                    false => Err(ControlError::Offloads(beyond)),
                }
            }
            _ => Err(ControlError::Unknown { class, command }),
        }
    }
}

struct Message<'b> {
    class: u8,
    command: u8,
    data: &'b [u8],
    negotiated: Features,
}

impl<'b> Message<'b> {
    fn needs(&self, feature: Features, section: &'static str) -> Result<(), ControlError> {
        let (class, command) = (self.class, self.command);
        match self.negotiated.contains(feature) {
            true => Ok(()),
            false => Err(ControlError::NotNegotiated { class, command, feature, section }),
        }
    }

    fn wrong_length(&self, section: &'static str) -> ControlError {
        let (class, command, bytes) = (self.class, self.command, self.data.len());
        ControlError::Length { class, command, bytes, section }
    }

    fn exactly<const N: usize>(&self, section: &'static str) -> Result<[u8; N], ControlError> {
        self.data.try_into().map_err(|_| self.wrong_length(section))
    }

    fn mode(&self, mode: ReceiveMode) -> Result<FilterCommand<'b>, ControlError> {
        let feature = match mode {
            ReceiveMode::Promiscuous | ReceiveMode::AllMulticast => NetFeatures::CTRL_RX,
            _ => NetFeatures::CTRL_RX_EXTRA,
        };
        self.needs(feature, RX)?;
        match self.exactly(RX)? {
            [0] => Ok(FilterCommand::Mode(mode, false)),
            [1] => Ok(FilterCommand::Mode(mode, true)),
            [other] => Err(ControlError::Switch(other)),
        }
    }

    fn addresses(&self) -> Result<FilterCommand<'b>, ControlError> {
        self.needs(NetFeatures::CTRL_RX, MAC)?;
        let tables = table(self.data).and_then(|(unicast, rest)| Some((unicast, table(rest)?)));
        match tables {
            Some((unicast, (multicast, []))) => Ok(FilterCommand::Addresses { unicast, multicast }),
            _ => Err(self.wrong_length(MAC)),
        }
    }

    fn vlan(&self) -> Result<VlanId, ControlError> {
        self.needs(NetFeatures::CTRL_VLAN, VLAN)?;
        let id = u16::from_le_bytes(self.exactly(VLAN)?);
        VlanId::new(id).ok_or(ControlError::Vlan(id))
    }
}

/// A count and so many addresses, and what follows them.
fn table(data: &[u8]) -> Option<(&[[u8; 6]], &[u8])> {
    let (entries, rest) = data.split_first_chunk::<4>()?;
    let bytes = usize::try_from(u32::from_le_bytes(*entries)).ok()?.checked_mul(6)?;
    let (addresses, rest) = rest.split_at_checked(bytes)?;
    Some((addresses.as_chunks().0, rest))
}

#[cfg(test)]
mod tests;
