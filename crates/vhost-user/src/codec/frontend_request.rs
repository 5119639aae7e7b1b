//! Requests of the front-end.
use std::os::fd::OwnedFd;

use super::bytes::{Reader, Wire};
use super::crypto::CreateCryptoSession;
use super::message::Message;
use super::payload::*;
use super::table::{self, Rule};
use super::whole::{read_all, write_all};
use crate::SharedFd;
use crate::bits::ProtocolFeatures;
use crate::violation::Violation;
use virtio::Features;

/// A request of the front-end. Its descriptors are passed separately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrontendRequest {
    /// Asks which device features the back-end offers.
    GetFeatures,
    /// Sets the agreed device features.
    SetFeatures(Features),
    /// Begins the session.
    SetOwner,
    /// Deprecated; changes nothing.
    ResetOwner,
    /// Sets all memory regions, replacing the former ones.
    SetMemTable(MemoryTable),
    /// Sets the log of dirty pages.
    SetLogBase(LogArea),
    /// Sets an eventfd to signal after logging.
    SetLogFd,
    /// A queue's size.
    SetVringNum(VringState),
    /// A queue's addresses.
    SetVringAddr(VringAddress),
    /// Sets where a queue begins.
    SetVringBase(VringState),
    /// Stops a queue, and asks where it stopped.
    GetVringBase(VringState),
    /// Sets the eventfd by which the driver notifies; starts the queue.
    SetVringKick(VringFd),
    /// Sets the eventfd by which the device notifies.
    SetVringCall(VringFd),
    /// Sets the eventfd by which the device reports an error.
    SetVringErr(VringFd),
    /// Asks which protocol features the back-end offers.
    GetProtocolFeatures,
    /// Sets the agreed protocol features.
    SetProtocolFeatures(ProtocolFeatures),
    /// Asks for the number of queues.
    GetQueueNum,
    /// Enables or disables a queue.
    SetVringEnable(VringState),
    /// Asks to announce this address, because the guest has migrated.
    SendRarp(MacAddress),
    /// Sets the MTU that the guest is told.
    NetSetMtu(u64),
    /// Sets the socket for the back-end's own requests.
    SetBackendReqFd,
    /// Adds or invalidates a translation.
    IotlbMsg(Iotlb),
    /// Reads configuration space.
    GetConfig(ConfigAccess),
    /// Writes configuration space.
    SetConfig(ConfigAccess),
    /// Creates a session of a crypto device.
    CreateCryptoSession(Box<CreateCryptoSession>),
    /// Closes a session of a crypto device, by its number.
    CloseCryptoSession(u64),
    /// Prepares for a postcopy migration, and asks for a userfaultfd.
    PostcopyAdvise,
    /// Begins postcopy; memory must be registered with the userfaultfd.
    PostcopyListen,
    /// Ends postcopy.
    PostcopyEnd,
    /// Asks for an in-flight buffer.
    GetInflightFd(Inflight),
    /// Passes the in-flight buffer of an earlier back-end.
    SetInflightFd(Inflight),
    /// Resets the device to the state before rings are set up.
    ResetDevice,
    /// A kick, sent as a message.
    VringKick(VringState),
    /// Asks for the largest number of memory regions.
    GetMaxMemSlots,
    /// Adds a memory region.
    AddMemReg(SingleRegion),
    /// ADD_MEM_REG with eight zero bytes: the front-end is ready to serve the page faults of postcopy.
    AckMemRegs,
    /// Removes a memory region.
    RemMemReg(SingleRegion),
    /// Sets the driver's device status.
    SetStatus(u64),
    /// Asks for the device status.
    GetStatus,
    /// Starts the transfer of the device's state over this descriptor.
    SetDeviceStateFd(DeviceStateTransfer),
    /// Asks whether the state was transferred completely.
    CheckDeviceState,
}

/// A network address, in the first six bytes of SEND_RARP's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacAddress(pub [u8; 6]);

impl Wire for MacAddress {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Violation> {
        let [a, b, c, d, e, f, _, _] = reader.u64()?.to_ne_bytes();
        Ok(Self([a, b, c, d, e, f]))
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
        out.extend_from_slice(&[0; 2]);
    }
}

impl Wire for Features {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Violation> {
        reader.u64().map(Self::from_bits_retain)
    }
    fn write(&self, out: &mut Vec<u8>) {
        self.bits().write(out);
    }
}

impl Wire for ProtocolFeatures {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Violation> {
        reader.u64().map(Self::from_bits_retain)
    }
    fn write(&self, out: &mut Vec<u8>) {
        self.bits().write(out);
    }
}

impl FrontendRequest {
    /// The request's number in the header.
    pub fn id(&self) -> u32 {
        match self {
            Self::GetFeatures => 1,
            Self::SetFeatures(_) => 2,
            Self::SetOwner => 3,
            Self::ResetOwner => 4,
            Self::SetMemTable(_) => 5,
            Self::SetLogBase(_) => 6,
            Self::SetLogFd => 7,
            Self::SetVringNum(_) => 8,
            Self::SetVringAddr(_) => 9,
            Self::SetVringBase(_) => 10,
            Self::GetVringBase(_) => 11,
            Self::SetVringKick(_) => 12,
            Self::SetVringCall(_) => 13,
            Self::SetVringErr(_) => 14,
            Self::GetProtocolFeatures => 15,
            Self::SetProtocolFeatures(_) => 16,
            Self::GetQueueNum => 17,
            Self::SetVringEnable(_) => 18,
            Self::SendRarp(_) => 19,
            Self::NetSetMtu(_) => 20,
            Self::SetBackendReqFd => 21,
            Self::IotlbMsg(_) => 22,
            Self::GetConfig(_) => 24,
            Self::SetConfig(_) => 25,
            Self::CreateCryptoSession(_) => 26,
            Self::CloseCryptoSession(_) => 27,
            Self::PostcopyAdvise => 28,
            Self::PostcopyListen => 29,
            Self::PostcopyEnd => 30,
            Self::GetInflightFd(_) => 31,
            Self::SetInflightFd(_) => 32,
            Self::ResetDevice => 34,
            Self::VringKick(_) => 35,
            Self::GetMaxMemSlots => 36,
            Self::AddMemReg(_) => 37,
            Self::AckMemRegs => 37,
            Self::RemMemReg(_) => 38,
            Self::SetStatus(_) => 39,
            Self::GetStatus => 40,
            Self::SetDeviceStateFd(_) => 42,
            Self::CheckDeviceState => 43,
        }
    }

    /// The row of the message table.
    pub fn rule(&self) -> &'static Rule {
        // Every id above is a row; a test goes through all of them.
        &table::FRONTEND_REQUESTS[self.id() as usize - 1]
    }

    /// Parses a request of the front-end, after the table has checked direction, payload size and number of
    /// descriptors.
    ///
    /// # Errors
    /// The id is not in the table or not offered; the message is a reply; its payload size or its number of
    /// descriptors is not what the table allows; or a field has a value that the message cannot carry.
    pub fn parse(message: &Message) -> Result<Self, Violation> {
        let (rule, payload) = table::frontend_request(message.header.id)?.check_request(message)?;
        Self::read(rule, payload)
    }

    fn read(rule: &Rule, payload: &[u8]) -> Result<Self, Violation> {
        Ok(match rule.id {
            1 => Self::GetFeatures,
            2 => Self::SetFeatures(read_all(rule, payload)?),
            3 => Self::SetOwner,
            4 => Self::ResetOwner,
            5 => Self::SetMemTable(read_all(rule, payload)?),
            6 => Self::SetLogBase(read_all(rule, payload)?),
            7 => Self::SetLogFd,
            8 => Self::SetVringNum(read_all(rule, payload)?),
            9 => Self::SetVringAddr(read_all(rule, payload)?),
            10 => Self::SetVringBase(read_all(rule, payload)?),
            11 => Self::GetVringBase(read_all(rule, payload)?),
            12 => Self::SetVringKick(read_all(rule, payload)?),
            13 => Self::SetVringCall(read_all(rule, payload)?),
            14 => Self::SetVringErr(read_all(rule, payload)?),
            15 => Self::GetProtocolFeatures,
            16 => Self::SetProtocolFeatures(read_all(rule, payload)?),
            17 => Self::GetQueueNum,
            18 => Self::SetVringEnable(read_all(rule, payload)?),
            19 => Self::SendRarp(read_all(rule, payload)?),
            20 => Self::NetSetMtu(read_all(rule, payload)?),
            21 => Self::SetBackendReqFd,
            22 => Self::IotlbMsg(read_all(rule, payload)?),
            24 => Self::GetConfig(read_all(rule, payload)?),
            25 => Self::SetConfig(read_all(rule, payload)?),
            26 => Self::CreateCryptoSession(Box::new(read_all(rule, payload)?)),
            27 => Self::CloseCryptoSession(read_all(rule, payload)?),
            28 => Self::PostcopyAdvise,
            29 => Self::PostcopyListen,
            30 => Self::PostcopyEnd,
            31 => Self::GetInflightFd(read_all(rule, payload)?),
            32 => Self::SetInflightFd(read_all(rule, payload)?),
            34 => Self::ResetDevice,
            35 => Self::VringKick(read_all(rule, payload)?),
            36 => Self::GetMaxMemSlots,
            37 if payload.len() == 8 => match read_all::<u64>(rule, payload)? {
                0 => Self::AckMemRegs,
                code => return Err(rule.violation("acknowledgement", code, "0")),
            },
            37 => Self::AddMemReg(read_all(rule, payload)?),
            38 => Self::RemMemReg(read_all(rule, payload)?),
            39 => Self::SetStatus(read_all(rule, payload)?),
            40 => Self::GetStatus,
            42 => Self::SetDeviceStateFd(read_all(rule, payload)?),
            43 => Self::CheckDeviceState,
            other => return Err(rule.violation("id", other, "a message that was offered")),
        })
    }

    /// Parses a message that was accepted before, without checking its descriptors, which may be gone.
    pub(crate) fn reread(id: u32, payload: &[u8]) -> Option<Self> {
        Self::read(table::frontend_request(id).ok()?, payload).ok()
    }

    /// The payload's bytes.
    pub fn payload(&self) -> Vec<u8> {
        match self {
            Self::SetFeatures(value) => write_all(value),
            Self::SetMemTable(value) => write_all(value),
            Self::SetLogBase(value) => write_all(value),
            Self::SetVringNum(value) => write_all(value),
            Self::SetVringAddr(value) => write_all(value),
            Self::SetVringBase(value) => write_all(value),
            Self::GetVringBase(value) => write_all(value),
            Self::SetVringKick(value) => write_all(value),
            Self::SetVringCall(value) => write_all(value),
            Self::SetVringErr(value) => write_all(value),
            Self::SetProtocolFeatures(value) => write_all(value),
            Self::SetVringEnable(value) => write_all(value),
            Self::SendRarp(value) => write_all(value),
            Self::NetSetMtu(value) => write_all(value),
            Self::IotlbMsg(value) => write_all(value),
            Self::GetConfig(value) => write_all(value),
            Self::SetConfig(value) => write_all(value),
            Self::CreateCryptoSession(value) => write_all(value.as_ref()),
            Self::CloseCryptoSession(value) => write_all(value),
            Self::GetInflightFd(value) => write_all(value),
            Self::SetInflightFd(value) => write_all(value),
            Self::VringKick(value) => write_all(value),
            Self::AddMemReg(value) => write_all(value),
            Self::RemMemReg(value) => write_all(value),
            Self::SetStatus(value) => write_all(value),
            Self::SetDeviceStateFd(value) => write_all(value),
            Self::AckMemRegs => write_all(&0u64),
            Self::GetFeatures
            | Self::SetOwner
            | Self::ResetOwner
            | Self::SetLogFd
            | Self::GetProtocolFeatures
            | Self::GetQueueNum
            | Self::SetBackendReqFd
            | Self::PostcopyAdvise
            | Self::PostcopyListen
            | Self::PostcopyEnd
            | Self::ResetDevice
            | Self::GetMaxMemSlots
            | Self::GetStatus
            | Self::CheckDeviceState => vec![],
        }
    }

    /// The message with these descriptors, without a request for an acknowledgement. The session's state is not
    /// checked here; sessions do that.
    pub fn to_message(&self, fds: Vec<OwnedFd>) -> Message {
        Message::new(self.id(), self.payload(), fds.into_iter().map(SharedFd::from).collect())
    }
}
