//! Split and packed virtqueues, driver half and device half, in bursts. The crate uses no sockets, no eventfds, no
//! packets and no logging.
//!
//! A virtqueue is shared memory through which a *driver* (in a guest, or [`DriverQueue`] here) hands buffers
//! to a *device* ([`DeviceQueue`] here) and gets them back *used*. There are two layouts. This page follows
//! one buffer, and its neighbours in the same burst, through each layout.
//!
//! # Once around the split ring (VIRTIO 1.3 §2.7)
//!
//! ```text
//!  driver writes                                            device writes
//!  ┌─ descriptor table ──────────────┐                      ┌─ used ring ───────────┐
//!  │ 0: addr len flags next          │                      │ flags  idx = 41       │
//!  │ 1: addr len flags next  ◄─────┐ │                      │ [0] id  len           │
//!  │ 2: addr len flags next        │ │                      │ [1] id=1 len=64   (5) │
//!  └───────────────────────────────┼─┘                      │ [2] id  len           │
//!  ┌─ available ring ──────────────┼─┐                      │ [3] id  len           │
//!  │ flags  idx = 42           (3) │ │   (4) the device     │ avail_event           │
//!  │ [0] head   [1] head=1 ────────┘ │ ───► pops it   ────► └───────────────────────┘
//!  │ [2] head   [3] head   used_event│                       (6) idx = 42, release
//!  └─────────────────────────────────┘                       (7) the driver reclaims
//! ```
//!
//! 1. The driver half ([`DriverQueue::add`]) takes a free descriptor, 1, and writes the buffer's address and
//!    length there. It keeps what it must remember in its own memory, because the device can write the ring too.
//! 2. It writes head 1 into the next entry of the available ring; the other buffers of the burst follow.
//! 3. It stores the new `idx` with *release*: one store publishes the whole burst.
//! 4. The device half ([`DeviceQueue::pop`]) loads `idx` with *acquire*, so that entries and descriptors
//!    before it are visible. It checks the head, reads the descriptor once, follows `next` if there is one,
//!    translates the address, and appends the buffer. A [`Burst`] now holds the buffer's address in this process.
//! 5. After the worker has copied, [`DeviceQueue::add_used`] writes id and written length to the used ring.
//! 6. One store of `idx`, with *release*, publishes the whole burst. With IN_ORDER one entry stands for the burst.
//! 7. [`DriverQueue::reclaim`] loads `idx` with *acquire*, checks that the device has buffer 1 and that no more was
//!    written than fits, and returns the caller's cookie.
//!
//! # Once around the packed ring (§2.8)
//!
//! ```text
//!                    one ring, both write; four descriptors fill a cache line
//!   slot    0              1              2              3        wraps ─┐
//!        ┌──────────────┬──────────────┬──────────────┬──────────────┐   │
//!        │ addr len id  │ addr len id  │ addr len id  │ addr len id  │◄──┘
//!        │ flags A=1 U=1│ flags A=1 U=0│ flags A=1 U=0│ flags A=0 U=0│
//!        └──────────────┴──────────────┴──────────────┴──────────────┘
//!           used           available      available      neither, in the first pass (wrap counter 1)
//! ```
//!
//! Two flag bits, A (AVAIL) and U (USED), say which side a slot belongs to. *Available* means: bit A equals the
//! driver's wrap counter and bit U does not. *Used* means: both bits equal the device's wrap counter. The counters
//! start at 1 and flip with every pass, so no slot has to be cleared.
//!
//! 1. The driver half writes address, length and buffer id of every slot of the burst, and the flags of all
//!    but the first.
//! 2. It stores the first slot's flags, last and with *release*. The device reaches the later slots only
//!    through the first, so that one store publishes them all.
//! 3. The device half loads a slot's flags with *acquire*. If a whole cache line is available and each of its four
//!    slots is a chain of its own, they are popped together; otherwise one by one.
//! 4. [`DeviceQueue::add_used`] writes id and length to the next *used* slot — not necessarily the one the buffer came
//!    in — and the flags of the burst's first slot last, again with *release*. It then skips as many slots
//!    as the chain had. With IN_ORDER one used descriptor stands for the whole burst.
//! 5. The driver half loads those flags with *acquire*, looks the id up in its own memory, and moves on by the slots
//!    that the buffer had.
//!
//! # Notifications without a lost wake-up
//!
//! A side that is about to sleep *arms* notifications ([`DeviceQueue::enable_kicks`], [`DriverQueue::enable_calls`]),
//! executes a full barrier, and then checks the ring again. The other side publishes, executes a full barrier, and
//! then checks whether notifications are armed ([`DriverQueue::needs_kick`], [`DeviceQueue::needs_call`]). At least
//! one of the two sees the other's write. These are the only full barriers in the crate.
//!
//! # Trust
//!
//! [`QueueConfig`] holds what a peer has stated; [`QueueConfig::activate_device`] turns it into a queue. What the
//! peer writes to the ring afterwards is checked where it is read. A malformed ring is a [`RingError`] that names
//! place, section and value. Only that ring stops.
//!
//! # Where things are
//!
//! `split`, `packed`: each has a `device` (and the `walk` along its longer chains), a `driver`, and a `ring` with the
//! positions of the words. `device`: what the device halves share, and their dirty log. `chain`, `burst`: chains that
//! were popped. `work`: limits of what a driver may make a device do at once. `inflight`: recovery after a crash.
//! `position`: cursors and wrap counters. `atomics`: the atomic types, which the models replace. `config`: from
//! untrusted configuration to running queue. `mock` (feature `mock`): the mock peer for tests, benches and fuzzing.
#![deny(unsafe_code)]

mod atomics;
mod builder;
mod burst;
mod chain;
mod chains;
mod config;
mod device;
mod driver;
mod error;
mod features;
mod indirect_flags;
mod inflight;
mod packed;
mod platform;
mod position;
mod split;
mod tuning;
mod work;

#[cfg(feature = "mock")]
pub mod mock;

pub use atomics::{Atomics, Platform, Smp, Word};
pub use burst::{Burst, ChainRef};
pub use config::{ActivateError, DeviceOptions, QueueConfig};
pub use device::{Device, DeviceParts, DeviceQueue, RingPlaces, UsedLog};
pub use driver::{Buffer, Direction, DriverQueue, IndirectTables, Piece, Request, Used};
pub use error::{Malformed, Place, PopError, RingError};
pub use features::{FeatureSet, RingFeatures, With};
pub use indirect_flags::IndirectFlags;
pub use inflight::{InFlightError, PackedInFlight, SplitInFlight};
pub use packed::{Event, MappedPacked, PackedDescriptor, PackedDevice, PackedDriver, PackedRing};
pub use position::Position;
pub use split::{MappedSplit, SplitDescriptor, SplitDevice, SplitDriver, SplitRing, UsedElement};
pub use virtio::{PackedPosition, QueueSize, QueueSizeError, RingLayout};
