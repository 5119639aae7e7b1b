//! The loopback interface.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use nix::errno::Errno;

/// Brings `lo` up where it is down (netdevice(7), SIOCSIFFLAGS). The kernel gives it 127.0.0.1 itself.
pub(crate) fn bring_loopback_up() -> nix::Result<()> {
    let any =
        UdpSocket::bind("0.0.0.0:0").map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))?;
    // SAFETY: all zeros is a valid `ifreq`: integers, bytes and a union of such.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(*b"lo") {
        *to = from as libc::c_char;
    }
    // SAFETY: the request is a live `ifreq` with a terminated name; the kernel fills in its flags.
    Errno::result(unsafe { libc::ioctl(any.as_raw_fd(), libc::SIOCGIFFLAGS, &mut request) })?;
    // SAFETY: the call before filled in this member of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    let up = libc::IFF_UP as libc::c_short;
    if flags & up == up {
        return Ok(());
    }
    request.ifr_ifru.ifru_flags = flags | up;
    // SAFETY: as for the first call; the kernel only reads.
    Errno::result(unsafe { libc::ioctl(any.as_raw_fd(), libc::SIOCSIFFLAGS, &request) }).map(drop)
}
