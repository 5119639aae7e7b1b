//! The front-end's rings. The device runs while both rings of its queue pair are started and enabled.
use std::fmt::{self, Display};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

use linux::vhost_vdpa::QueueAddresses;
use memory::{Address, AddressSpace};
use vhost_device::EventFd;
use vhost_user::session::backend::VringConfig;
use vhost_user::session::{Outcome, Refusal};
use vhost_user::vring::{VringAddresses, VringBase, layout_of};
use virtio::{Features, RingLayout};
use virtqueue::{RingPlaces, UsedLog};

use crate::hardware::{Hardware, NotStarted, Queue};
use crate::mapped::GuestMemory;
use crate::shadow::{Broken, Shadow};
use crate::shadows::{Served, Shadows};

/// One queue pair.
pub(crate) const QUEUES: usize = 2;

/// A started ring.
struct Ring {
    config: VringConfig,
    queue: Queue,
    /// Signalled when the ring is no longer served.
    err: Option<EventFd>,
    enabled: bool,
}

impl Ring {
    fn signal_error(&self) {
        if let Some(err) = &self.err {
            err.notify();
        }
    }
}

/// On which rings the device works.
#[derive(Default)]
enum Running {
    /// On none: it does not run.
    #[default]
    No,
    /// On the front-end's own.
    Straight,
    /// On the relay's. The relay serves the front-end's.
    Shadows(Shadows),
}

/// What users are told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Stopped,
    Straight,
    Logged,
    Continued,
}

impl Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Stopped => "the device has stopped",
            State::Straight => "the device runs",
            State::Logged => "the device runs on the relay's rings: written pages are logged",
            State::Continued => {
                "the device runs on the relay's rings: it begins rings at their start only. To give it the guest's rings, \
                 reset the guest's device or restart the guest"
            }
        })
    }
}

/// The rings of one front-end.
#[derive(Default)]
pub(crate) struct Rings {
    features: Features,
    rings: [Option<Ring>; QUEUES],
    running: Running,
    /// Whether the eventfds of the relay's rings have changed since [`Rings::take_rewatch`].
    rewatch: bool,
}

/// A ring to start.
pub(crate) struct NewRing {
    pub index: usize,
    pub config: VringConfig,
    pub kick: EventFd,
    pub call: Option<EventFd>,
    pub err: Option<EventFd>,
    pub enabled: bool,
}

/// Why the device's state is unknown.
#[derive(Debug, thiserror::Error)]
#[error("the device cannot be stopped: {0}")]
pub(crate) struct NotStopped(std::io::Error);

impl Rings {
    /// Whether the device runs, and how.
    pub fn state(&self) -> State {
        match self.running {
            Running::No => State::Stopped,
            Running::Straight => State::Straight,
            Running::Shadows(_) if self.is_logging() => State::Logged,
            Running::Shadows(_) => State::Continued,
        }
    }

    fn is_logging(&self) -> bool {
        self.features.contains(Features::VHOST_LOG_ALL)
    }

    /// The features for the next start of the device. While it runs, only logging changes: then it changes its rings.
    ///
    /// # Errors
    /// The driver is a legacy driver, whose rings a vDPA device does not understand, or the device does not start again.
    /// In the outer result: the device cannot be reset.
    pub fn set_features(
        &mut self,
        features: Features,
        hardware: &Hardware,
        memory: &mut GuestMemory,
    ) -> Result<Outcome, NotStopped> {
        if !features.contains(Features::VERSION_1) {
            return Ok(Err(Refusal::new(
                "the guest's driver does without VERSION_1, which a vDPA device needs (QEMU: disable-legacy=on)",
            )));
        }
        self.features = features;
        if !self.is_logging() {
            memory.end_log();
        }
        match (&self.running, self.is_logging()) {
            (Running::Straight, true) | (Running::Shadows(_), false) => {
                self.stop_device(hardware, memory.space())?;
                Ok(self.start_device(hardware, memory))
            }
            _ => {
                self.update_logs(memory);
                Ok(Ok(()))
            }
        }
    }

    fn layout(&self) -> RingLayout {
        layout_of(self.features)
    }

    /// Starts a ring, and the device if this was the last one that it waits for.
    ///
    /// # Errors
    /// The ring is not inside one region, or the device refuses to start. The ring is not started then.
    pub fn start(&mut self, new: NewRing, hardware: &Hardware, memory: &GuestMemory) -> Result<(), Refusal> {
        let NewRing { index, config, kick, call, err, enabled } = new;
        let addresses = placed(&config, memory.space())?;
        let queue = Queue { size: config.size, addresses, base: config.base, kick, call };
        let Some(ring) = self.rings.get_mut(index) else { return Err(Refusal::new("no such queue")) };
        *ring = Some(Ring { config, queue, err, enabled });
        self.start_device(hardware, memory).inspect_err(|_| self.rings[index] = None)
    }

    /// Starts the device if all is there: on the relay's rings if pages are logged, or if the device does not begin a ring
    /// where the front-end's ring stands.
    ///
    /// # Errors
    /// The device refuses to start.
    pub fn start_device(&mut self, hardware: &Hardware, memory: &GuestMemory) -> Result<(), Refusal> {
        let ready: Vec<&Ring> = self.rings.iter().flatten().filter(|ring| ring.enabled).collect();
        if !matches!(self.running, Running::No) || ready.len() < QUEUES {
            return Ok(());
        }
        if !hardware.keeps_memory() {
            memory.map_again(hardware).map_err(Refusal::new)?;
        }
        let queues: Vec<&Queue> = ready.iter().map(|ring| &ring.queue).collect();
        let straight = match self.is_logging() {
            true => None,
            false => Some(hardware.start(self.features, &queues)),
        };
        let started = match straight {
            Some(Ok(())) => Ok(Running::Straight),
            Some(Err(NotStarted::Other(refusal))) => Err(refusal),
            Some(Err(NotStarted::Position(_))) | None => {
                let served: Vec<Served<'_>> = ready
                    .iter()
                    .map(|&Ring { config, queue, .. }| Served {
                        config,
                        queue,
                        log: self.used_log(config, memory),
                    })
                    .collect();
                Shadows::start(self.features, &served, memory.space(), hardware).map(Running::Shadows)
            }
        };
        if started.is_err() {
            // The device may run on some rings.
            let _ = hardware.stop(QUEUES as u32, self.layout());
        }
        self.rewatch |= matches!(started, Ok(Running::Shadows(_)));
        self.running = started?;
        Ok(())
    }

    /// Stops the device, if it runs, and finds out where the rings stand. Of a split ring whose position the device does
    /// not state, it is in the driver's memory: the device has used all before the used index, and a reset has made it
    /// give up all behind it.
    fn stop_device(&mut self, hardware: &Hardware, space: &AddressSpace) -> Result<(), NotStopped> {
        let running = std::mem::take(&mut self.running);
        if matches!(running, Running::No) {
            return Ok(());
        }
        let layout = self.layout();
        let stated = hardware.stop(QUEUES as u32, layout).map_err(NotStopped)?;
        let bases = match running {
            Running::Shadows(shadows) => {
                self.rewatch = true;
                shadows.stop(hardware).map_err(NotStopped)?.into_iter().map(Some).collect()
            }
            Running::Straight | Running::No => stated,
        };
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

    /// Stops the device if it works on the relay's rings, so that the memory can change.
    ///
    /// # Errors
    /// The device cannot be reset.
    pub fn stop_shadows(&mut self, hardware: &Hardware, space: &AddressSpace) -> Result<(), NotStopped> {
        match self.running {
            Running::Shadows(_) => self.stop_device(hardware, space),
            _ => Ok(()),
        }
    }

    /// The log of what is written for a ring.
    fn used_log(&self, config: &VringConfig, memory: &GuestMemory) -> Option<UsedLog> {
        let log = memory.log().filter(|_| self.is_logging())?;
        let guest = |user, said| memory.space().guest_address(Address::User(user)).unwrap_or(said);
        let VringAddresses { descriptor, device, .. } = config.addresses;
        // For a packed ring, front-ends disagree on what the address is of.
        let ring = config.log.map(|said| match config.layout {
            RingLayout::Split => RingPlaces { used: said, device_event: said },
            RingLayout::Packed => {
                RingPlaces { used: guest(descriptor, said), device_event: guest(device, said) }
            }
        });
        Some(UsedLog { log: Arc::clone(log), ring })
    }

    /// Gives the rings that the relay serves their logs.
    pub fn update_logs(&mut self, memory: &GuestMemory) {
        let logs: Vec<_> =
            self.rings.iter().map(|ring| self.used_log(&ring.as_ref()?.config, memory)).collect();
        let Running::Shadows(shadows) = &mut self.running else { return };
        for (index, log) in logs.into_iter().enumerate() {
            if let Some(shadow) = shadows.get_mut(index) {
                shadow.set_log(log);
            }
        }
    }

    /// The guest address under which writes to a ring's used part are logged.
    pub fn set_log_place(&mut self, index: usize, log: Option<u64>, memory: &GuestMemory) {
        if let Some(ring) = self.rings.get_mut(index).and_then(Option::as_mut) {
            ring.config.log = log;
        }
        self.update_logs(memory);
    }

    /// Carries chains between the front-end's rings and the relay's. Returns the rings that are no longer served, and why.
    pub fn run(&mut self) -> Vec<(usize, Broken)> {
        let Running::Shadows(shadows) = &mut self.running else { return Vec::new() };
        let broken = shadows.run();
        self.rewatch |= !broken.is_empty();
        broken.iter().filter_map(|(index, _)| self.rings.get(*index)?.as_ref()).for_each(Ring::signal_error);
        broken
    }

    /// Signals that no ring is served any more.
    pub fn signal_errors(&self) {
        self.rings.iter().flatten().for_each(Ring::signal_error);
    }

    /// Another eventfd for errors.
    pub fn set_err(&mut self, index: usize, err: Option<EventFd>) {
        if let Some(ring) = self.rings.get_mut(index).and_then(Option::as_mut) {
            ring.err = err;
        }
    }

    /// Whether other eventfds are to be watched than at the last call.
    pub fn take_rewatch(&mut self) -> bool {
        std::mem::take(&mut self.rewatch)
    }

    /// The eventfds of a ring that the relay serves: of the driver, and of the device.
    pub fn watched(&self, index: usize) -> Option<[&EventFd; 2]> {
        let Running::Shadows(shadows) = &self.running else { return None };
        shadows.get(index).and_then(Shadow::watched)
    }

    fn shadow(&mut self, index: usize) -> Option<&mut Shadow> {
        match &mut self.running {
            Running::Shadows(shadows) => shadows.get_mut(index),
            _ => None,
        }
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
        *self = Rings { rewatch: true, ..Rings::default() };
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
        if let Some(shadow) = self.shadow(index) {
            shadow.set_call(call.clone());
        }
        let is_straight = matches!(self.running, Running::Straight);
        let Some(ring) = self.rings.get_mut(index).and_then(Option::as_mut) else { return Ok(()) };
        if is_straight {
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
        if let Some(shadow) = self.shadow(index) {
            shadow.set_kick(kick.clone());
            self.rewatch = true;
        }
        let is_straight = matches!(self.running, Running::Straight);
        let Some(ring) = self.rings.get_mut(index).and_then(Option::as_mut) else { return Ok(()) };
        if is_straight {
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
