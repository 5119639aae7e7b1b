//! A relay between a vhost-user front-end and a vDPA device of this kernel (`/dev/vhost-vdpa-N`): the device works on
//! the guest's own rings.
//!
//! The relay handles messages alone. It maps the guest's memory for the device, gives the device the addresses of the
//! rings, and gives the kernel the guest's eventfds for kicks and calls. No packet and no notification passes this
//! process. The front-end and the device agree on features that both have.
//!
//! While pages are logged for a migration, and where a device cannot begin a ring at its position, the device works on
//! rings of the relay, which serves the guest's (docs/decisions/dirty-pages-of-a-device.md). Descriptors then pass this
//! process, and payload does not.
//!
//! The device reaches what the relay has mapped and nothing else: its IOMMU, or for a device in software its driver,
//! checks each access. The relay checks all that a front-end says before the device is told: regions are whole, within
//! limits and inside the addresses that the device has, and rings lie inside the regions.
//!
//! The device is opened for each front-end, and closed when the front-end goes. The kernel then resets the device, and
//! unmaps and unpins the memory. When the device goes, its file is closed, for which the kernel waits, and the
//! front-end is disconnected; front-ends can connect again once the device is back.
//!
//! # Where to change what
//!
//! ```text
//!   options    what a relay connects
//!   relay      the socket and its front-ends, one after the other
//!   front_end  one connection: messages in, replies out
//!   hardware   the device: what it offers, how it is started and stopped
//!   mapped     the memory that the device has
//!   rings      the front-end's rings, and when and how the device runs
//!   shadows    the relay's own rings, for a queue pair that the relay serves
//!   shadow     one ring that the relay serves
//! ```
#![forbid(unsafe_code)]

mod front_end;
mod hardware;
mod mapped;
mod options;
mod relay;
mod rings;
mod shadow;
mod shadows;

pub use hardware::{Hardware, OFFERED};
pub use options::{DEFAULT_MEMORY_BYTES, Port};
pub use relay::run;
