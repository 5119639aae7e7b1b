//! Split and packed virtqueues, driver half and device half, in bursts.
#![deny(unsafe_code)]

mod atomics;
mod burst;
mod config;
mod device;
mod driver;
mod error;
mod features;
mod inflight;
mod packed;
mod platform;
mod position;
mod size;
mod split;
mod tuning;

#[cfg(feature = "mock")]
pub mod mock;

pub use atomics::{Atomics, Platform, Smp, Word};
pub use burst::{Burst, ChainRef};
pub use config::{ActivateError, DeviceOptions, QueueConfig};
pub use device::{DeviceQueue, UsedLog};
pub use driver::{Buffer, Direction, DriverQueue, IndirectTables, Piece, Request, Used};
pub use error::{Malformed, Place, RingError, TakeError};
pub use features::{FeatureSet, RingFeatures, With};
pub use inflight::{InFlightError, PackedInFlight, SplitInFlight, packed_region_bytes, split_region_bytes};
pub use packed::{Event, MappedPacked, PackedDescriptor, PackedDevice, PackedDriver, PackedRing};
pub use position::{Cursor, Position};
pub use size::{Layout, MAX_QUEUE_SIZE, QueueSize, QueueSizeError};
pub use split::{MappedSplit, SplitDescriptor, SplitDevice, SplitDriver, SplitRing, UsedElement};
