//! An interface's own settings, by the calls of netdevice(7): what else `ip` would be needed for.
#![allow(unsafe_code)]

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use virtio::net::MacAddress;

use super::options::Prefix;
use super::sys::Name;

/// One interface, and a socket to ask through: any of the same network namespace will do.
pub(super) struct Interface {
    name: Name,
    v4: UdpSocket,
}

impl Interface {
    /// Touches nothing yet.
    pub fn new(name: Name) -> io::Result<Self> {
        Ok(Interface { name, v4: UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))? })
    }

    /// Asks for something about the interface.
    ///
    /// # Safety
    /// `call` must be one of netdevice(7) that reads or writes one `ifreq` and nothing else.
    unsafe fn ask(&self, call: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: the request is live, and the caller promises that the call takes no more.
        Ok(Errno::result(unsafe { libc::ioctl(self.v4.as_raw_fd(), call as libc::Ioctl, request) })
            .map(drop)?)
    }

    /// The longest IP packet in bytes.
    pub fn set_mtu(&self, bytes: u32) -> io::Result<()> {
        let mut request = self.name.request();
        request.ifr_ifru.ifru_mtu = bytes as libc::c_int;
        // SAFETY: SIOCSIFMTU reads one `ifreq`.
        unsafe { self.ask(libc::SIOCSIFMTU, &mut request) }
    }

    /// The kernel's own address on this wire.
    pub fn set_mac(&self, address: MacAddress) -> io::Result<()> {
        let mut request = self.name.request();
        let mut bytes = [0; 14];
        for (to, from) in bytes.iter_mut().zip(address.0) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_hwaddr = libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: bytes };
        // SAFETY: SIOCSIFHWADDR reads one `ifreq`.
        unsafe { self.ask(libc::SIOCSIFHWADDR, &mut request) }
    }

    /// Takes the interface up.
    pub fn set_up(&self) -> io::Result<()> {
        let mut request = self.name.request();
        // SAFETY: SIOCGIFFLAGS fills in one `ifreq`.
        unsafe { self.ask(libc::SIOCGIFFLAGS, &mut request) }?;
        // SAFETY: the call filled in this member of the union.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
        // SAFETY: SIOCSIFFLAGS reads one `ifreq`.
        unsafe { self.ask(libc::SIOCSIFFLAGS, &mut request) }
    }

    /// Gives the kernel an IP address on this wire.
    pub fn set_address(&self, prefix: Prefix) -> io::Result<()> {
        match prefix.address {
            IpAddr::V4(address) => self.set_v4(address, prefix.bits),
            IpAddr::V6(address) => self.set_v6(address, prefix.bits),
        }
    }

    fn set_v4(&self, address: Ipv4Addr, bits: u8) -> io::Result<()> {
        let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
        for (call, address) in [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, mask.into())] {
            let mut request = self.name.request();
            // `sockaddr_in` behind its family: the port, then the address.
            let mut bytes = [0; 14];
            for (to, from) in bytes[2..6].iter_mut().zip(address.octets()) {
                *to = from as libc::c_char;
            }
            request.ifr_ifru.ifru_addr =
                libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: bytes };
            // SAFETY: both calls read one `ifreq`.
            unsafe { self.ask(call, &mut request) }?;
        }
        Ok(())
    }

    fn set_v6(&self, address: Ipv6Addr, bits: u8) -> io::Result<()> {
        let mut request = self.name.request();
        // SAFETY: SIOCGIFINDEX fills in one `ifreq`.
        unsafe { self.ask(libc::SIOCGIFINDEX, &mut request) }?;
        // SAFETY: the call filled in this member of the union.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        let ifr6_addr = libc::in6_addr { s6_addr: address.octets() };
        let request = libc::in6_ifreq { ifr6_addr, ifr6_prefixlen: u32::from(bits), ifr6_ifindex: index };
        let v6 = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
        // SAFETY: on an IPv6 socket SIOCSIFADDR reads one `in6_ifreq` (ipv6(7)), which is live.
        Ok(Errno::result(unsafe { libc::ioctl(v6.as_raw_fd(), libc::SIOCSIFADDR as libc::Ioctl, &request) })
            .map(drop)?)
    }
}
