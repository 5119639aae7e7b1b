//! What the tests ask of the kernel's sockets and rustix does not have.
#![allow(unsafe_code)]
#![allow(dead_code, reason = "each test file uses its part")]

use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, eth, socket_with};

/// All frames of one interface.
struct Interface(libc::sockaddr_ll);

// SAFETY: what is passed on is a whole `sockaddr_ll` and its size.
unsafe impl SocketAddrArg for Interface {
    unsafe fn with_sockaddr<R>(&self, f: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R) -> R {
        f((&raw const self.0).cast(), size_of::<libc::sockaddr_ll>() as SocketAddrLen)
    }
}

/// A socket for all frames of an interface, as they are on the wire.
pub fn packet_socket(interface: &str) -> OwnedFd {
    let socket =
        socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, Some(eth::ALL)).unwrap();
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: name_to_index(&socket, interface).unwrap().cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    bind(&socket, &Interface(address)).unwrap();
    socket
}

/// Lets the kernel cut what is sent at once into datagrams of so many bytes (`UDP_SEGMENT`).
pub fn cut_datagrams(socket: &UdpSocket, bytes: i32) {
    let (value, length) = ((&raw const bytes).cast(), size_of::<i32>() as u32);
    // SAFETY: the value is a live integer of the length that is passed.
    let set =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, value, length) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}
