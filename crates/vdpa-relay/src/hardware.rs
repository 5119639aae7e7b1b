//! The vDPA device: what it offers, and how it is started and stopped.
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use linux::vhost_vdpa::{AddressRange, Device, MemoryChange, QueueAddresses, interface, status};
use vhost_device::{DeviceError, EventFd};
use vhost_user::session::Refusal;
use vhost_user::vring::VringBase;
use virtio::net::{GUEST_SEGMENTATION, HOST_SEGMENTATION};
use virtio::{Features, NetFeatures, QueueSize, RingLayout};

/// A network device (VIRTIO 1.3 §5.1).
const NETWORK: u32 = 1;
/// The MAC address, the link's status, the number of queue pairs and the MTU (VIRTIO 1.3 §5.1.4).
const CONFIG_BYTES: usize = 12;

/// The features of a network device that a relay offers if the device has them. Without a control queue, which
/// front-ends serve themselves, and without notifications that carry data, which no eventfd does.
const RELAYED: Features = Features::VERSION_1
    .union(Features::RING_INDIRECT_DESC)
    .union(Features::RING_EVENT_IDX)
    .union(Features::RING_PACKED)
    .union(Features::IN_ORDER)
    .union(Features::ORDER_PLATFORM)
    .union(NetFeatures::MRG_RXBUF)
    .union(NetFeatures::CSUM)
    .union(NetFeatures::GUEST_CSUM);

/// The features that a relay offers if the device has them.
pub const OFFERED: Features = with(with(RELAYED, &HOST_SEGMENTATION), &GUEST_SEGMENTATION);

/// Features between the guest and its front-end, which the device is not told. A guest that announces itself after a
/// migration is told so by its front-end; without the feature, QEMU sends the announcement to a back-end's RARP message.
const OF_THE_FRONT_END: Features = Features::VHOST_LOG_ALL.union(NetFeatures::GUEST_ANNOUNCE);

const fn with(mut set: Features, more: &[Features]) -> Features {
    let mut at = 0;
    while at < more.len() {
        set = set.union(more[at]);
        at += 1;
    }
    set
}

/// Bytes at the end of the device's addresses that are left for the relay's own rings: two of 32,768 descriptors.
pub(crate) const WINDOW_BYTES: u64 = 2 << 20;
/// No guest has memory as high as this, and some devices state no end at all.
const HIGHEST: u64 = (1 << 48) - 1;

/// Why a device does not run.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// The device begins a queue only where a new one begins. There is no other way to tell it a position.
    Position(Refusal),
    /// The device refuses something else.
    Other(Refusal),
}

impl NotStarted {
    pub fn into_refusal(self) -> Refusal {
        match self {
            NotStarted::Position(refusal) | NotStarted::Other(refusal) => refusal,
        }
    }
}

impl From<Refusal> for NotStarted {
    fn from(refusal: Refusal) -> Self {
        NotStarted::Other(refusal)
    }
}

/// What the device is told of one ring.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub size: QueueSize,
    /// Guest addresses, at which the device has the guest's memory.
    pub addresses: QueueAddresses,
    pub base: VringBase,
    pub kick: EventFd,
    pub call: Option<EventFd>,
}

/// An open vDPA device, which is reset when this value is dropped.
#[derive(Debug)]
pub struct Hardware {
    device: Device,
    features: Features,
    interface: u64,
    range: AddressRange,
    largest_queue: u16,
    /// Whether the device tells where a queue stands. Of a packed ring nothing else does.
    tells_positions: bool,
    config: Vec<u8>,
    /// Signalled by the kernel when the device's configuration or status has changed.
    changed: EventFd,
}

impl Hardware {
    /// Opens a network device.
    ///
    /// # Errors
    /// The kernel has no such device, another program has it open, this process may not open it, or it is no network
    /// device.
    pub fn open(path: &Path) -> Result<Self, DeviceError> {
        let failed = |error: io::Error| {
            let remedy = remedy(path, &error);
            DeviceError::new(format!("open the vDPA device {}", path.display()), error, remedy)
        };
        let device = Device::open(path).map_err(failed)?;
        let kind = device.device_id().map_err(failed)?;
        if kind != NETWORK {
            return Err(DeviceError::new(
                format!("use the vDPA device {}", path.display()),
                format!("it is a device of the kind {kind} (VIRTIO 1.3 §5)"),
                "name a network device",
            ));
        }
        Self::of(device).map_err(failed)
    }

    fn of(device: Device) -> io::Result<Self> {
        let wanted =
            interface::MEMORY_MESSAGES | interface::BATCHES | interface::SUSPEND | interface::MEMORY_PERSISTS;
        let interface = device.interface_features()? & wanted;
        device.set_interface_features(interface)?;
        let changed = EventFd::new()?;
        device.set_config_call(Some(changed.as_fd()))?;
        Ok(Hardware {
            features: Features::from_bits_retain(device.features()?),
            interface,
            range: device.address_range()?,
            largest_queue: device.largest_queue()?,
            tells_positions: device.queue_base(0).is_ok(),
            config: device.config(CONFIG_BYTES)?,
            changed,
            device,
        })
    }

    /// The features that a front-end is offered. A packed ring must be left where its position is known, because it may
    /// have to be served by the relay.
    pub(crate) fn offered(&self) -> Features {
        let left_out = if self.tells_positions { Features::empty() } else { Features::RING_PACKED };
        self.features.intersection(OFFERED).difference(left_out).union(OF_THE_FRONT_END)
    }

    /// The first of [`WINDOW_BYTES`] addresses for the relay's own rings.
    pub(crate) fn window(&self) -> u64 {
        (self.range.last.min(HIGHEST) + 1).saturating_sub(WINDOW_BYTES)
    }

    /// The most descriptors of a queue.
    pub(crate) fn largest_queue(&self) -> u16 {
        self.largest_queue
    }

    /// Whether the kernel still has the device.
    pub(crate) fn is_there(&self) -> bool {
        self.device.is_there()
    }

    /// The eventfd that the kernel signals when the device's configuration or status has changed.
    pub(crate) fn changed(&self) -> &EventFd {
        &self.changed
    }

    /// Whether the device met an error, such as a malformed ring, and does nothing until it is reset (VIRTIO 1.3
    /// §2.1.2). The kernel's signals so far are forgotten.
    pub(crate) fn needs_reset(&self) -> bool {
        self.changed.drain();
        self.device.status().is_ok_and(|bits| bits & status::NEEDS_RESET != 0)
    }

    fn has(&self, feature: u64) -> bool {
        self.interface & feature != 0
    }

    /// Whether a range of guest addresses is one at which the device may have a guest's memory.
    pub(crate) fn reaches(&self, start: u64, bytes: u64) -> bool {
        let first = self.range.first;
        start >= first && start.checked_add(bytes).is_some_and(|end| end <= self.window())
    }

    /// Changes the device's memory, at once if the kernel can.
    ///
    /// # Errors
    /// The kernel refuses a change. Changes before it may have taken effect.
    pub(crate) fn change_memory(&self, changes: &[MemoryChange]) -> io::Result<()> {
        let batch = self.has(interface::BATCHES);
        if batch {
            self.device.change_memory(MemoryChange::Begin)?;
        }
        changes.iter().try_for_each(|change| {
            self.device.change_memory(*change).map_err(|error| refused_change(*change, error))
        })?;
        if batch { self.device.change_memory(MemoryChange::End) } else { Ok(()) }
    }

    /// Whether the memory stays mapped when the device is reset.
    pub(crate) fn keeps_memory(&self) -> bool {
        self.has(interface::MEMORY_PERSISTS)
    }

    /// Starts the device on these rings, the first of which has index 0.
    ///
    /// # Errors
    /// The device refuses the features or a ring. The device must be reset then.
    pub(crate) fn start(&self, features: Features, queues: &[&Queue]) -> Result<(), NotStarted> {
        let device = &self.device;
        let set = |bits: u8| device.set_status(bits).map_err(refused("start"));
        let mut bits = status::ACKNOWLEDGE;
        set(0)?;
        set(bits)?;
        bits |= status::DRIVER;
        set(bits)?;
        // The device sees memory as the host's driver maps it; the guest need not know.
        let features = features.union(self.features.intersection(Features::ACCESS_PLATFORM));
        let told = features.difference(Features::VHOST_PROTOCOL_FEATURES).difference(OF_THE_FRONT_END);
        device.set_features(told.bits()).map_err(refused(format_args!("the features {told}")))?;
        bits |= status::FEATURES_OK;
        set(bits)?;
        if device.status().map_err(refused("start"))? & status::FEATURES_OK == 0 {
            return Err(Refusal::new(format!("the device refuses the features {told}")).into());
        }
        for (index, queue) in (0..).zip(queues) {
            self.set_up(index, queue, told.contains(Features::RING_PACKED))?;
        }
        set(bits | status::DRIVER_OK)?;
        for (index, queue) in (0..).zip(queues) {
            device.set_kick(index, Some(queue.kick.as_fd())).map_err(refused("a kick"))?;
            // What the driver has made available before.
            queue.kick.notify();
        }
        Ok(())
    }

    fn set_up(&self, index: u32, queue: &Queue, is_packed: bool) -> Result<(), NotStarted> {
        let Queue { size, addresses, base, call, .. } = queue;
        if size.get() > self.largest_queue {
            let most = self.largest_queue;
            let (size, most) = (size.get(), format_args!("the device takes {most} at the most"));
            return Err(Refusal::new(format!("queue {index} has {size} descriptors, {most}")).into());
        }
        let layout = if is_packed { RingLayout::Packed } else { RingLayout::Split };
        self.device.set_queue_size(index, size.get()).map_err(refused("a queue's size"))?;
        self.device.set_queue_base(index, base.to_wire()).map_err(|error| {
            let refusal = refused(format_args!("the position of queue {index}"))(error);
            let at_start = *base == VringBase::start(layout);
            if at_start { NotStarted::Other(refusal) } else { NotStarted::Position(refusal) }
        })?;
        self.device.set_queue_addresses(index, *addresses).map_err(refused("a queue's addresses"))?;
        self.set_call(index, call.as_ref())?;
        Ok(self.device.enable_queue(index).map_err(refused("to enable a queue"))?)
    }

    /// Gives a ring another eventfd for calls.
    pub(crate) fn set_call(&self, index: u32, call: Option<&EventFd>) -> Result<(), Refusal> {
        self.device.set_call(index, call.map(AsFd::as_fd)).map_err(refused("a call"))
    }

    /// Gives a ring another eventfd for kicks.
    pub(crate) fn set_kick(&self, index: u32, kick: &EventFd) -> Result<(), Refusal> {
        self.device.set_kick(index, Some(kick.as_fd())).map_err(refused("a kick"))?;
        kick.notify();
        Ok(())
    }

    /// Stops the device on this many rings. Returns the rings' positions as far as the device knows them.
    ///
    /// # Errors
    /// The device cannot be reset.
    pub(crate) fn stop(&self, queues: u32, layout: RingLayout) -> io::Result<Vec<Option<VringBase>>> {
        let is_suspended = self.has(interface::SUSPEND) && self.device.suspend().is_ok();
        // A device that goes on until its reset may pass a position that it has stated: of a split ring the driver's
        // memory has a better one.
        let is_known = is_suspended || layout == RingLayout::Packed;
        let base = |index| {
            let base = self.device.queue_base(index).ok().filter(|_| is_known)?;
            VringBase::from_wire(layout, base)
        };
        let bases = (0..queues).map(base).collect();
        for index in 0..queues {
            self.device.set_kick(index, None)?;
        }
        self.device.set_status(0)?;
        for index in 0..queues {
            self.device.set_call(index, None)?;
        }
        Ok(bases)
    }
}

impl Display for Hardware {
    /// The device's address and limits, which its guest should have too.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a network device")?;
        let has = |feature| self.features.contains(feature);
        if let Some(mac) = self.config.first_chunk::<6>().filter(|_| has(NetFeatures::MAC)) {
            write!(f, " with the address {}", virtio::net::MacAddress(*mac))?;
        }
        if let Some(mtu) = self.config.get(10..12).filter(|_| has(NetFeatures::MTU)) {
            write!(f, ", MTU {}", u16::from_le_bytes([mtu[0], mtu[1]]))?;
        }
        write!(f, ", queues of up to {} descriptors; offered: {}", self.largest_queue, self.offered())
    }
}

/// Says which memory the kernel does not map.
fn refused_change(change: MemoryChange, error: io::Error) -> io::Error {
    match change {
        MemoryChange::Map { iova, bytes, .. } => {
            io::Error::new(error.kind(), format!("{error}, for {bytes:#x} bytes at guest address {iova:#x}"))
        }
        _ => error,
    }
}

fn refused(what: impl Display) -> impl FnOnce(io::Error) -> Refusal {
    move |error| Refusal::new(format!("the device refuses {what}: {error}"))
}

/// What the user can do when a device cannot be opened.
fn remedy(path: &Path, error: &io::Error) -> String {
    let has_driver = PathBuf::from("/sys/bus/vdpa/drivers/vhost_vdpa").is_dir();
    match error.kind() {
        ErrorKind::NotFound if !has_driver => {
            "load the driver: modprobe vhost_vdpa (CONFIG_VHOST_VDPA; in Debian 12 the \
                                               kernel 6.12 of its security suite, linux-image-6.12-amd64)"
                .to_owned()
        }
        ErrorKind::NotFound => {
            "add a device to the vDPA bus: `vdpa mgmtdev show` lists who can make one, `vdpa dev add \
                                name NAME mgmtdev …` makes one (package iproute2); `ls /dev/vhost-vdpa-*`"
                .to_owned()
        }
        ErrorKind::PermissionDenied => {
            format!("run as root, or give the file to this user: chown USER {}", path.display())
        }
        ErrorKind::ResourceBusy => {
            "end the program that has the device open (lsof names it), or name another device".to_owned()
        }
        _ => "name a device /dev/vhost-vdpa-N".to_owned(),
    }
}
