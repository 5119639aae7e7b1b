//! Real peers for tests, each a value: started by its constructor, ended and removed when it is dropped,
//! also by a panic.
//!
//! [`Guest`] is a stock Linux kernel in QEMU with vhost-user network ports; [`Testpmd`] is DPDK's test
//! program, as driver (`net_virtio_user`) or device (`net_vhost`); [`OvsDpdk`] is Open vSwitch with DPDK;
//! [`Netns`] is a network namespace, made by root or by an ordinary user, and [`Bridge`] one with the
//! kernel's bridge in it. [`nested`] is a machine in which KVM is real. What a peer needs and does not find is listed, all of it, in [`Error::Missing`].
//!
//! A peer's processes also end when the thread that started them ends, so a peer that several tests share
//! must be started by a thread that outlives them.
//!
//! # Where to change what
//!
//! - To add a network path into the guest within the nested machine: `nested/network.rs`; a row in `docs/paths.md`.
//! - To change what is in the nested machine: `nested/`.

mod absent;
mod answering;
pub mod bridge;
pub mod build;
pub mod bystander;
pub mod callgrind;
pub mod chosen;
mod cpus;
mod error;
pub mod guest;
mod iperf3;
pub mod nested;
pub mod netns;
pub mod ovs;
mod ovs_database;
mod ovs_dummy;
pub mod pages;
mod process;
pub mod requirements;
pub mod schema;
pub mod socket;
pub mod standstill;
pub mod testpmd;
pub mod usage;

pub use absent::{absent, required};
pub use answering::Answering;
pub use bridge::Bridge;
pub use error::Error;
pub use guest::Guest;
pub use iperf3::bytes_received;
pub use netns::Netns;
pub use ovs::OvsDpdk;
pub use ovs_database::OvsDatabase;
pub use ovs_dummy::OvsDummy;
pub use pages::Pages;
pub use process::{Output, run};
pub use testpmd::Testpmd;
