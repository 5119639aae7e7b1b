//! The crypto device (VIRTIO 1.3 §5.9): codes of services, algorithms and operations, the configuration, and the
//! requests of a data queue. All numbers are little endian.
mod codes;
mod config;
mod request;

pub use codes::{Aead, Cipher, Hash, Mac, Opcode, SERVICES, Service, Status};
pub use config::CryptoConfig;
pub use request::{Chain, DataRequest, Malformed, Operation};

/// The device's number (VIRTIO 1.3 §5).
pub const DEVICE_ID: u32 = 20;
