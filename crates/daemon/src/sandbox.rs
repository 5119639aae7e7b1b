//! The rights that a switch gives up after its start.
//!
//! A worker reads what guests write, so it keeps least: no capability, no file to open, and only the system calls
//! that moving frames takes. The control thread opens what ports need, also those that are added later; it keeps the
//! capabilities that some kind of port uses, and no new ones. docs/threat-model.md has the whole picture.
use std::collections::BTreeMap;
use std::io;

use landlock::{
    ABI, Access, AccessFs, AccessNet, NetPort, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

/// The capabilities that some kind of port may need: interfaces, packet sockets, XDP programs, sockets in other users'
/// folders, huge pages, and the limit of open files.
const CONTROL_KEEPS: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_RESOURCE);

/// The newest version of Landlock that this code uses; on older kernels fewer restrictions apply.
const LANDLOCK: ABI = ABI::V5;

/// A system call: its name in libc, and its number.
type Call = (&'static str, libc::c_long);

macro_rules! calls {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), libc::$name)),*] };
}

/// System calls of a worker; all others are refused (EPERM). docs/threat-model.md lists them too.
const WORKER_CALLS: &[Call] = calls![
    // Frames: TAPs and recordings.
    SYS_read,
    SYS_readv,
    SYS_write,
    SYS_writev,
    SYS_preadv2,
    SYS_pwritev2,
    SYS_ftruncate,
    SYS_lseek,
    // Telling an AF_XDP socket to look at its rings: messages without bytes, on sockets that are open.
    SYS_sendto,
    SYS_recvfrom,
    // Sleeping, and waking other threads.
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_epoll_ctl,
    SYS_ppoll,
    SYS_futex,
    SYS_sched_yield,
    SYS_nanosleep,
    SYS_clock_nanosleep,
    SYS_clock_gettime,
    SYS_restart_syscall,
    // Calls that must not block: the kernel's AIO, and writes with a timer.
    SYS_io_setup,
    SYS_io_submit,
    SYS_io_getevents,
    SYS_io_destroy,
    SYS_timer_create,
    SYS_timer_settime,
    SYS_timer_delete,
    // When the next frame of a recording is due.
    SYS_timerfd_settime,
    SYS_gettid,
    SYS_getpid,
    // Memory, dropped values, and pages that a guest has taken away (SIGBUS).
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    SYS_brk,
    SYS_close,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_getrandom,
    // The end, in order or by a panic that cannot be caught.
    SYS_tgkill,
    SYS_exit,
    SYS_exit_group,
];

/// Older calls, which are not on every architecture.
#[cfg(target_arch = "x86_64")]
const OLDER_CALLS: &[Call] = calls![SYS_epoll_wait, SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const OLDER_CALLS: &[Call] = &[];

/// The restrictions that the kernel refused, with its answers.
#[derive(Debug, Default)]
struct Missing(Vec<String>);

impl Missing {
    fn note(&mut self, what: &str, result: Result<(), String>) {
        if let Err(why) = result {
            self.0.push(format!("{what} ({why})"));
        }
    }
}

/// Takes rights from the control thread, and tries a worker's confinement on a thread of its own. Returns a message
/// that names the parts that the kernel does not support, if any.
pub fn prepare() -> Option<String> {
    let mut missing = Missing::default();
    let tried = std::thread::Builder::new().name("sandbox".to_owned()).spawn(|| confine().0);
    match tried.map(std::thread::JoinHandle::join) {
        Ok(Ok(found)) => missing.0 = found,
        Ok(Err(_)) => missing.0.push("a trial of it panicked".to_owned()),
        Err(error) => missing.0.push(format!("no thread to try it on: {error}")),
    }
    missing.note("no new privileges for the control thread", no_new_privileges());
    missing.note("fewer capabilities for the control thread", keep(CONTROL_KEEPS));
    (!missing.0.is_empty()).then(|| {
        format!(
            "the switch runs with more rights than it needs, this kernel or sandbox does not let it give up: {}",
            missing.0.join(", ")
        )
    })
}

/// Confines the worker that calls this. [`prepare`] has reported at the start what the kernel does not support.
///
/// # Errors
/// Never: a worker runs with the restrictions that the kernel supports. The switch's hook takes a function that may
/// fail.
pub fn confine_worker() -> io::Result<()> {
    confine_writer();
    Ok(())
}

/// Confines a thread that writes to open files only.
pub fn confine_writer() {
    let _ = confine();
}

/// Confines a thread that only connects to sockets of the file system, also to those of other users, and to this TCP port
/// of any machine. [`prepare`] has reported at the start what the kernel does not support.
pub fn confine_companion(tcp_port: Option<u16>) {
    let _ = keep(CapabilitySet::DAC_OVERRIDE);
    let _ = no_files_but(tcp_port);
}

/// The name of a restriction, and the function that applies it to the calling thread.
type Wall = (&'static str, fn() -> Result<(), String>);

/// The restrictions of a worker. Seccomp is last, because it forbids the calls of the others. Seccomp and Landlock set
/// no_new_privs.
const WALLS: [Wall; 3] = [
    ("capabilities", || keep(CapabilitySet::empty())),
    ("the file system (Landlock)", no_files),
    ("system calls (seccomp)", few_calls),
];

fn confine() -> Missing {
    put_up(&WALLS)
}

fn put_up(walls: &[Wall]) -> Missing {
    let mut missing = Missing::default();
    walls.iter().for_each(|(name, wall)| missing.note(name, wall()));
    missing
}

fn no_new_privileges() -> Result<(), String> {
    set_no_new_privs(true).map_err(|error| error.to_string())
}

/// Drops all capabilities but these.
fn keep(kept: CapabilitySet) -> Result<(), String> {
    let now = capabilities(None).map_err(|error| error.to_string())?;
    let CapabilitySets { effective, permitted, inheritable } = now;
    if kept.contains(effective | permitted | inheritable) {
        return Ok(());
    }
    let fewer = CapabilitySets {
        effective: effective & kept,
        permitted: permitted & kept,
        inheritable: inheritable & kept,
    };
    set_capabilities(None, fewer).map_err(|error| error.to_string())
}

/// Forbids to open, make or connect to anything by name (Landlock). Open descriptors stay usable.
fn no_files() -> Result<(), String> {
    no_files_but(None)
}

/// As [`no_files`], but connections to this TCP port are allowed.
fn no_files_but(tcp_port: Option<u16>) -> Result<(), String> {
    let restrict = || {
        Ruleset::default()
            .handle_access(AccessFs::from_all(LANDLOCK))?
            .handle_access(AccessNet::from_all(LANDLOCK))?
            .create()?
            .add_rules(
                tcp_port
                    .map(|port| Ok::<_, landlock::RulesetError>(NetPort::new(port, AccessNet::ConnectTcp))),
            )?
            .restrict_self()
    };
    let status = restrict().map_err(|error: landlock::RulesetError| error.to_string())?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("not in this kernel".to_owned()),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

fn few_calls() -> Result<(), String> {
    let program = filter().map_err(|error| error.to_string())?;
    apply_filter(&program).map_err(|error| error.to_string())
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<_>> =
        WORKER_CALLS.iter().chain(OLDER_CALLS).map(|(_, number)| (*number, Vec::new())).collect();
    // A worker interrupts the driver of a VDUSE device by one ioctl; all others are refused.
    let inject = u64::from(linux::vduse::INJECT);
    let is_inject = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, inject)?;
    rules.insert(libc::SYS_ioctl, vec![SeccompRule::new(vec![is_inject])?]);
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, refused, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?.try_into()
}

#[cfg(test)]
mod tests;
