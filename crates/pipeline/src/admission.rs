//! Which frames may come from a port.
use std::fmt::Debug;
use std::iter;
use std::ops::Range;

use frame::{DropReason, Frame, FrameBatch};
use virtio::net::MacAddress;

use crate::{Now, Output, Policer};

/// A check beside the limits of a port. The check is a type, so a port without one executes nothing for it.
pub trait Guard: Debug + Send + Sync {
    /// Whether the frame is admitted.
    fn admits(&self, frame: &Frame<'_>) -> bool;
}

/// No check: every frame is admitted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unguarded;

impl Guard for Unguarded {
    #[inline(always)]
    fn admits(&self, _: &Frame<'_>) -> bool {
        true
    }
}

/// Which frames may come from a port. The default admits every frame whose source is no group address.
#[derive(Debug)]
pub struct Admission<G = Unguarded> {
    addresses: Option<Vec<MacAddress>>,
    max_frame_bytes: Option<u32>,
    policer: Option<Policer>,
    guard: G,
}

impl Default for Admission {
    fn default() -> Self {
        Admission::new(None, None, None)
    }
}

impl Admission {
    /// Admits frames from these source addresses (`None`: from any), up to this length in bytes and at this rate.
    /// For a frame that is still to be segmented, the length of a segment without headers counts.
    pub fn new(
        addresses: Option<Vec<MacAddress>>,
        max_frame_bytes: Option<u32>,
        policer: Option<Policer>,
    ) -> Self {
        let sorted = |mut addresses: Vec<MacAddress>| {
            addresses.sort_unstable();
            addresses
        };
        Admission { addresses: addresses.map(sorted), max_frame_bytes, policer, guard: Unguarded }
    }

    /// Admits only frames that this guard admits too.
    pub fn guarded<G: Guard>(self, guard: G) -> Admission<G> {
        let Admission { addresses, max_frame_bytes, policer, guard: Unguarded } = self;
        Admission { addresses, max_frame_bytes, policer, guard }
    }
}

impl<G: Guard> Admission<G> {
    /// Whether only the kind of the source address is checked.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.addresses.is_none() && self.max_frame_bytes.is_none() && self.policer.is_none()
    }

    /// Whether this address may be behind the port.
    #[inline(always)]
    pub fn allows(&self, address: MacAddress) -> bool {
        // No station has a group address (IEEE 802.3 §3.2.3), and a bridge that learns it sends all of the
        // group's frames to one port.
        let listed = |addresses: &Vec<MacAddress>| addresses.binary_search(&address).is_ok();
        !address.is_group() && self.addresses.as_ref().is_none_or(listed)
    }

    /// Checks that a frame may come from the port. Rates are checked by [`Admission::police`].
    ///
    /// # Errors
    /// The source address is a group address or not one of the port's ([`DropReason::Spoofed`]); the frame, or a
    /// segment of it, is longer than the port's limit ([`DropReason::TooLong`]); or the guard refuses it
    /// ([`DropReason::NowhereToGo`]).
    #[inline(always)]
    pub fn admit(&self, frame: &Frame<'_>) -> Result<(), DropReason> {
        if !self.allows(frame.source()) {
            return Err(DropReason::Spoofed);
        }
        match self.max_frame_bytes {
            Some(max) if wire_bytes(frame) > max as usize => Err(DropReason::TooLong),
            _ if !self.guard.admits(frame) => Err(DropReason::NowhereToGo),
            _ => Ok(()),
        }
    }

    /// Returns how many frames of the burst the rate admits. The others, which are the last of the burst, are
    /// dropped.
    #[inline(always)]
    pub fn police(&self, batch: &FrameBatch, now: Now<'_>, output: &mut dyn Output) -> usize {
        match &self.policer {
            None => batch.len(),
            Some(policer) => police(policer, batch, now, output),
        }
    }

    /// Divides the first `frames` frames of the burst into runs. All frames of a run have the same addresses and
    /// are admitted as the first one is.
    #[inline(always)]
    pub fn runs<'a>(&'a self, batch: &'a FrameBatch, frames: usize) -> impl Iterator<Item = Range<u16>> {
        let mut at = 0;
        iter::from_fn(move || {
            if at >= frames {
                return None;
            }
            // The frames of such a run differ in their lengths.
            let run = if self.max_frame_bytes.is_some() { 1 } else { batch.same_address_run(at) };
            let run = run.min(frames - at);
            at += run;
            Some((at - run) as u16..at as u16)
        })
    }
}

#[inline(never)]
fn police(policer: &Policer, batch: &FrameBatch, now: Now<'_>, output: &mut dyn Output) -> usize {
    let admitted = policer.admit(batch, now());
    if admitted < batch.len() {
        output.drop(DropReason::Policed, (batch.len() - admitted) as u64);
    }
    admitted
}

/// Length on the wire, as far as it is known: headers are found when a frame is segmented, not before.
fn wire_bytes(frame: &Frame<'_>) -> usize {
    let whole = frame.len_bytes();
    frame.offload().segmentation.map_or(whole, |gso| whole.min(usize::from(gso.segment_bytes.get())))
}
