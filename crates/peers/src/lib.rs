//! Real peers for tests. Each peer is a value: its constructor starts it, and dropping the value ends and removes it,
//! also after a panic.
//!
//! [`Guest`] is a stock Linux kernel in QEMU with vhost-user network ports; [`Testpmd`] is DPDK's test
//! program, as driver (`net_virtio_user`) or device (`net_vhost`); [`OvsDpdk`] is Open vSwitch with DPDK;
//! [`Netns`] is a network namespace, made by root or by an ordinary user, and [`Bridge`] is a network namespace that
//! contains the kernel's bridge. [`Ovn`] and [`Neutron`] control a switch from outside. [`nested`] is an emulated machine in which KVM runs guests. The requirements of a
//! peer that this machine does not meet are all listed in [`Error::Missing`].
//!
//! A peer's processes also end when the thread that started them ends, so a peer that several tests share
//! must be started by a thread that outlives these tests.
//!
//! # Where to change what
//!
//! - To add a network path into the guest within the nested machine: `nested/network.rs`; a row in `docs/paths.md`.
//! - To change the contents of the nested machine: `nested/`.

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
mod neutron;
mod ovn;
pub mod ovs;
mod ovs_database;
mod ovs_dummy;
mod ovs_netdev;
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
pub use neutron::{MetadataAgent, Neutron};
pub use ovn::{Chassis, Ovn};
pub use ovs::OvsDpdk;
pub use ovs_database::OvsDatabase;
pub use ovs_dummy::OvsDummy;
pub use ovs_netdev::{OvsNetdev, OvsService};
pub use pages::Pages;
pub use process::{Output, run};
pub use testpmd::Testpmd;
