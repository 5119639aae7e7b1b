use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::LazyLock;

use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{PidfdFlags, Resource, Rlimit, getpid};
use rustix::thread::{LinkNameSpaceType, Uid};

use super::*;

/// The page's list of calls, between its mark and the next heading.
fn stated() -> BTreeSet<String> {
    let page = include_str!("../../../../docs/threat-model.md");
    let (_, list) = page.split_once("<!-- a worker's system calls -->").expect("the list's mark");
    let list = list.split("<!-- end -->").next().unwrap();
    list.split('`').skip(1).step_by(2).map(|name| format!("SYS_{name}")).collect()
}

#[test]
fn a_workers_system_calls_are_those_that_the_threat_model_lists() {
    let of = |calls: &[Call]| calls.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>();
    let mut allowed = of(WORKER_CALLS);
    // The page lists the calls of x86-64; other architectures have no number for these.
    allowed.extend(["SYS_epoll_wait".to_owned(), "SYS_poll".to_owned()]);
    let names: BTreeSet<_> = allowed.iter().cloned().collect();
    assert_eq!(names.len(), allowed.len(), "a call is listed twice");
    assert!(of(OLDER_CALLS).iter().all(|name| names.contains(name)));
    assert_eq!(names, stated());
}

/// A system call, and an attempt at it that would succeed, or fail otherwise than by EPERM, in a thread without a
/// filter.
type Attempt = (&'static str, fn() -> rustix::io::Result<()>);

const FORBIDDEN: &[Attempt] = &[
    ("openat", || rustix::fs::open("/proc/self/status", OFlags::RDONLY, Mode::empty()).map(drop)),
    ("openat of a directory", || rustix::fs::open("/", OFlags::PATH, Mode::empty()).map(drop)),
    ("unlinkat", || rustix::fs::unlink("/nowhere/at/all")),
    ("renameat", || rustix::fs::rename("/nowhere/at/all", "/nowhere/else")),
    ("mkdirat", || rustix::fs::mkdir("/nowhere/at/all", Mode::RWXU)),
    ("fchmodat", || rustix::fs::chmod("/nowhere/at/all", Mode::RWXU)),
    ("statx or fstatat", || rustix::fs::stat("/").map(drop)),
    ("memfd_create", || rustix::fs::memfd_create("forbidden", MemfdFlags::CLOEXEC).map(drop)),
    ("inotify_init1", || rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::empty()).map(drop)),
    ("umount2", || rustix::mount::unmount("/nowhere/at/all", rustix::mount::UnmountFlags::empty())),
    ("chroot", || rustix::process::chroot("/nowhere/at/all")),
    ("socket", || rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).map(drop)),
    ("socketpair", || raw(UnixDatagram::pair().map(drop))),
    ("bind", || rustix::net::bind(rustix::stdio::stdin(), &somewhere())),
    ("connect", || rustix::net::connect(rustix::stdio::stdin(), &somewhere())),
    ("listen", || rustix::net::listen(rustix::stdio::stdin(), 1)),
    ("accept4", || rustix::net::accept(rustix::stdio::stdin()).map(drop)),
    ("eventfd2", || rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).map(drop)),
    ("epoll_create1", || rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).map(drop)),
    ("fcntl", || rustix::io::fcntl_getfd(rustix::stdio::stdin()).map(drop)),
    ("dup", || rustix::io::dup(rustix::stdio::stdin()).map(drop)),
    ("ioctl", || rustix::io::ioctl_fionread(rustix::stdio::stdin()).map(drop)),
    ("clone for a program", || raw(Command::new("/bin/true").status().map(drop))),
    ("clone3 for a thread", || raw(std::thread::Builder::new().spawn(|| ()).map(drop))),
    ("kill", || rustix::process::test_kill_process(getpid())),
    ("pidfd_open", || rustix::process::pidfd_open(getpid(), PidfdFlags::empty()).map(drop)),
    ("prctl", || rustix::thread::set_name(c"forbidden")),
    ("setresuid", || rustix::thread::set_thread_res_uid(*OWN_USER, *OWN_USER, *OWN_USER)),
    ("capget", || capabilities(None).map(drop)),
    ("setns", || {
        let kind = Some(LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(rustix::stdio::stdin(), kind)
    }),
    ("sched_getaffinity", || rustix::thread::sched_getaffinity(None).map(drop)),
    ("prlimit64", || rustix::process::setrlimit(Resource::Core, *OWN_LIMIT)),
];

fn raw(result: io::Result<()>) -> rustix::io::Result<()> {
    result.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

fn somewhere() -> rustix::net::SocketAddrUnix {
    rustix::net::SocketAddrUnix::new("/nowhere/at/all").unwrap()
}

// Both are read before the filter is there, which refuses these calls too.
static OWN_USER: LazyLock<Uid> = LazyLock::new(rustix::process::getuid);
static OWN_LIMIT: LazyLock<Rlimit> = LazyLock::new(|| rustix::process::getrlimit(Resource::Core));

#[test]
fn a_confined_thread_makes_no_other_call() {
    let attempt = |(name, call): &Attempt| (*name, call());
    let before: Vec<_> = FORBIDDEN.iter().map(attempt).collect();
    let allowed_before: Vec<_> = before.iter().filter(|(_, result)| *result == Err(Errno::PERM)).collect();
    assert!(allowed_before.is_empty(), "refused without a filter too: {allowed_before:?}");
    let tried = std::thread::spawn(move || {
        few_calls().unwrap();
        FORBIDDEN.iter().map(attempt).collect::<Vec<_>>()
    });
    let passed: Vec<_> =
        tried.join().unwrap().into_iter().filter(|(_, result)| *result != Err(Errno::PERM)).collect();
    assert!(passed.is_empty(), "not refused by the filter: {passed:?}");
}

/// Standard input is no VDUSE device, so the kernel's own answer is another error.
#[test]
fn a_confined_thread_may_interrupt_the_driver_of_a_vduse_device() {
    let tried = std::thread::spawn(|| {
        few_calls().unwrap();
        let device = rustix::stdio::stdin().try_clone_to_owned().err().map(|error| error.kind());
        let inject = linux::vduse::Device::inject_into(rustix::stdio::stdin(), 0);
        (device, inject.unwrap_err().kind())
    });
    let (duplicated, injected) = tried.join().unwrap();
    assert_eq!(duplicated, Some(io::ErrorKind::PermissionDenied), "the filter is in force");
    assert_ne!(injected, io::ErrorKind::PermissionDenied);
}

#[test]
fn a_confined_thread_opens_nothing_and_others_go_on() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_owned();
    let tried = std::thread::spawn(move || {
        let missing = confine();
        let opened = File::open(&path).is_ok();
        let socket = UnixDatagram::unbound().is_ok();
        // Memory and sleep are still to be had.
        let memory = vec![1u8; 8 << 20];
        std::thread::sleep(std::time::Duration::from_millis(1));
        (missing.0, opened, socket, memory.len())
    });
    let (missing, opened, socket, memory) = tried.join().unwrap();
    assert_eq!((opened, socket, memory), (false, false, 8 << 20));
    assert!(missing.is_empty(), "{NEEDS}: {missing:?}");
    assert!(File::open(file.path()).is_ok(), "other threads open files");
}

/// The requirement of the tests of confinement: without it they fail, because they would show nothing.
const NEEDS: &str = "this test needs a kernel with Landlock (5.13) and seccomp, and no filter around it";

/// Behind seccomp, which refuses the same calls, it could not be seen.
#[test]
fn landlock_is_one_of_a_workers_walls() {
    let tried = std::thread::spawn(|| {
        let missing = put_up(&WALLS[..WALLS.len() - 1]);
        (missing.0, File::open("/proc/self/status").is_ok())
    });
    let (missing, opened) = tried.join().unwrap();
    assert!(missing.is_empty(), "{NEEDS}: {missing:?}");
    assert!(!opened, "a file was opened");
}

#[test]
fn each_wall_holds_by_itself() {
    let of = |wall: fn() -> Result<(), String>, try_it: fn() -> bool| {
        std::thread::spawn(move || (wall(), try_it())).join().unwrap()
    };
    let opens = || File::open("/proc/self/status").is_ok();
    assert!(opens());
    for wall in [no_files, few_calls] {
        assert_eq!(of(wall, opens), (Ok(()), false), "{NEEDS}");
    }
    let (set, has_some) =
        of(|| keep(CapabilitySet::empty()), || !capabilities(None).unwrap().permitted.is_empty());
    assert_eq!((set, has_some), (Ok(()), false));
}

#[test]
fn a_companion_connects_to_its_tcp_port_and_no_other() {
    let listeners = [0; 2].map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [own, other] = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
    let connects = |port| {
        let confined = move || {
            confine_companion(port);
            [own, other].map(|address| std::net::TcpStream::connect(address).is_ok())
        };
        std::thread::spawn(confined).join().unwrap()
    };
    assert_eq!(connects(Some(own.port())), [true, false], "{NEEDS}, for TCP 6.7");
    assert_eq!(connects(None), [false, false]);
}
