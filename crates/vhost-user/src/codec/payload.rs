//! The payloads of the vhost-user text, section "Payload", as values.
use super::bytes::{Reader, Wire, put32, put64};
use crate::violation::Violation;

/// The most regions of one SET_MEM_TABLE.
pub const MAX_TABLE_REGIONS: usize = 8;

/// The most bytes of configuration space in one message, as in QEMU and the vhost crate.
pub const MAX_CONFIG_BYTES: usize = 256;

/// A payload whose fields stand one behind the other.
macro_rules! wire_in_order {
    ($($name:ident { $($field:ident),+ })+) => {$(
        impl Wire for $name {
            fn read(reader: &mut Reader<'_>) -> Result<Self, Violation> {
                Ok(Self { $($field: Wire::read(reader)?),+ })
            }
            fn write(&self, out: &mut Vec<u8>) {
                $(self.$field.write(out);)+
            }
        }
    )+};
}

wire_in_order! {
    VringState { index, num }
    MemoryRegion { guest_address, size_bytes, user_address, mmap_offset }
    LogArea { size_bytes, offset }
    VringArea { vring, size_bytes, offset }
}

/// A queue's index and a number about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VringState {
    /// Not yet checked against the number of queues.
    pub index: u32,
    /// A number whose meaning depends on the message.
    pub num: u32,
}

/// The addresses of a ring's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VringAddress {
    /// Not yet checked against the number of queues.
    pub index: u32,
    /// Whether writes to the used ring are logged (VHOST_VRING_F_LOG, the only flag).
    pub log_used: bool,
    /// Descriptor table or ring.
    pub descriptor: u64,
    /// Used ring or device event suppression.
    pub used: u64,
    /// Available ring or driver event suppression.
    pub available: u64,
    /// The guest address that stands for the used ring in the log.
    pub log: u64,
}

impl Wire for VringAddress {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Violation> {
        let (index, flags) = (reader.u32()?, reader.u32()?);
        if flags > 1 {
            return Err(reader.violation("flags", flags.into(), "no flag but bit 0 (log)"));
        }
        let (descriptor, used) = (reader.u64()?, reader.u64()?);
        let (available, log) = (reader.u64()?, reader.u64()?);
        Ok(Self { index, log_used: flags == 1, descriptor, used, available, log })
    }
    fn write(&self, out: &mut Vec<u8>) {
        put32(out, &[self.index, self.log_used.into()]);
        put64(out, &[self.descriptor, self.used, self.available, self.log]);
    }
}

/// A queue's index, and whether a descriptor is passed: bits 0 to 7, and bit 8 for "none".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VringFd {
    /// Not yet checked against the number of queues.
    pub index: u8,
    /// Whether exactly one descriptor is in the ancillary data (bit 8 is clear).
    pub has_fd: bool,
}

impl Wire for VringFd {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Violation> {
        let value = reader.u64()?;
        if value >> 9 != 0 {
            return Err(reader.violation("index and flag", value, "no bit above bit 8"));
        }
        Ok(Self { index: value as u8, has_fd: value & 0x100 == 0 })
    }
    fn write(&self, out: &mut Vec<u8>) {
        put64(out, &[u64::from(self.index) | if self.has_fd { 0 } else { 0x100 }]);
    }
}

/// One region of the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRegion {
    /// Guest-physical address of the first byte.
    pub guest_address: u64,
    /// Length in bytes.
    pub size_bytes: u64,
    /// The front-end's virtual address of the first byte, in which ring addresses are given.
    pub user_address: u64,
    /// The region's offset in its file, in bytes.
    pub mmap_offset: u64,
}

/// All regions at once. The table is empty in the acknowledgement that ends a postcopy exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryTable {
    /// At most [`MAX_TABLE_REGIONS`].
    pub regions: Vec<MemoryRegion>,
}

impl Wire for MemoryTable {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Violation> {
        let count = reader.u32()?;
        let _padding = reader.u32()?;
        if count as usize > MAX_TABLE_REGIONS {
            return Err(reader.violation("number of regions", count.into(), "at most 8"));
        }
        let regions = (0..count).map(|_| MemoryRegion::read(reader)).collect::<Result<_, _>>()?;
        Ok(Self { regions })
    }
    fn write(&self, out: &mut Vec<u8>) {
        put32(out, &[self.regions.len() as u32, 0]);
        self.regions.iter().for_each(|region| region.write(out));
    }
}

/// One region, with the padding of ADD_MEM_REG and REM_MEM_REG before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SingleRegion(pub MemoryRegion);

impl Wire for SingleRegion {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Violation> {
        let _padding = reader.u64()?;
        MemoryRegion::read(reader).map(Self)
    }
    fn write(&self, out: &mut Vec<u8>) {
        put64(out, &[0]);
        self.0.write(out);
    }
}

/// The position of the dirty log in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogArea {
    /// Length in bytes; one bit stands for 4096 bytes of guest memory.
    pub size_bytes: u64,
    /// The offset at which guest address 0 is logged, in bytes from the start of the file.
    pub offset: u64,
}

/// The accesses that a translation permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Bit 0.
    pub read: bool,
    /// Bit 1.
    pub write: bool,
}

/// The kind of an IOTLB message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IotlbKind {
    /// The back-end lacks a translation.
    Miss,
    /// The front-end adds a translation.
    Update,
    /// The front-end invalidates a translation.
    Invalidate,
    /// An access of the back-end was not permitted.
    AccessFail,
}

/// One translation of an I/O virtual address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iotlb {
    /// I/O virtual address of the first byte.
    pub iova: u64,
    /// Length in bytes.
    pub size_bytes: u64,
    /// The front-end's virtual address of the first byte.
    pub user_address: u64,
    /// The access that is permitted, or was requested.
    pub access: Access,
    /// Update, invalidate, miss, failure.
    pub kind: IotlbKind,
}

impl Wire for Iotlb {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Violation> {
        let (iova, size_bytes, user_address) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (access, kind) = (reader.u8()?, reader.u8()?);
        // `struct vhost_iotlb_msg` is 26 bytes that C rounds up to 32.
        reader.padding(6);
        if access > 3 {
            return Err(reader.violation("permissions", access.into(), "0 to 3"));
        }
        let kind = match kind {
            1 => IotlbKind::Miss,
            2 => IotlbKind::Update,
            3 => IotlbKind::Invalidate,
            4 => IotlbKind::AccessFail,
            other => return Err(reader.violation("type", other.into(), "1 to 4")),
        };
        let access = Access { read: access & 1 != 0, write: access & 2 != 0 };
        Ok(Self { iova, size_bytes, user_address, access, kind })
    }
    fn write(&self, out: &mut Vec<u8>) {
        put64(out, &[self.iova, self.size_bytes, self.user_address]);
        let kind = match self.kind {
            IotlbKind::Miss => 1,
            IotlbKind::Update => 2,
            IotlbKind::Invalidate => 3,
            IotlbKind::AccessFail => 4,
        };
        out.extend_from_slice(&[u8::from(self.access.read) | u8::from(self.access.write) << 1, kind]);
        out.extend_from_slice(&[0; 6]);
    }
}

/// A part of the device's configuration space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigAccess {
    /// The offset from the start of the space.
    pub offset: u32,
    /// Flag bit 0: the access belongs to a migration, so read-only fields are written too.
    pub migration: bool,
    /// The bytes. In a request to read, their number is the number of bytes to read. At most [`MAX_CONFIG_BYTES`].
    pub bytes: Vec<u8>,
}

impl Wire for ConfigAccess {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Violation> {
        let (offset, size, flags) = (reader.u32()?, reader.u32()?, reader.u32()?);
        if size as usize > MAX_CONFIG_BYTES {
            return Err(reader.violation("size", size.into(), "at most 256"));
        }
        if offset.checked_add(size).is_none() {
            return Err(reader.violation(
                "offset",
                offset.into(),
                "an offset that the size does not overflow",
            ));
        }
        if flags > 1 {
            return Err(reader.violation("flags", flags.into(), "0 (writable) or 1 (migration)"));
        }
        let bytes = reader.rest().to_vec();
        if bytes.len() != size as usize {
            return Err(reader.violation("size", size.into(), "as many bytes as follow"));
        }
        Ok(Self { offset, migration: flags == 1, bytes })
    }
    fn write(&self, out: &mut Vec<u8>) {
        put32(out, &[self.offset, self.bytes.len() as u32, self.migration.into()]);
        out.extend_from_slice(&self.bytes);
    }
}

/// The position of a queue's doorbell page in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VringArea {
    /// The queue, and whether a doorbell is passed or the old one is removed.
    pub vring: VringFd,
    /// Length in bytes.
    pub size_bytes: u64,
    /// The offset from the start of the file, in bytes.
    pub offset: u64,
}

/// The buffer that outlives the back-end and records what it had in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inflight {
    /// Length in bytes; 0 in a request for one.
    pub size_bytes: u64,
    /// The offset from the start of the file, in bytes.
    pub offset: u64,
    /// The number of queues, each with a region in the buffer.
    pub queue_count: u16,
    /// Descriptors of each queue.
    pub queue_size: u16,
}

impl Wire for Inflight {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Violation> {
        let (size_bytes, offset) = (reader.u64()?, reader.u64()?);
        let (queue_count, queue_size) = (reader.u16()?, reader.u16()?);
        // 20 bytes of fields that every C peer rounds up to 24.
        reader.padding(4);
        Ok(Self { size_bytes, offset, queue_count, queue_size })
    }
    fn write(&self, out: &mut Vec<u8>) {
        put64(out, &[self.size_bytes, self.offset]);
        out.extend_from_slice(&self.queue_count.to_ne_bytes());
        out.extend_from_slice(&self.queue_size.to_ne_bytes());
        out.extend_from_slice(&[0; 4]);
    }
}

/// The direction in which a device's state is transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateDirection {
    /// Back-end to front-end, on the source.
    Save,
    /// Front-end to back-end, on the destination.
    Load,
}

/// The content of SET_DEVICE_STATE_FD. Its phase is always "stopped", the only one that is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceStateTransfer {
    /// Save or load.
    pub direction: StateDirection,
}

impl Wire for DeviceStateTransfer {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Violation> {
        let (direction, phase) = (reader.u32()?, reader.u32()?);
        let direction = match direction {
            0 => StateDirection::Save,
            1 => StateDirection::Load,
            other => return Err(reader.violation("transfer direction", other.into(), "0 or 1")),
        };
        if phase != 0 {
            return Err(reader.violation("migration phase", phase.into(), "0 (stopped)"));
        }
        Ok(Self { direction })
    }
    fn write(&self, out: &mut Vec<u8>) {
        put32(out, &[if self.direction == StateDirection::Save { 0 } else { 1 }, 0]);
    }
}
