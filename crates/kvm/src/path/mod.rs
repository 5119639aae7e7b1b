//! The path of a packet or an interrupt, step by step, out of a trace.
//!
//! The trace is walked backwards ([`walk`]) from where the path ends ([`follow`]): which thread ran, which one had
//! woken it, and which interrupt came between. Packets of the same steps are counted together ([`summary`]). All of
//! it is a pure function of [`crate::events::Trace`].

pub mod explain;
pub mod follow;
pub mod known;
pub mod sequence;
mod step;
#[cfg(test)]
mod stories;
mod summary;
mod syscalls;
mod walk;

pub use step::{Arrow, Mode, Place, Step};
pub use summary::{Arrows, Summary, Variant};

/// The threads of a process that are virtual CPUs, with their numbers.
pub fn vcpus(
    trace: &crate::events::Trace,
    target: &crate::events::Target,
) -> std::collections::BTreeMap<crate::events::Pid, u32> {
    walk::Walker::new(trace, target).vcpus().clone()
}

/// What is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// A packet, from the host's network stack or a wire to the guest's driver.
    NetRx,
    /// A packet, from the guest's driver to the host's network stack.
    NetTx,
    /// An interrupt, from its cause to the guest.
    Interrupt,
    /// A request of a block device, from the guest's driver to the interrupt that says it is done.
    Block,
}

impl Traffic {
    /// As in the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::NetRx => "net-rx",
            Self::NetTx => "net-tx",
            Self::Interrupt => "interrupt",
            Self::Block => "block",
        }
    }
}
