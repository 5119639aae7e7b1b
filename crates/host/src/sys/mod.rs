//! The system calls that no library wraps, each behind a function that is safe to call with any argument.

mod mapping;
pub mod xdp;

use std::ffi::{c_char, c_int, c_long, c_ulong};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;

pub use mapping::Mapping;

/// Sets this thread's scheduling policy and its priority.
pub fn set_scheduler(policy: c_int, priority: c_int) -> nix::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the kernel only reads the structure, which lives through the call.
    Errno::result(unsafe { libc::sched_setscheduler(0, policy, &parameters) }).map(drop)
}

/// This thread's scheduling policy and priority, as the kernel has them.
pub fn scheduler() -> nix::Result<(c_int, c_int)> {
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: no memory is involved.
    let policy = Errno::result(unsafe { libc::sched_getscheduler(0) })?;
    // SAFETY: the kernel writes the one structure, which lives through the call.
    Errno::result(unsafe { libc::sched_getparam(0, &mut parameters) })?;
    Ok((policy & !libc::SCHED_RESET_ON_FORK, parameters.sched_priority))
}

/// A descriptor that becomes readable when the process ends (Linux 5.3).
pub fn pidfd_open(pid: nix::unistd::Pid) -> nix::Result<OwnedFd> {
    // SAFETY: the arguments are numbers; the result is a new descriptor.
    owned_long(unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) })
}

/// The type of an ioctl's request differs between C libraries.
macro_rules! ioctl {
    ($fd:expr, $request:expr, $argument:expr) => {
        libc::ioctl($fd.as_fd().as_raw_fd(), $request as _, $argument)
    };
}

/// TUNSETIFF: makes an interface that lives as long as the descriptor, and gives its name.
pub fn tun_set_interface(tun: &File, name_pattern: &str, flags: c_int) -> nix::Result<String> {
    let mut request = interface_request(name_pattern)?;
    request.ifr_ifru.ifru_flags = flags as i16;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which lives through the call; other kinds of file
    // answer ENOTTY.
    Errno::result(unsafe { ioctl!(tun, libc::TUNSETIFF, &raw mut request) })?;
    let name: Vec<u8> = request.ifr_name.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    Ok(String::from_utf8_lossy(&name).into_owned())
}

/// Brings an interface of this network namespace up; `socket` is any socket of it.
pub fn interface_up(socket: &impl AsFd, name: &str) -> nix::Result<()> {
    let mut request = interface_request(name)?;
    // SAFETY: SIOCGIFFLAGS reads the name and writes the flags of one ifreq, which lives through the call.
    Errno::result(unsafe { ioctl!(socket, libc::SIOCGIFFLAGS, &raw mut request) })?;
    // SAFETY: the kernel has just filled in the union's flags; every bit pattern is a valid i16.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as i16;
    // SAFETY: SIOCSIFFLAGS reads one ifreq, which lives through the call.
    Errno::result(unsafe { ioctl!(socket, libc::SIOCSIFFLAGS, &raw mut request) }).map(drop)
}

fn interface_request(name: &str) -> nix::Result<libc::ifreq> {
    // SAFETY: ifreq is plain C data, for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(Errno::ENAMETOOLONG);
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as c_char; // signed or not, as the architecture has it
    }
    Ok(request)
}

/// VHOST_SET_OWNER: makes this process the owner, which starts the vhost worker.
pub fn vhost_set_owner(vhost: &File) -> nix::Result<()> {
    const VHOST_SET_OWNER: c_ulong = 0xAF01; // _IO(0xAF, 0x01)
    // SAFETY: the request takes no argument and touches no memory of this process.
    Errno::result(unsafe { ioctl!(vhost, VHOST_SET_OWNER, 0) }).map(drop)
}

/// KVM_GET_API_VERSION of `/dev/kvm`.
pub fn kvm_api_version(kvm: &File) -> nix::Result<c_int> {
    const KVM_GET_API_VERSION: c_ulong = 0xAE00; // _IO(0xAE, 0x00)
    // SAFETY: the request takes no argument and touches no memory of this process.
    Errno::result(unsafe { ioctl!(kvm, KVM_GET_API_VERSION, 0) })
}

/// KVM_CREATE_VM of `/dev/kvm`: a machine of the default type.
pub fn kvm_create_vm(kvm: &File) -> nix::Result<OwnedFd> {
    const KVM_CREATE_VM: c_ulong = 0xAE01; // _IO(0xAE, 0x01)
    // SAFETY: the argument is a number, the machine's type; the result is a new descriptor.
    owned(unsafe { ioctl!(kvm, KVM_CREATE_VM, 0) })
}

/// KVM_CREATE_VCPU of a machine: the CPU with the number 0.
pub fn kvm_create_vcpu(vm: &OwnedFd) -> nix::Result<OwnedFd> {
    const KVM_CREATE_VCPU: c_ulong = 0xAE41; // _IO(0xAE, 0x41)
    // SAFETY: the argument is a number, the CPU's; the result is a new descriptor.
    owned(unsafe { ioctl!(vm, KVM_CREATE_VCPU, 0) })
}

/// What perf_event_open(2) is to count: of this thread, on any CPU.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// PERF_TYPE_…
    pub kind: u32,
    /// What of that kind.
    pub config: u64,
    /// Leave out what happens in the kernel: an ordinary user must, from perf_event_paranoid 2 on.
    pub exclude_kernel: bool,
}

/// The first published size of `struct perf_event_attr`; kernels take every older size.
#[repr(C)]
#[derive(Default)]
struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// A counter that counts from now on; reading eight bytes gives the count.
pub fn perf_event_open(event: Event) -> nix::Result<File> {
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    const FLAG_FD_CLOEXEC: c_ulong = 1 << 3;
    let attributes = EventAttributes {
        kind: event.kind,
        size: size_of::<EventAttributes>() as u32,
        config: event.config,
        flags: if event.exclude_kernel { EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR } else { 0 },
        ..Default::default()
    };
    let (this_thread, any_cpu, no_group): (libc::pid_t, c_int, c_int) = (0, -1, -1);
    // SAFETY: the kernel reads `size` bytes of the attributes, which live through the call; counting
    // without a ring buffer writes to no memory of this process. The result is a new descriptor.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            this_thread,
            any_cpu,
            no_group,
            FLAG_FD_CLOEXEC,
        )
    };
    owned_long(fd).map(File::from)
}

fn owned(fd: c_int) -> nix::Result<OwnedFd> {
    owned_long(c_long::from(fd))
}

/// Takes a system call's new descriptor, or its error.
fn owned_long(fd: c_long) -> nix::Result<OwnedFd> {
    let fd = Errno::result(fd)?;
    // SAFETY: the callers pass the result of a call that makes a new descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}
