//! Has the kernel write a trace into an instance of tracefs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use measure::Failure;

use super::Trace;

/// Events that are switched on where the kernel has them.
const EVENTS: &[&str] = &[
    "kvm/kvm_entry",
    "kvm/kvm_exit",
    "kvm/kvm_userspace_exit",
    "kvm/kvm_inj_virq",
    "kvm/kvm_apic_accept_irq",
    "kvm/kvm_eoi",
    "kvm/kvm_pv_eoi",
    "kvm/kvm_msi_set_irq",
    "kvm/kvm_set_irq",
    "kvm/kvm_pio",
    "kvm/kvm_mmio",
    "kvm/kvm_fast_mmio",
    "kvm/kvm_page_fault",
    "sched/sched_switch",
    "sched/sched_waking",
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_entry",
    "irq/softirq_exit",
    "irq_vectors/local_timer_entry",
    "raw_syscalls/sys_enter",
    "raw_syscalls/sys_exit",
    "net/net_dev_queue",
    "net/net_dev_start_xmit",
    "net/net_dev_xmit",
    "net/netif_rx",
    "net/netif_receive_skb",
    "block/block_rq_issue",
    "block/block_rq_complete",
    "exceptions/page_fault_user",
    "exceptions/page_fault_kernel",
];
/// Without these there is no path.
const REQUIRED: &[&str] = &["kvm/kvm_entry", "kvm/kvm_exit", "sched/sched_switch", "sched/sched_waking"];
/// For each CPU.
const BUFFER_KIB: u32 = 16 << 10;

/// The process that runs a guest.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its id.
    pub pid: u32,
    /// Its threads, and the kernel's that work for it (`vhost-PID`).
    pub threads: Vec<u32>,
    /// Whether a device is handed on to it.
    pub has_vfio: bool,
}

impl Target {
    /// Looks at a running process.
    pub fn find(pid: u32) -> Result<Self, Failure> {
        let folder = Path::new("/proc").join(pid.to_string());
        let ids = |path: &Path| -> Vec<u32> {
            let names = fs::read_dir(path).into_iter().flatten().flatten();
            names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
        };
        let mut threads = ids(&folder.join("task"));
        if threads.is_empty() {
            let tried = format!("tracing process {pid}");
            return Err(Failure::new(tried, "there is none", "name a running one"));
        }
        let worker = format!("vhost-{pid}");
        let is_worker =
            |id: &u32| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|comm| comm.trim() == worker);
        threads.extend(ids(Path::new("/proc")).into_iter().filter(is_worker));
        let links = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
        let has_vfio = links
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .any(|link| link.starts_with("/dev/vfio") || link.to_string_lossy().contains("vfio-device"));
        Ok(Self { pid, threads, has_vfio })
    }
}

/// A trace that is being written.
pub struct Recorder {
    instance: PathBuf,
    start: Instant,
    first_tick: u64,
    is_tsc: bool,
}

impl Recorder {
    /// Starts in an instance, a folder of tracefs that the caller has made and removes. Events of all threads are
    /// written: a packet passes many.
    pub fn start(instance: &Path) -> Result<Self, Failure> {
        let write = |name: &str, text: &str| {
            fs::write(instance.join(name), text).map_err(|error| {
                Failure::new(
                    format!("writing {text} to {}", instance.join(name).display()),
                    error,
                    "run as root",
                )
            })
        };
        write("buffer_size_kb", &BUFFER_KIB.to_string())?;
        let is_tsc = cfg!(target_arch = "x86_64") && write("trace_clock", "x86-tsc").is_ok();
        for event in EVENTS {
            let switched = write(&format!("events/{event}/enable"), "1");
            if REQUIRED.contains(event) {
                switched?;
            }
        }
        write("tracing_on", "1")?;
        Ok(Self { instance: instance.to_owned(), start: Instant::now(), first_tick: tick(), is_tsc })
    }

    /// Ends it, and gives what was written.
    pub fn stop(self) -> Result<Trace, Failure> {
        let rate = (tick() - self.first_tick) as f64 / self.start.elapsed().as_secs_f64() / 1e6;
        let _ = fs::write(self.instance.join("tracing_on"), "0");
        let path = self.instance.join("trace");
        let text = fs::read(&path)
            .map_err(|error| Failure::new(format!("reading {}", path.display()), error, "run as root"))?;
        Ok(Trace::parse(&String::from_utf8_lossy(&text), if self.is_tsc { rate } else { 1e3 }))
    }
}

#[cfg(target_arch = "x86_64")]
fn tick() -> u64 {
    crate::micro_vm::tsc::stamp()
}

#[cfg(not(target_arch = "x86_64"))]
fn tick() -> u64 {
    0
}
