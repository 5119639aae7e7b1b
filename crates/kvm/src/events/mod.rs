//! One merged trace of everything on the path of a packet or an interrupt: KVM, scheduler, interrupts, system calls,
//! network, block devices, page faults. The kernel writes it for [`Recorder`], and [`Trace::parse`] reads the
//! kernel's text.

mod clock;
mod fields;
mod flight;
mod parse;
mod pipe;
mod record;
mod selection;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use clock::Rate;
pub use flight::FlightRecorder;
pub use pipe::{Arrived, Pipe};
pub use record::{Recorder, Target};
pub use selection::Selection;

/// A thread's id, as the kernel traces it; 0 for the idle thread of each CPU.
pub type Pid = u32;

/// What a thread's CPU executes while the thread is current.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Context {
    /// The thread itself.
    Task,
    /// A softirq that interrupts the thread.
    Softirq,
    /// An interrupt that interrupts the thread.
    Interrupt,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The time in ns; on CLOCK_MONOTONIC if a [`Recorder`] wrote the trace.
    pub time: u64,
    /// Where.
    pub cpu: u32,
    /// The current thread.
    pub pid: Pid,
    /// The context that was executing.
    pub context: Context,
    /// What.
    pub kind: Kind,
}

/// What happened. The fields are those of the kernel's tracepoints.
#[allow(missing_docs, reason = "fields carry the tracepoints' own names")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Kind {
    /// `kvm_entry`
    Entry { vcpu: u32 },
    /// `kvm_exit`
    Exit { vcpu: u32, reason: String },
    /// `kvm_userspace_exit`: KVM_RUN returns.
    UserspaceExit { reason: String },
    /// `kvm_inj_virq`: the next entry delivers an interrupt with this vector.
    Inject { vector: u32 },
    /// `kvm_apic_accept_irq`: an interrupt is pending for a virtual CPU.
    Accept { apic: u32, vector: u32 },
    /// `kvm_eoi`, `kvm_pv_eoi`
    EndOfInterrupt,
    /// `kvm_msi_set_irq`, `kvm_set_irq`, `kvm_pio`, `kvm_mmio`, `kvm_fast_mmio`, by name. They mark places on a path.
    Kvm { name: String },
    /// `sched_switch`
    Switch { previous: Pid, runnable: bool, next: Pid, priority: i32 },
    /// `sched_waking`
    Waking { target: Pid },
    /// `irq_handler_entry`
    IrqEntry { name: String },
    /// `irq_handler_exit`
    IrqExit,
    /// `softirq_entry`
    SoftirqEntry { action: String },
    /// `softirq_exit`
    SoftirqExit,
    /// `local_timer_entry`, `hrtimer_expire_entry`
    Timer,
    /// `local_timer_exit`
    TimerExit,
    /// `sys_enter`
    SyscallEnter { number: u64 },
    /// `sys_exit`
    SyscallExit { number: u64 },
    /// `net_dev_queue`, `net_dev_start_xmit`, `net_dev_xmit`, `netif_rx`, `netif_receive_skb`
    Net { name: String, device: String },
    /// `block_rq_issue`, with device and sector, by which its completion is found
    BlockIssue { device: String, sector: u64 },
    /// `block_rq_complete`
    BlockComplete { device: String, sector: u64 },
    /// `page_fault_user`, `page_fault_kernel`, `kvm_page_fault`
    PageFault { guest: bool },
}

impl Kind {
    /// Whether the guest exited because it accepts interrupts again. KVM requests that exit when it has an interrupt
    /// for a guest that has interrupts off: AMD's VINTR intercept, Intel's interrupt-window exiting.
    pub fn is_interrupt_window(&self) -> bool {
        let Kind::Exit { reason, .. } = self else { return false };
        matches!(reason.as_str(), "vintr" | "interrupt_window" | "pending_interrupt")
    }
}

/// Events in the order of their time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The known events.
    pub events: Vec<Event>,
    /// The names of threads, as last seen.
    #[serde(with = "as_pairs")]
    pub names: BTreeMap<Pid, String>,
    /// Events that the kernel's buffers had no room for.
    pub lost: u64,
    /// Lines that are no known event: other events, or fields of another kernel version.
    pub unknown: u64,
}

/// JSON's keys are text, and serde takes no number out of one in a message whose kind is told by a field.
mod as_pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::Pid;

    /// Writes the names as a list of pairs.
    ///
    /// # Errors
    /// The serializer refuses a list of pairs.
    pub fn serialize<S: Serializer>(names: &BTreeMap<Pid, String>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(names)
    }

    /// Reads the names from a list of pairs.
    ///
    /// # Errors
    /// The input is no list of pairs of a thread's id and a name.
    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<BTreeMap<Pid, String>, D::Error> {
        Vec::deserialize(from).map(|pairs: Vec<(Pid, String)>| pairs.into_iter().collect())
    }
}

impl Trace {
    /// A thread's name.
    pub fn name(&self, pid: Pid) -> &str {
        if pid == 0 { "idle" } else { self.names.get(&pid).map_or("?", String::as_str) }
    }
}
