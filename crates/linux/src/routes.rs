//! The addresses and routes of an interface (rtnetlink(7), linux/rtnetlink.h).
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, sendto, socket_with,
};

use crate::generic_netlink::{Answer, answers, attributes, word};

const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
/// `NLM_F_REQUEST` and `NLM_F_DUMP`.
const DUMP: u16 = 0x301;
const DONE: u16 = 3;
const ERROR: u16 = 2;

/// Bytes of `ifaddrmsg` and `rtmsg`.
const ADDRESS_HEADER: usize = 8;
const ROUTE_HEADER: usize = 12;

const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const DESTINATION: u16 = 1;
const OUTPUT: u16 = 4;
const GATEWAY: u16 = 5;
const PRIORITY: u16 = 6;
const PREFERRED_SOURCE: u16 = 7;

/// The main table, and routes to one neighbour or network.
const MAIN: u8 = 254;
const UNICAST: u8 = 1;

/// Changes of links, and of the addresses and routes of both IP versions (`RTMGRP_*`).
const CHANGES: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

/// The most addresses or routes that are read.
const MOST: usize = 4096;

/// A route by one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceRoute {
    /// The destination; `None` for the default route of its IP version.
    pub network: Option<IpAddr>,
    /// The length of the destination's prefix.
    pub bits: u8,
    /// Whether this is a route of IPv6.
    pub is_v6: bool,
    /// The next hop, unless the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// The preferred source address.
    pub source: Option<IpAddr>,
    /// The metric; lower values come first.
    pub metric: u32,
}

/// Becomes readable when the addresses or routes of some interface change.
#[derive(Debug)]
pub struct RouteChanges(OwnedFd);

impl RouteChanges {
    /// Listens from now on.
    ///
    /// # Errors
    /// The kernel refuses the socket.
    pub fn listen() -> io::Result<Self> {
        let socket = open(SocketFlags::NONBLOCK)?;
        bind(&socket, &SocketAddrNetlink::new(0, CHANGES))?;
        Ok(RouteChanges(socket))
    }

    /// Discards all messages. Returns true if there was one.
    pub fn clear(&self) -> bool {
        let mut bytes = [0; 4096];
        let mut any = false;
        loop {
            match recv(&self.0, &mut bytes[..], RecvFlags::TRUNC) {
                // Messages were lost: something has changed.
                Ok(_) | Err(Errno::NOBUFS | Errno::INTR) => any = true,
                Err(_) => return any,
            }
        }
    }
}

impl AsFd for RouteChanges {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn open(flags: SocketFlags) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | flags;
    // No protocol is `NETLINK_ROUTE`.
    Ok(socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?)
}

/// All objects of a kind: `read` makes a value of the payload of a message.
fn dump<T>(get: u16, new: u16, header: usize, read: impl Fn(&[u8]) -> Option<T>) -> io::Result<Vec<T>> {
    let socket = open(SocketFlags::empty())?;
    let mut message = vec![0; 16 + header];
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message[4..6].copy_from_slice(&get.to_ne_bytes());
    message[6..8].copy_from_slice(&DUMP.to_ne_bytes());
    sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let (mut found, mut bytes) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let (received, _) = recv(&socket, &mut bytes[..], RecvFlags::empty())?;
        for Answer { kind, payload, .. } in answers(&bytes[..received]) {
            match kind {
                DONE => return Ok(found),
                ERROR => return Err(io::Error::other("the kernel refuses to list them")),
                kind if kind == new && found.len() < MOST => found.extend(read(payload)),
                _ => {}
            }
        }
        if received == 0 || found.len() >= MOST {
            return Ok(found);
        }
    }
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?));
    v4().or_else(|| Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)))
}

fn number(bytes: &[u8]) -> Option<u32> {
    word(bytes, 0).map(u32::from_ne_bytes)
}

/// The addresses of the interface with this index.
///
/// # Errors
/// The kernel refuses to list them.
pub fn addresses(index: u32) -> io::Result<Vec<IpAddr>> {
    dump(GET_ADDRESS, NEW_ADDRESS, ADDRESS_HEADER, |payload| address(payload, index))
}

fn address(payload: &[u8], index: u32) -> Option<IpAddr> {
    let rest = payload.get(ADDRESS_HEADER..).filter(|_| number(&payload[4..]) == Some(index))?;
    // The local address of a point-to-point link differs from the other end's.
    let of = |wanted| attributes(rest).find(|(kind, _)| *kind == wanted).and_then(|(_, bytes)| ip(bytes));
    of(LOCAL).or_else(|| of(ADDRESS))
}

/// The routes of the main table by the interface with this index.
///
/// # Errors
/// The kernel refuses to list them.
pub fn routes(index: u32) -> io::Result<Vec<InterfaceRoute>> {
    dump(GET_ROUTE, NEW_ROUTE, ROUTE_HEADER, |payload| route(payload, index))
}

fn route(payload: &[u8], index: u32) -> Option<InterfaceRoute> {
    let rest = payload.get(ROUTE_HEADER..)?;
    let [family, bits, _, _, table, _, _, kind] = *payload.first_chunk::<8>()?;
    if (table, kind) != (MAIN, UNICAST) {
        return None;
    }
    let is_v6 = i32::from(family) == libc::AF_INET6;
    let mut found = InterfaceRoute { network: None, bits, is_v6, gateway: None, source: None, metric: 0 };
    let mut is_here = false;
    for (kind, bytes) in attributes(rest) {
        match kind {
            DESTINATION => found.network = ip(bytes),
            OUTPUT => is_here = number(bytes) == Some(index),
            GATEWAY => found.gateway = ip(bytes),
            PREFERRED_SOURCE => found.source = ip(bytes),
            PRIORITY => found.metric = number(bytes).unwrap_or(0),
            _ => {}
        }
    }
    is_here.then_some(found)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// The loopback interface has an address in every namespace where it is up.
    #[test]
    fn an_address_of_the_loopback_interface_is_found() {
        let index = crate::interface::Interface::named("lo").and_then(|lo| lo.index());
        let Ok(index) = index else { return };
        // A sandbox may refuse such sockets, and a namespace may have the interface down.
        if let Ok(found) = addresses(index)
            && !found.is_empty()
        {
            assert!(found.contains(&Ipv4Addr::LOCALHOST.into()), "{found:?}");
        }
    }

    #[test]
    fn a_route_is_read_and_malformed_ones_are_left_out() {
        let mut message = vec![2, 24, 0, 0, MAIN, 0, 0, UNICAST, 0, 0, 0, 0];
        for (kind, bytes) in [(DESTINATION, [10, 0, 0, 0]), (OUTPUT, 7u32.to_ne_bytes())] {
            message.extend(8u16.to_ne_bytes());
            message.extend(kind.to_ne_bytes());
            message.extend(bytes);
        }
        let found = route(&message, 7).unwrap();
        assert_eq!((found.network, found.bits), (Some([10, 0, 0, 0].into()), 24));
        assert_eq!(route(&message, 8), None);
        (0..message.len()).for_each(|bytes| _ = route(&message[..bytes], 7));
        (0..message.len()).for_each(|bytes| _ = address(&message[..bytes], 7));
    }
}
