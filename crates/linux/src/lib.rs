//! Interfaces of Linux that several crates need and that no maintained library provides. Each interface is a module;
//! none uses another crate of this workspace.

pub mod child;
pub mod cpu_list;
pub mod cpu_time;
pub mod cpus;
pub mod duration;
pub mod generic_netlink;
pub mod idle_states;
pub mod interface;
pub mod interrupt;
pub mod ivshmem;
pub mod local_listener;
pub mod local_socket;
pub mod namespace;
pub mod output_file;
pub mod output_reader;
pub mod peer;
#[cfg(feature = "progress")]
pub mod progress;
pub mod routes;
pub mod save;
pub mod scheduler;
pub mod usage;
pub mod vdpa;
pub mod vduse;
pub mod version;
pub mod vhost_vdpa;
pub mod xdp;

pub use child::Child;
pub use output_file::OutputFile;
pub use output_reader::OutputReader;
