//! A shadow of one ring: the relay serves the driver's ring, and the device works on a ring of the relay.
//!
//! ```text
//!   driver's ring ──► device half ─┐ descriptors, with the driver's addresses ┌─► driver half ──► relay's ring
//!   (guest memory) ◄── of a queue ◄┴──────────── used lengths ◄──────────────┴── of a queue ◄── (the device)
//! ```
//!
//! No payload is copied: the device has the driver's memory at the driver's addresses. The relay's ring is a plain split
//! ring, whatever the layout and the features of the driver's ring are. Chains are given back to the driver in the order
//! in which the driver made them available, so that the position of a stopped ring is one number.
use std::collections::VecDeque;
use std::sync::Arc;

use memory::AddressSpace;
use vhost_device::EventFd;
use vhost_user::vring::VringBase;
use virtqueue::{
    Burst, ChainRef, DeviceQueue, DriverQueue, Piece, PopError, Request, RingError, Used, UsedLog,
};

/// The number of passes over a ring before other rings and messages have their turn.
const PASSES: usize = 16;
/// The most used buffers that are taken in one pass.
const RECLAIMED: usize = 256;

/// Why a ring is no longer served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the driver's ring: {0}")]
    Driver(#[from] PopError),
    #[error("the device's use of the relay's ring: {0}")]
    Device(RingError),
    #[error("a chain has {0} pieces, more than the device's queue has descriptors")]
    TooLong(usize),
    #[error("a chain lies outside of the memory")]
    Outside,
}

/// Chains that were taken from the driver together.
struct Taken {
    burst: Burst,
    /// The number of them that were given back.
    given: usize,
}

/// What a shadow is made of.
pub(crate) struct Parts {
    /// The device half of the driver's ring.
    pub ring: Box<dyn DeviceQueue>,
    /// The driver half of the relay's ring.
    pub own: Box<dyn DriverQueue>,
    /// The memory of the driver's ring.
    pub space: Arc<AddressSpace>,
    /// The driver's eventfds.
    pub kick: EventFd,
    pub call: Option<EventFd>,
    /// The eventfds that the device has.
    pub own_kick: EventFd,
    pub own_call: EventFd,
}

/// A ring that the relay serves.
pub(crate) struct Shadow {
    parts: Parts,
    /// Chains that the driver has not got back, oldest first.
    taken: VecDeque<Taken>,
    /// For each of these chains that was not given back: the bytes that the device has written, once it has used it.
    written: VecDeque<Option<u32>>,
    /// The cookie of the first of them.
    first: u32,
    /// Whether the next chain waits until the relay's ring has room.
    is_full: bool,
    broken: bool,
    used: Vec<Used>,
}

impl Shadow {
    pub fn new(parts: Parts) -> Self {
        Shadow {
            parts,
            taken: VecDeque::new(),
            written: VecDeque::new(),
            first: 0,
            is_full: false,
            broken: false,
            used: Vec::new(),
        }
    }

    /// The eventfds to watch: of the driver, and of the device. None for a broken ring.
    pub fn watched(&self) -> Option<[&EventFd; 2]> {
        (!self.broken).then_some([&self.parts.kick, &self.parts.own_call])
    }

    /// Another eventfd of the driver for calls. It is signalled at once: a call may have gone to the one before.
    pub fn set_call(&mut self, call: Option<EventFd>) {
        if let Some(call) = &call {
            call.notify();
        }
        self.parts.call = call;
    }

    /// Another eventfd of the driver for kicks.
    pub fn set_kick(&mut self, kick: EventFd) {
        self.parts.kick = kick;
        self.wake();
    }

    /// Another dirty log.
    pub fn set_log(&mut self, log: Option<UsedLog>) {
        self.parts.ring.set_log(log);
    }

    /// Makes [`Shadow::run`] necessary again.
    pub fn wake(&self) {
        self.parts.own_call.notify();
    }

    /// Carries chains both ways until nothing is left to do or other work must have its turn.
    ///
    /// # Errors
    /// The driver's ring is malformed, or the device uses the relay's ring wrongly. The ring is no longer served.
    pub fn run(&mut self) -> Result<(), Broken> {
        if self.broken {
            return Ok(());
        }
        self.parts.kick.drain();
        self.parts.own_call.drain();
        for _ in 0..PASSES {
            let did = self.pass().inspect_err(|_| self.broken = true)?;
            if !did && !self.arm() {
                return Ok(());
            }
        }
        self.wake();
        Ok(())
    }

    /// Asks both sides for notifications. Returns whether there is work already.
    fn arm(&mut self) -> bool {
        let is_available = self.parts.ring.enable_kicks();
        self.parts.own.enable_calls() || is_available && !self.is_full
    }

    /// Carries chains both ways once. Returns whether there were any.
    fn pass(&mut self) -> Result<bool, Broken> {
        let given = self.give_back()?;
        let taken = self.take()?;
        if self.parts.own.needs_kick() {
            self.parts.own_kick.notify();
        }
        Ok(given || taken)
    }

    /// Gives the driver back what the device has used, oldest first. Returns whether the device has used anything.
    fn give_back(&mut self) -> Result<bool, Broken> {
        let reclaimed = self.parts.own.reclaim(&mut self.used, RECLAIMED).map_err(Broken::Device)?;
        for Used { cookie, written } in self.used.drain(..) {
            if let Some(chain) = self.written.get_mut(cookie.wrapping_sub(self.first) as usize) {
                *chain = Some(written);
            }
        }
        let ring = &mut self.parts.ring;
        while let Some(Taken { burst, given }) = self.taken.front_mut() {
            let from = *given;
            while *given < burst.len()
                && let Some(written) = self.written.front().copied().flatten()
            {
                self.written.pop_front();
                self.first = self.first.wrapping_add(1);
                burst.set_written(*given, written);
                *given += 1;
            }
            ring.add_used(burst, from..*given);
            if *given < burst.len() {
                break;
            }
            self.taken.pop_front();
        }
        if ring.needs_call()
            && let Some(call) = &self.parts.call
        {
            call.notify();
        }
        match ring.broken() {
            Some(error) => Err(PopError::from(error).into()),
            None => Ok(reclaimed > 0),
        }
    }

    /// Gives the device what the driver has made available, as far as there is room. Returns whether there was any.
    fn take(&mut self) -> Result<bool, Broken> {
        let Parts { ring, own, space, .. } = &mut self.parts;
        // At least one, so that a malformed index is reported.
        let most = usize::from(ring.available().min(own.free_descriptors()).max(1));
        let mut burst = Burst::new(most);
        ring.pop(&mut burst, most)?;
        let (mut readable, mut writable) = (Vec::new(), Vec::new());
        self.is_full = false;
        let mut at = 0;
        while at < burst.len() {
            let cookie = self.first.wrapping_add(self.written.len() as u32);
            pieces(space, burst.chain(at), [&mut readable, &mut writable])?;
            let request = Request { readable: &readable, writable: &writable, cookie };
            let count = readable.len() + writable.len();
            // A chain without a byte is used at once.
            let used = if count == 0 { Some(0) } else { None };
            if count > own.size().get().into() {
                return Err(Broken::TooLong(count));
            }
            if used.is_none() && own.add_requests(&[request]) == 0 {
                ring.rewind(&mut burst, at);
                self.is_full = true;
                break;
            }
            self.written.push_back(used);
            at += 1;
        }
        let any = at > 0;
        if any {
            self.taken.push_back(Taken { burst, given: 0 });
        }
        Ok(any)
    }

    /// Ends the shadow of a device that was stopped. Returns where the driver's ring stands: chains that the device has
    /// not used, or used out of order, are available again.
    pub fn stop(mut self) -> VringBase {
        // The device can have used chains until it was stopped. A malformed ring stays where it is.
        let _ = self.give_back();
        let ring = &mut self.parts.ring;
        while let Some(Taken { mut burst, given }) = self.taken.pop_back() {
            ring.rewind(&mut burst, given);
        }
        position(ring.position())
    }
}

fn position(position: virtqueue::Position) -> VringBase {
    match position {
        virtqueue::Position::Split { next_available, .. } => VringBase::Split { next_available },
        virtqueue::Position::Packed { next_available, next_used } => {
            VringBase::Packed { available: next_available, used: next_used }
        }
    }
}

/// The pieces of a chain at the driver's addresses.
fn pieces(
    space: &AddressSpace,
    chain: ChainRef<'_>,
    [readable, writable]: [&mut Vec<Piece>; 2],
) -> Result<(), Broken> {
    for (pieces, slices) in [(readable, chain.readable()), (writable, chain.writable())] {
        pieces.clear();
        for slice in slices {
            let address = space.guest_of(*slice).ok_or(Broken::Outside)?;
            pieces.push(Piece { address, len: slice.len_bytes() as u32 });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
