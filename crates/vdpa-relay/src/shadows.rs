//! The shadows of a queue pair, and the relay's own rings for the device.
use std::io;
use std::sync::Arc;

use linux::vhost_vdpa::{MemoryChange, QueueAddresses};
use memory::{Address, AddressSpace, Mapping, Region, RegionRange, sealed_memfd};
use vhost_device::EventFd;
use vhost_user::session::Refusal;
use vhost_user::session::backend::VringConfig;
use vhost_user::vring::VringBase;
use virtio::{Features, QueueSize, RingLayout};
use virtqueue::{DeviceOptions, DriverQueue, Position, QueueConfig, RingFeatures, UsedLog};

use crate::hardware::{Hardware, NotStarted, Queue, WINDOW_BYTES};
use crate::shadow::{Broken, Parts, Shadow};

/// Features of the driver's rings that the relay's rings do without.
const OF_RINGS: Features = Features::RING_PACKED
    .union(Features::RING_EVENT_IDX)
    .union(Features::RING_INDIRECT_DESC)
    .union(Features::IN_ORDER);

const PAGE_BYTES: u64 = 4096;

/// A ring of the driver that is to be served.
pub(crate) struct Served<'a> {
    pub config: &'a VringConfig,
    /// The driver's eventfds, and the position of the ring.
    pub queue: &'a Queue,
    pub log: Option<UsedLog>,
}

/// The memory of the relay's rings, mapped for the device.
struct OwnMemory {
    space: Arc<AddressSpace>,
    mapping: Arc<Mapping>,
    /// The address at which the device has it.
    base: u64,
}

impl OwnMemory {
    fn new(bytes: u64, base: u64) -> Result<Self, Refusal> {
        let failed = |error: String| Refusal::new(format!("memory for the relay's rings: {error}"));
        let file = sealed_memfd(c"tautline rings", bytes).map_err(|error| failed(error.to_string()))?;
        let region =
            Region::map(&file, RegionRange::at(base, bytes)).map_err(|error| failed(error.to_string()))?;
        let mapping = Arc::clone(region.mapping());
        let space = AddressSpace::from_regions([region]).map_err(|error| failed(error.to_string()))?;
        Ok(OwnMemory { space: Arc::new(space), mapping, base })
    }

    fn unmap(&self) -> MemoryChange {
        MemoryChange::Unmap { iova: self.base, bytes: self.mapping.len_bytes() }
    }

    fn map(&self) -> MemoryChange {
        let (bytes, address) = (self.mapping.len_bytes(), self.mapping.address());
        MemoryChange::Map { iova: self.base, bytes, address }
    }
}

/// Where the parts of a split ring lie, from its first byte on, and whole pages for all of it (VIRTIO 1.3 §2.7).
fn own_ring(base: u64, size: QueueSize) -> (QueueAddresses, u64) {
    let size = u64::from(size.get());
    let available = base + 16 * size;
    let used = (available + 6 + 2 * size).next_multiple_of(64);
    let end = used + 6 + 8 * size;
    (QueueAddresses { descriptors: base, available, used }, (end - base).next_multiple_of(PAGE_BYTES))
}

/// The most descriptors of a split ring, up to this many.
fn split_size(most: u16) -> Result<QueueSize, Refusal> {
    let size = 1 << most.checked_ilog2().unwrap_or(0);
    QueueSize::new(RingLayout::Split, size).map_err(|error| Refusal::new(error.to_string()))
}

/// Both rings of a queue pair, served by the relay.
pub(crate) struct Shadows {
    queues: Vec<Shadow>,
    memory: OwnMemory,
}

impl Shadows {
    /// Starts the device on rings of the relay.
    ///
    /// # Errors
    /// A ring of the driver is not inside one region, memory cannot be had or mapped, or the device refuses to start. The
    /// device must be stopped then.
    pub fn start(
        features: Features,
        served: &[Served<'_>],
        space: &Arc<AddressSpace>,
        hardware: &Hardware,
    ) -> Result<Self, Refusal> {
        let mut places = Vec::new();
        let mut end = hardware.window();
        for Served { config, .. } in served {
            let size = split_size(config.size.get().checked_next_power_of_two().unwrap_or(1 << 15))?;
            let size = if size.get() > hardware.largest_queue() {
                split_size(hardware.largest_queue())?
            } else {
                size
            };
            let (addresses, bytes) = own_ring(end, size);
            places.push((size, addresses));
            end += bytes;
        }
        let bytes = end - hardware.window();
        if bytes > WINDOW_BYTES {
            return Err(Refusal::new(format!("the relay's rings need {bytes} bytes")));
        }
        let memory = OwnMemory::new(bytes, hardware.window())?;
        let own_features = features.difference(OF_RINGS);
        let (mut queues, mut devices) = (Vec::new(), Vec::new());
        for (Served { config, queue, log }, (size, addresses)) in served.iter().zip(places) {
            let failed = |error: io::Error| Refusal::new(format!("an eventfd: {error}"));
            let (own_kick, own_call) = (EventFd::new().map_err(failed)?, EventFd::new().map_err(failed)?);
            let options = DeviceOptions { log: log.clone(), ..DeviceOptions::default() };
            let refused = |error: virtqueue::ActivateError| Refusal::new(error.to_string());
            let ring =
                driver_ring(features, config, queue.base).activate_device(space, options).map_err(refused)?;
            let own = own_half(own_features, size, addresses, &memory.space)?;
            devices.push(Queue {
                size,
                addresses,
                base: VringBase::start(RingLayout::Split),
                kick: own_kick.clone(),
                call: Some(own_call.clone()),
            });
            let (kick, call) = (queue.kick.clone(), queue.call.clone());
            let space = Arc::clone(space);
            queues.push(Shadow::new(Parts { ring, own, space, kick, call, own_kick, own_call }));
        }
        hardware
            .change_memory(&[memory.unmap(), memory.map()])
            .map_err(|error| Refusal::new(format!("the kernel does not map the relay's rings: {error}")))?;
        let devices: Vec<&Queue> = devices.iter().collect();
        hardware.start(own_features, &devices).map_err(NotStarted::into_refusal)?;
        queues.iter().for_each(Shadow::wake);
        Ok(Shadows { queues, memory })
    }

    /// Ends the shadows of a device that was stopped. Returns where the driver's rings stand.
    ///
    /// # Errors
    /// The kernel does not unmap the relay's rings.
    pub fn stop(self, hardware: &Hardware) -> io::Result<Vec<VringBase>> {
        let bases = self.queues.into_iter().map(Shadow::stop).collect();
        hardware.change_memory(&[self.memory.unmap()])?;
        Ok(bases)
    }

    pub fn get(&self, index: usize) -> Option<&Shadow> {
        self.queues.get(index)
    }

    pub fn get_mut(&mut self, index: usize) -> Option<&mut Shadow> {
        self.queues.get_mut(index)
    }

    /// Carries chains both ways. Returns the rings that are no longer served, and why.
    pub fn run(&mut self) -> Vec<(usize, Broken)> {
        let run = |(index, queue): (usize, &mut Shadow)| Some((index, queue.run().err()?));
        self.queues.iter_mut().enumerate().filter_map(run).collect()
    }
}

/// The driver's ring, whose device is the relay.
fn driver_ring(features: Features, config: &VringConfig, base: VringBase) -> QueueConfig {
    QueueConfig {
        features: RingFeatures::from(features),
        size: config.size.get().into(),
        descriptors: Address::User(config.addresses.descriptor),
        driver_area: Address::User(config.addresses.driver),
        device_area: Address::User(config.addresses.device),
        position: Position::from_vring_base(config.layout, base.to_wire()),
    }
}

/// The driver half of the relay's ring.
fn own_half(
    features: Features,
    size: QueueSize,
    addresses: QueueAddresses,
    space: &Arc<AddressSpace>,
) -> Result<Box<dyn DriverQueue>, Refusal> {
    let own = QueueConfig {
        features: RingFeatures::from(features),
        size: size.get().into(),
        descriptors: Address::Guest(addresses.descriptors),
        driver_area: Address::Guest(addresses.available),
        device_area: Address::Guest(addresses.used),
        position: Position::start(RingLayout::Split),
    };
    own.activate_driver(space, None).map_err(|error| Refusal::new(error.to_string()))
}
