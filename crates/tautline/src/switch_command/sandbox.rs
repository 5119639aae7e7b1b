//! What a switch gives up once it runs.
//!
//! A worker reads what guests write, so it keeps least: no capability, no file to open, and only the system calls
//! that moving frames takes. The control thread opens what ports need, also those that are added later; it keeps the
//! capabilities that some kind of port uses, and no new ones. docs/threat-model.md has the whole picture.
use std::collections::BTreeMap;
use std::io;

use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetStatus};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

/// What some kind of port may need: interfaces, packet sockets, XDP programs, sockets in other users' folders, huge
/// pages, and the limit of open files.
const CONTROL_KEEPS: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_RESOURCE);

/// The newest that this was written for; older kernels do what they can.
const LANDLOCK: ABI = ABI::V5;

/// System calls of a worker; all others are refused (EPERM).
const WORKER_CALLS: &[libc::c_long] = &[
    // Frames: TAPs and recordings.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_ftruncate,
    libc::SYS_lseek,
    // Telling an AF_XDP socket to look at its rings: messages without bytes, on sockets that are open.
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    // Sleeping, and waking others.
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_epoll_ctl,
    libc::SYS_ppoll,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_restart_syscall,
    // Calls that must not block: the kernel's AIO, and writes with a timer.
    libc::SYS_io_setup,
    libc::SYS_io_submit,
    libc::SYS_io_getevents,
    libc::SYS_io_destroy,
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_delete,
    // When the next frame of a recording is due.
    libc::SYS_timerfd_settime,
    libc::SYS_gettid,
    libc::SYS_getpid,
    // Memory, what is dropped, and pages that a guest has taken away (SIGBUS).
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_close,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_getrandom,
    // The end, in order or by a panic that cannot be caught.
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Older calls, which are not on every architecture.
#[cfg(target_arch = "x86_64")]
const OLDER_CALLS: &[libc::c_long] = &[libc::SYS_epoll_wait, libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const OLDER_CALLS: &[libc::c_long] = &[];

/// What the kernel would not do, in words.
#[derive(Debug, Default)]
struct Missing(Vec<String>);

impl Missing {
    fn note(&mut self, what: &str, result: Result<(), String>) {
        if let Err(why) = result {
            self.0.push(format!("{what} ({why})"));
        }
    }
}

/// Narrows the control thread; finds out what workers cannot be made to give up here, and says so.
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

/// Narrows the worker that calls this. What is missing was said at the start.
pub fn confine_worker() -> io::Result<()> {
    confine_writer();
    Ok(())
}

/// The same for a thread that writes to what is open.
pub fn confine_writer() {
    let _ = confine();
}

/// Its name, and what puts it up.
type Wall = (&'static str, fn() -> Result<(), String>);

/// Of a worker. Seccomp is last, for it forbids the calls of the others; it and Landlock set no_new_privs.
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

/// Nothing can be opened, made or connected to by name; what is open stays so.
fn no_files() -> Result<(), String> {
    let restrict = || {
        Ruleset::default()
            .handle_access(AccessFs::from_all(LANDLOCK))?
            .handle_access(AccessNet::from_all(LANDLOCK))?
            .create()?
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
    let rules: BTreeMap<i64, Vec<_>> =
        WORKER_CALLS.iter().chain(OLDER_CALLS).map(|call| (*call, Vec::new())).collect();
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, refused, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confined_thread_opens_nothing_and_others_go_on() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_owned();
        let tried = std::thread::spawn(move || {
            let missing = confine();
            let opened = std::fs::File::open(&path).is_ok();
            let socket = std::os::unix::net::UnixDatagram::unbound().is_ok();
            // Memory and sleep are still to be had.
            let memory = vec![1u8; 8 << 20];
            std::thread::sleep(std::time::Duration::from_millis(1));
            (missing.0, opened, socket, memory.len())
        });
        let (missing, opened, socket, memory) = tried.join().unwrap();
        assert_eq!((opened, socket, memory), (false, false, 8 << 20), "not confined: {missing:?}");
        println!("not to be had here: {missing:?}");
        assert!(std::fs::File::open(file.path()).is_ok(), "other threads open files");
    }

    /// Behind seccomp, which refuses the same calls, it could not be seen.
    #[test]
    fn landlock_is_one_of_a_workers_walls() {
        let tried = std::thread::spawn(|| {
            let missing = put_up(&WALLS[..WALLS.len() - 1]);
            (missing.0, std::fs::File::open("/proc/self/status").is_ok())
        });
        let (missing, opened) = tried.join().unwrap();
        assert_eq!(missing.iter().any(|what| what.contains("Landlock")), opened, "{missing:?}");
    }

    #[test]
    fn each_wall_holds_by_itself() {
        let of = |wall: fn() -> Result<(), String>, try_it: fn() -> bool| {
            std::thread::spawn(move || (wall(), try_it())).join().unwrap()
        };
        let (set, opened) = of(no_files, || std::fs::File::open("/proc/self/status").is_ok());
        assert_eq!(set.is_err(), opened, "{set:?}");
        let (set, opened) = of(few_calls, || std::fs::File::open("/proc/self/status").is_ok());
        assert!(set.is_ok() && !opened, "{set:?}");
        let (set, has_some) =
            of(|| keep(CapabilitySet::empty()), || !capabilities(None).unwrap().permitted.is_empty());
        assert!(set.is_ok() && !has_some, "{set:?}");
    }
}
