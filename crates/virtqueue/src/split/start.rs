//! Construction of a split ring's device half.

use std::marker::PhantomData;

use super::SplitRing;
use super::device::{SplitDevice, SplitDeviceRing};
use super::ring::USED_INDEX;
use crate::atomics::Atomics;
use crate::device::{Device, DeviceParts};
use crate::inflight::SplitInFlight;
use crate::{FeatureSet, Position};

impl<R: SplitRing + Send, F: FeatureSet> SplitDevice<R, F> {
    /// A queue over a ring whose memory has been found. Nothing in the ring is trusted yet.
    pub fn new(parts: DeviceParts<R, SplitInFlight>) -> Self {
        let DeviceParts { ring, size, position, translator, log, in_flight } = parts;
        let (mut next_available, mut next_used) = match position {
            Position::Split { next_available, next_used } => (next_available, next_used),
            Position::Packed { .. } => (0, 0),
        };
        if let Some(in_flight) = &in_flight {
            // vhost-user, "Inflight I/O tracking": the used ring itself says how far it got, and what was
            // popped beyond that and not used is in the region.
            next_used = R::Atomics::observe(&ring.used_header()[USED_INDEX]);
            next_available = next_used.wrapping_add(in_flight.resubmit_len());
        } else if next_available == 0 && next_used == 0 {
            // A new ring's used index is 0. One that is not belongs to a ring that goes on with a device that was
            // started again, for which DPDK's virtio-user always says 0: all up to there was used.
            next_used = R::Atomics::observe(&ring.used_header()[USED_INDEX]);
            next_available = next_used;
        }
        let is_new = next_available == 0 && next_used == 0;
        let ring = SplitDeviceRing {
            ring,
            size,
            next_available,
            available_seen: next_available,
            next_used,
            writable: false,
            in_flight,
            features: PhantomData,
        };
        Device::of_ring(ring, translator, log, is_new.then_some(0))
    }
}
