//! The front-end's rings. The device runs while both rings of its queue pair are started and enabled.
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

use linux::vhost_vdpa::QueueAddresses;
use memory::{Address, AddressSpace};
use vhost_device::EventFd;
use vhost_user::session::Refusal;
use vhost_user::session::backend::VringConfig;
use vhost_user::vring::{VringAddresses, VringBase, layout_of};
use virtio::{Features, RingLayout};

use crate::hardware::{Hardware, Queue};
use crate::mapped::GuestMemory;

/// One queue pair.
pub(crate) const QUEUES: usize = 2;

/// A started ring.
struct Ring {
    config: VringConfig,
    queue: Queue,
    enabled: bool,
}

/// The rings of one front-end.
#[derive(Default)]
pub(crate) struct Rings {
    features: Features,
    rings: [Option<Ring>; QUEUES],
    runs: bool,
}

/// A ring to start.
pub(crate) struct NewRing {
    pub index: usize,
    pub config: VringConfig,
    pub kick: EventFd,
    pub call: Option<EventFd>,
    pub enabled: bool,
}

/// Why the device's state is unknown.
#[derive(Debug, thiserror::Error)]
#[error("the device cannot be stopped: {0}")]
pub(crate) struct NotStopped(std::io::Error);

impl Rings {
    /// Whether the device runs.
    pub fn runs(&self) -> bool {
        self.runs
    }

    /// The features for the next start of the device.
    ///
    /// # Errors
    /// The driver is a legacy driver, whose rings a vDPA device does not understand.
    pub fn set_features(&mut self, features: Features) -> Result<(), Refusal> {
        if !features.contains(Features::VERSION_1) {
            return Err(Refusal::new(
                "the guest's driver does without VERSION_1, which a vDPA device needs (QEMU: disable-legacy=on)",
            ));
        }
        self.features = features;
        Ok(())
    }

    fn layout(&self) -> RingLayout {
        layout_of(self.features)
    }

    /// Starts a ring, and the device if this was the last one that it waits for.
    ///
    /// # Errors
    /// The ring is not inside one region, or the device refuses to start. The ring is not started then.
    pub fn start(&mut self, new: NewRing, hardware: &Hardware, memory: &GuestMemory) -> Result<(), Refusal> {
        let NewRing { index, config, kick, call, enabled } = new;
        let addresses = placed(&config, memory.space())?;
        let queue = Queue { size: config.size, addresses, base: config.base, kick, call };
        let Some(ring) = self.rings.get_mut(index) else { return Err(Refusal::new("no such queue")) };
        *ring = Some(Ring { config, queue, enabled });
        self.start_device(hardware, memory).inspect_err(|_| self.rings[index] = None)
    }

    /// Starts the device if all is there.
    fn start_device(&mut self, hardware: &Hardware, memory: &GuestMemory) -> Result<(), Refusal> {
        let ready = self.rings.iter().flatten().filter(|ring| ring.enabled);
        let queues: Vec<&Queue> = ready.map(|ring| &ring.queue).collect();
        if self.runs || queues.len() < QUEUES {
            return Ok(());
        }
        if !hardware.keeps_memory() {
            memory.map_again(hardware).map_err(Refusal::new)?;
        }
        let started = hardware.start(self.features, &queues);
        if started.is_err() {
            // The device may run on some rings.
            let _ = hardware.stop(QUEUES as u32, self.layout());
        }
        self.runs = started.is_ok();
        started
    }

    /// Stops the device, if it runs, and finds out where the rings stand. Of a split ring whose position the device does
    /// not state, it is in the driver's memory: the device has used all before the used index, and a reset has made it
    /// give up all behind it.
    fn stop_device(&mut self, hardware: &Hardware, space: &AddressSpace) -> Result<(), NotStopped> {
        if !std::mem::take(&mut self.runs) {
            return Ok(());
        }
        let layout = self.layout();
        let bases = hardware.stop(QUEUES as u32, layout).map_err(NotStopped)?;
        for (ring, base) in self.rings.iter_mut().zip(bases) {
            let Some(ring) = ring else { continue };
            let in_memory = || {
                let used = Address::User(ring.config.addresses.device);
                let used = space.atomic_slice::<AtomicU16>(used, 2).ok()?;
                let next_available = u16::from_le(used[1].load(Ordering::Acquire));
                (layout == RingLayout::Split).then_some(VringBase::Split { next_available })
            };
            ring.queue.base = base.or_else(in_memory).unwrap_or(ring.queue.base);
        }
        Ok(())
    }

    /// Stops a ring, and with it the device. Returns the ring's position.
    ///
    /// # Errors
    /// The device cannot be reset.
    pub fn stop(
        &mut self,
        index: usize,
        hardware: &Hardware,
        space: &AddressSpace,
    ) -> Result<VringBase, NotStopped> {
        self.stop_device(hardware, space)?;
        let ring = self.rings.get_mut(index).and_then(Option::take);
        Ok(ring.map_or(VringBase::start(self.layout()), |ring| ring.queue.base))
    }

    /// Enables or disables a ring. A device has no such state, so that it stops on all rings.
    ///
    /// # Errors
    /// The device refuses to start, or cannot be reset.
    pub fn enable(
        &mut self,
        index: usize,
        enabled: bool,
        hardware: &Hardware,
        memory: &GuestMemory,
    ) -> Result<Result<(), Refusal>, NotStopped> {
        if let Some(ring) = self.rings.get_mut(index).and_then(Option::as_mut) {
            ring.enabled = enabled;
        }
        if enabled {
            return Ok(self.start_device(hardware, memory));
        }
        self.stop_device(hardware, memory.space()).map(Ok)
    }

    /// Stops all rings.
    ///
    /// # Errors
    /// The device cannot be reset.
    pub fn reset(&mut self, hardware: &Hardware, space: &AddressSpace) -> Result<(), NotStopped> {
        self.stop_device(hardware, space)?;
        *self = Rings::default();
        Ok(())
    }

    /// Another eventfd for calls.
    ///
    /// # Errors
    /// The device refuses it.
    pub fn set_call(
        &mut self,
        index: usize,
        call: Option<EventFd>,
        hardware: &Hardware,
    ) -> Result<(), Refusal> {
        let Some(ring) = self.rings.get_mut(index).and_then(Option::as_mut) else { return Ok(()) };
        if self.runs {
            hardware.set_call(index as u32, call.as_ref())?;
        }
        ring.queue.call = call;
        Ok(())
    }

    /// Another eventfd for kicks.
    ///
    /// # Errors
    /// The device refuses it.
    pub fn set_kick(&mut self, index: usize, kick: EventFd, hardware: &Hardware) -> Result<(), Refusal> {
        let Some(ring) = self.rings.get_mut(index).and_then(Option::as_mut) else { return Ok(()) };
        if self.runs {
            hardware.set_kick(index as u32, &kick)?;
        }
        ring.queue.kick = kick;
        Ok(())
    }

    /// Checks that all rings lie at the same guest addresses in other memory.
    ///
    /// # Errors
    /// A ring is not inside one region there, or is at another guest address.
    pub fn check(&self, space: &AddressSpace) -> Result<(), Refusal> {
        self.rings.iter().flatten().try_for_each(|ring| {
            let moved = placed(&ring.config, space)? != ring.queue.addresses;
            if moved { Err(Refusal::new("a ring in use has another guest address there")) } else { Ok(()) }
        })
    }
}

/// The guest addresses of a ring, each part of which is inside one region (VIRTIO 1.3 §2.7, §2.8).
fn placed(config: &VringConfig, space: &AddressSpace) -> Result<QueueAddresses, Refusal> {
    let size = usize::from(config.size.get());
    let [descriptors, available, used] = match config.layout {
        RingLayout::Split => [16 * size, 6 + 2 * size, 6 + 8 * size],
        RingLayout::Packed => [16 * size, 4, 4],
    };
    let at = |address, bytes| {
        let user = Address::User(address);
        let inside = space.atomic_slice::<AtomicU8>(user, bytes);
        inside.map_err(|error| Refusal::new(error.to_string()))?;
        space.guest_address(user).ok_or_else(|| Refusal::new("a ring is outside of the memory"))
    };
    let VringAddresses { descriptor, driver, device } = config.addresses;
    Ok(QueueAddresses {
        descriptors: at(descriptor, descriptors)?,
        available: at(driver, available)?,
        used: at(device, used)?,
    })
}

#[cfg(test)]
mod tests {
    use memory::{Region, RegionRange, sealed_memfd};
    use virtio::QueueSize;

    use super::*;

    const USER: u64 = 0x7000_0000;
    const GUEST: u64 = 1 << 32;
    const BYTES: u64 = 1 << 16;

    fn config(layout: RingLayout, [descriptor, driver, device]: [u64; 3]) -> VringConfig {
        VringConfig {
            layout,
            size: QueueSize::of_any_layout(256).unwrap(),
            addresses: VringAddresses { descriptor, driver, device },
            log: None,
            base: VringBase::start(layout),
        }
    }

    #[test]
    fn each_part_of_a_ring_lies_inside_one_region() {
        let file = sealed_memfd(c"a guest", BYTES).unwrap();
        let region = |guest_base, user_base| {
            Region::map(&file, RegionRange { offset: 0, size: BYTES, guest_base, user_base }).unwrap()
        };
        // Neighbours in user addresses are apart in guest addresses.
        let regions = [region(GUEST, USER), region(2 * GUEST, USER + BYTES)];
        let space = AddressSpace::from_regions(regions).unwrap();
        let end = USER + BYTES;
        for (layout, lengths) in [(RingLayout::Split, [4096, 518, 2054]), (RingLayout::Packed, [4096, 4, 4])]
        {
            let inside = placed(&config(layout, [USER, USER + 4096, end - lengths[2]]), &space).unwrap();
            let [descriptors, available] = [GUEST, GUEST + 4096];
            let used = GUEST + BYTES - lengths[2];
            assert_eq!(inside, QueueAddresses { descriptors, available, used });
            for part in 0..3 {
                for outside in [end - lengths[part] + 1, USER - 1, end + BYTES, u64::MAX - 1, GUEST] {
                    let mut addresses = [USER; 3];
                    addresses[part] = outside;
                    assert!(placed(&config(layout, addresses), &space).is_err(), "{part}: {outside:#x}");
                }
            }
        }
    }
}
