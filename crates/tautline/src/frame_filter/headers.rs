//! What a filter asks about, read once from a frame's first bytes. They are a guest's: whatever is cut short or makes
//! no sense is as if it were not there.

use std::net::IpAddr;

use etherparse::{LaxNetSlice, LaxSlicedPacket, LinkSlice, TransportSlice};

/// How many bytes of a frame are looked at: two tags, IPv6 with some extensions, ports.
pub const HEADER_BYTES: usize = 256;

/// A frame's headers; pairs are source and destination.
#[derive(Debug, Default)]
pub struct Headers {
    pub frame_bytes: usize,
    pub macs: Option<[[u8; 6]; 2]>,
    pub vlans: Vec<u16>,
    /// Of the innermost header.
    pub ether_type: Option<u16>,
    /// Of IP, or of ARP for IPv4.
    pub addresses: Option<[IpAddr; 2]>,
    /// That of the payload after extension headers.
    pub ip_protocol: Option<u8>,
    /// Of TCP and UDP; later fragments have none.
    pub ports: Option<[u16; 2]>,
}

impl Headers {
    /// Of a frame of `frame_bytes`, which begins with `start`.
    pub fn read(start: &[u8], frame_bytes: usize) -> Self {
        let mut headers = Headers { frame_bytes, ..Headers::default() };
        let Ok(packet) = LaxSlicedPacket::from_ethernet(start) else { return headers };
        if let Some(LinkSlice::Ethernet2(ethernet)) = &packet.link {
            headers.macs = Some([ethernet.source(), ethernet.destination()]);
        }
        headers.vlans = packet.vlan_ids().iter().map(|id| id.value()).collect();
        headers.ether_type = packet.ether_payload().map(|payload| payload.ether_type.0);
        headers.addresses = match &packet.net {
            Some(LaxNetSlice::Ipv4(ip)) => {
                Some([ip.header().source_addr().into(), ip.header().destination_addr().into()])
            }
            Some(LaxNetSlice::Ipv6(ip)) => {
                Some([ip.header().source_addr().into(), ip.header().destination_addr().into()])
            }
            Some(LaxNetSlice::Arp(arp)) => {
                ipv4(arp.sender_protocol_addr()).zip(ipv4(arp.target_protocol_addr())).map(Into::into)
            }
            None => None,
        };
        headers.ip_protocol = packet.ip_payload().map(|payload| payload.ip_number.0);
        headers.ports = match &packet.transport {
            Some(TransportSlice::Udp(udp)) => Some([udp.source_port(), udp.destination_port()]),
            Some(TransportSlice::Tcp(tcp)) => Some([tcp.source_port(), tcp.destination_port()]),
            _ => None,
        };
        headers
    }
}

fn ipv4(bytes: &[u8]) -> Option<IpAddr> {
    Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?))
}
