//! The path of a packet or an interrupt, step by step, found in a trace.
//!
//! The trace is walked backwards ([`walk`]) from the end of the path ([`follow`]): which thread ran, which thread had
//! woken it, and which interrupt came between. Packets with the same steps are counted together ([`summary`]). All of
//! these are pure functions of [`crate::events::Trace`].

pub mod explain;
pub mod follow;
mod halted;
pub mod known;
pub mod sequence;
mod step;
mod summary;
pub mod syscalls;
mod walk;

pub use step::{Arrow, Mode, Place, Step};
pub use summary::{Arrows, Summary, Variant};

/// The threads of a process that are virtual CPUs, with the CPUs' numbers.
pub fn vcpus(
    trace: &crate::events::Trace,
    target: &crate::events::Target,
) -> std::collections::BTreeMap<crate::events::Pid, u32> {
    walk::Walker::new(trace, target).vcpus().clone()
}

/// The kind of traffic to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// A packet, from the host's network stack or a wire to the guest's driver.
    NetRx,
    /// A packet, from the guest's driver to the host's network stack.
    NetTx,
    /// An interrupt, from its cause to the guest.
    Interrupt,
    /// A request to a block device, from the guest's driver to the interrupt of its completion.
    Block,
}

impl Traffic {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::NetRx => "net-rx",
            Self::NetTx => "net-tx",
            Self::Interrupt => "interrupt",
            Self::Block => "block",
        }
    }
}
