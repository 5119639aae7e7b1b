//! QEMU's `ivshmem-doorbell` (QEMU, docs/specs/ivshmem-spec.rst): memory that clients share with a server, and
//! interrupts to each client.

mod client;
mod device;
mod message;
mod server;

pub use client::connect;
pub use device::Device;
pub use server::{Peer, Server};
