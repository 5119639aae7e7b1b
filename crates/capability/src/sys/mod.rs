//! System calls that no library wraps, each in a function that is safe to call with any argument.

mod mapping;
pub mod xdp;

use std::ffi::{c_char, c_int, c_long, c_ulong, c_void};
use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::null_mut;

use rustix::io::{self, Errno};
use rustix::ioctl::{Ioctl, IoctlOutput, NoArg, Opcode, Updater, ioctl};
use rustix::process::Signal;

pub use mapping::Mapping;

/// TUNSETIFF: makes a TAP interface that lives as long as the descriptor, and returns its name. `%d` in the pattern
/// becomes a number.
///
/// # Errors
/// The name has 16 bytes or more (ENAMETOOLONG); or TUNSETIFF is refused: no CAP_NET_ADMIN, a name that is taken, or
/// a file that is not `/dev/net/tun`.
pub fn make_tap(tun: &File, name_pattern: &str) -> io::Result<String> {
    // SAFETY: ifreq is plain C data, for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name_pattern.len() >= request.ifr_name.len() {
        return Err(Errno::NAMETOOLONG);
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name_pattern.bytes()) {
        *to = from as c_char; // signed or not, as the architecture has it
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as i16;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which lives through the call; other kinds of file
    // answer ENOTTY.
    unsafe { ioctl(tun, Updater::<{ libc::TUNSETIFF as Opcode }, _>::new(&mut request)) }?;
    let name: Vec<u8> = request.ifr_name.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    Ok(String::from_utf8_lossy(&name).into_owned())
}

/// VHOST_SET_OWNER: makes this process the owner, which starts the vhost worker.
///
/// # Errors
/// The ioctl is refused: the descriptor already has an owner (EBUSY), the worker cannot be started, or the file is no
/// vhost device (ENOTTY).
pub fn vhost_set_owner(vhost: &File) -> io::Result<()> {
    const VHOST_SET_OWNER: Opcode = 0xAF01; // _IO(0xAF, 0x01)
    // SAFETY: the request takes no argument and touches no memory of this process.
    unsafe { ioctl(vhost, NoArg::<VHOST_SET_OWNER>::new()) }
}

/// An ioctl that takes the number 0 and answers with one.
struct Numbers<const OPCODE: Opcode>;

// SAFETY: no memory is involved.
unsafe impl<const OPCODE: Opcode> Ioctl for Numbers<OPCODE> {
    type Output = c_int;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        OPCODE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        null_mut()
    }

    // SAFETY: safe for any arguments.
    unsafe fn output_from_ptr(number: IoctlOutput, _: *mut c_void) -> io::Result<c_int> {
        Ok(number)
    }
}

/// KVM_GET_API_VERSION of `/dev/kvm`.
///
/// # Errors
/// The file is not `/dev/kvm` (ENOTTY).
pub fn kvm_api_version(kvm: &File) -> io::Result<c_int> {
    // SAFETY: _IO(0xAE, 0x00) takes no argument and touches no memory of this process.
    unsafe { ioctl(kvm, Numbers::<0xAE00>) }
}

/// KVM_CREATE_VM of `/dev/kvm`: a machine of the default type.
///
/// # Errors
/// The ioctl is refused: no virtualization in hardware, too little memory or too many open files; or the file is not
/// `/dev/kvm`.
pub fn kvm_create_vm(kvm: &File) -> io::Result<OwnedFd> {
    // SAFETY: the argument of _IO(0xAE, 0x01) is a number, the machine's type; the result is a new descriptor.
    owned(c_long::from(unsafe { ioctl(kvm, Numbers::<0xAE01>) }?))
}

/// KVM_CREATE_VCPU of a machine: the vCPU with the number 0.
///
/// # Errors
/// The ioctl is refused: the VM already has a vCPU 0, or there is too little memory; or the descriptor is no VM.
pub fn kvm_create_vcpu(vm: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: the argument of _IO(0xAE, 0x41) is a number, the CPU's; the result is a new descriptor.
    owned(c_long::from(unsafe { ioctl(vm, Numbers::<0xAE41>) }?))
}

/// Unblocks a signal for this thread, or blocks it so that it stays pending.
pub fn hold(signal: Signal, held: bool) {
    // SAFETY: all zeroes is a valid set of signals.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    let how = if held { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    // SAFETY: both calls touch this one set, which lives through them.
    unsafe {
        libc::sigaddset(&raw mut set, signal.as_raw());
        libc::pthread_sigmask(how, &raw const set, null_mut());
    }
}

/// The event that perf_event_open(2) is to count, for this thread on any CPU.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The kind of event: a PERF_TYPE constant of linux/perf_event.h.
    pub kind: u32,
    /// The event's number within that kind.
    pub config: u64,
    /// Whether events in the kernel are left out; with perf_event_paranoid 2 or higher an ordinary user must leave
    /// them out.
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

/// perf_event_open(2): opens a counter of this thread, which counts from now on. Reading eight bytes gives the count.
///
/// # Errors
/// The kernel refuses the event: perf_event_paranoid or seccomp forbids it (EACCES, EPERM), no counter has it
/// (ENOENT), or the kernel is built without CONFIG_PERF_EVENTS (ENOSYS).
pub fn perf_event_open(event: Event) -> io::Result<File> {
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
    owned(fd).map(File::from)
}

/// The value that a raw system call returned, or its error.
fn result(returned: c_long) -> io::Result<c_long> {
    let error = || Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL);
    if returned < 0 { Err(error()) } else { Ok(returned) }
}

/// Takes a system call's new descriptor, or its error.
fn owned(fd: c_long) -> io::Result<OwnedFd> {
    let fd = result(fd)?;
    // SAFETY: the callers pass the result of a call that makes a new descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}
