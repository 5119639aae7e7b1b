//! System calls for a TAP that no library wraps: tuntap.rst, netdevice(7), if_tun.h.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use memory::SharedSlice;
use rustix::io::Errno;
use rustix::ioctl::{Getter, IntegerSetter, Opcode, Setter, Updater, ioctl};

/// The most pieces of a frame that one call writes. A frame in more pieces is gathered first.
pub(super) const MAX_SLICES: usize = 62;

/// An interface's name as the kernel wants it, terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name([libc::c_char; libc::IFNAMSIZ]);

impl Name {
    /// `None` unless it has 1 to 15 bytes, none of them a slash, a colon or white space (`dev_valid_name`).
    pub fn new(name: &str) -> Option<Self> {
        let fits = (1..libc::IFNAMSIZ).contains(&name.len()) && name != "." && name != "..";
        let odd = |b: u8| matches!(b, b'/' | b':' | 0) || b.is_ascii_whitespace();
        if !fits || name.bytes().any(odd) {
            return None;
        }
        let mut bytes = [0; libc::IFNAMSIZ];
        for (to, from) in bytes.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        Some(Name(bytes))
    }

    fn of(bytes: [libc::c_char; libc::IFNAMSIZ]) -> String {
        let text: Vec<u8> = bytes.iter().take_while(|b| **b != 0).map(|b| *b as u8).collect();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// A request for this interface, with all other fields 0.
    pub fn request(self) -> libc::ifreq {
        // SAFETY: all zeros is a valid `ifreq`: integers, bytes and a union of such.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_name = self.0;
        request
    }
}

/// Attaches a descriptor of `/dev/net/tun` to an interface. The interface is made if it does not exist.
pub(super) fn set_interface(fd: BorrowedFd<'_>, name: Name, flags: libc::c_int) -> io::Result<()> {
    let mut request = name.request();
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which is live.
    Ok(unsafe { ioctl(fd, Updater::<{ libc::TUNSETIFF as Opcode }, _>::new(&mut request)) }?)
}

/// The interface's name, and the flags it was opened with.
pub(super) fn interface(fd: BorrowedFd<'_>) -> io::Result<(String, libc::c_int)> {
    // SAFETY: TUNGETIFF writes one whole `ifreq`.
    let request = unsafe { ioctl(fd, Getter::<{ libc::TUNGETIFF as Opcode }, libc::ifreq>::new()) }?;
    // SAFETY: the call filled in this member of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok((Name::of(request.ifr_name), libc::c_int::from(flags as u16)))
}

/// Sets how many bytes of net header precede each frame.
pub(super) fn set_header_bytes(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    // SAFETY: TUNSETVNETHDRSZ reads one `int`.
    let set = unsafe { Setter::<{ libc::TUNSETVNETHDRSZ as Opcode }, _>::new(bytes as libc::c_int) };
    // SAFETY: as above.
    Ok(unsafe { ioctl(fd, set) }?)
}

/// Sets which offloads (`TUN_F_*`) frames from the kernel may carry.
pub(super) fn set_offloads(fd: BorrowedFd<'_>, offloads: libc::c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes a number in place of a pointer.
    let set = unsafe { IntegerSetter::<{ libc::TUNSETOFFLOAD as Opcode }>::new_usize(offloads as usize) };
    // SAFETY: as above.
    Ok(unsafe { ioctl(fd, set) }?)
}

/// A duplicate of a descriptor that another program has opened for this process under this number.
pub(super) fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(Errno::BADF.into());
    }
    // SAFETY: the number is not -1, and it is borrowed for one call, which fails if it is not open.
    unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()
}

/// Reads one frame and returns its bytes, net header included.
#[inline]
pub(super) fn read(fd: BorrowedFd<'_>, into: SharedSlice<'_>) -> Result<usize, Errno> {
    // SAFETY: the slice is that long and stays mapped; no Rust reference to its bytes exists.
    let read = unsafe { libc::read(fd.as_raw_fd(), into.as_ptr().cast(), into.len_bytes()) };
    result(read)
}

/// Writes one frame: its first bytes from `front`, the rest from `rest`. The caller must not pass more than
/// [`MAX_SLICES`] slices.
#[inline]
pub(super) fn write<'a>(
    fd: BorrowedFd<'_>,
    front: &[&[u8]; 2],
    rest: impl Iterator<Item = SharedSlice<'a>>,
) -> Result<usize, Errno> {
    let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut vectors = [nothing; MAX_SLICES + 2];
    let mut count = 0;
    let front = front.iter().map(|b| (b.as_ptr().cast_mut(), b.len()));
    let all = front.chain(rest.map(|slice| (slice.as_ptr(), slice.len_bytes())));
    for (vector, (start, bytes)) in vectors.iter_mut().zip(all) {
        *vector = libc::iovec { iov_base: start.cast(), iov_len: bytes };
        count += 1;
    }
    // SAFETY: `count` vectors are filled in; each is bytes that are borrowed for this call, ours or of a
    // mapping that the slice's lifetime keeps. The kernel only reads them, through its own checked copies,
    // so what a peer writes meanwhile, or takes away, can at worst make the call fail.
    let written = unsafe { libc::writev(fd.as_raw_fd(), vectors.as_ptr(), count) };
    result(written)
}

/// The bytes that went through, or the error.
#[inline]
fn result(bytes: isize) -> Result<usize, Errno> {
    let error = |_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO);
    usize::try_from(bytes).map_err(error)
}
