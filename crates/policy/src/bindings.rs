//! Bindings of IP addresses to ports: a frame of a bound port names no address of another host.
//!
//! A bound port's frames pass table 5 before all others. `reg0` says that a frame has passed.
use std::net::Ipv6Addr;

use toml::Spanned;
use virtio::net::MacAddress;

use crate::mistake::Wrong;
use crate::port::Port;
use crate::rules::Flows;
use crate::values::{Version, prefix};

/// What a frame gets whose addresses are the port's.
const PASS: &str = "load:1->NXM_NX_REG0[],resubmit(,0)";

/// The interface identifier of an Ethernet address, as link-local address (RFC 4291 §2.5.6 and appendix A).
fn link_local(address: MacAddress) -> String {
    let [a, b, c, d, e, f] = address.0;
    let [a, b, c, d] = [word(a ^ 2, b), word(c, 0xff), word(0xfe, d), word(e, f)];
    Ipv6Addr::new(0xfe80, 0, 0, 0, a, b, c, d).to_string()
}

fn word(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high, low])
}

/// The flows that bind addresses to a port. With these, the port sends: IP packets, ARP and neighbor discovery of these
/// addresses and of its own Ethernet addresses; requests of DHCP; and what a host sends before it has an address
/// (RFC 4862 §5.4, RFC 5227 §2.1).
pub fn bind(port: &Port, addresses: &[Spanned<String>], flows: &mut Flows) -> Result<(), Wrong> {
    let of = format!("in_port={}", port.number);
    flows.add(&format!("table=0,priority=60,{of},reg0=0 actions=resubmit(,5)"));
    let dhcp = "nw_src=0.0.0.0,nw_dst=255.255.255.255,udp_src=68,udp_dst=67";
    flows.add(&format!("table=5,priority=10,{of},udp,{dhcp} actions={PASS}"));
    let (mut four, mut six) = (vec!["0.0.0.0".to_owned()], Vec::new());
    for address in addresses {
        let prefix = prefix(address)?;
        match prefix.version {
            Version::V4 => four.push(prefix.text),
            Version::V6 => six.push(prefix.text),
        }
    }
    six.extend(port.addresses.iter().map(|address| link_local(*address)));
    for address in &port.addresses {
        for own in &four {
            flows
                .add(&format!("table=5,priority=20,{of},arp,arp_sha={address},arp_spa={own} actions={PASS}"));
        }
    }
    for own in &four[1..] {
        flows.add(&format!("table=5,priority=10,{of},ip,nw_src={own} actions={PASS}"));
    }
    // Neighbor discovery: the addresses in its options, and then the source.
    let options = || port.addresses.iter().map(ToString::to_string).chain(["00:00:00:00:00:00".to_owned()]);
    for option in options() {
        flows.add(&format!(
            "table=5,priority=30,{of},icmp6,icmp_type=135,icmp_code=0,nd_sll={option} actions=resubmit(,6)"
        ));
        for own in &six {
            flows.add(&format!(
                "table=5,priority=30,{of},icmp6,icmp_type=136,icmp_code=0,nd_target={own},nd_tll={option} actions=resubmit(,6)"
            ));
        }
    }
    for kind in [135, 136] {
        flows.add(&format!("table=5,priority=20,{of},icmp6,icmp_type={kind} actions=drop"));
    }
    for (table, kind) in [(6, 135), (5, 133)] {
        flows.add(&format!(
            "table={table},priority=10,{of},icmp6,icmp_type={kind},ipv6_src=:: actions={PASS}"
        ));
    }
    for own in &six {
        flows.add(&format!("table=5,priority=10,{of},ipv6,ipv6_src={own} actions={PASS}"));
        flows.add(&format!("table=6,priority=10,{of},ipv6,ipv6_src={own} actions={PASS}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_local_address_has_the_bits_of_the_ethernet_address() {
        assert_eq!(link_local(MacAddress([2, 0x11, 0x22, 0x33, 0x44, 5])), "fe80::11:22ff:fe33:4405");
        assert_eq!(link_local(MacAddress([0xfc, 1, 2, 3, 4, 5])), "fe80::fe01:2ff:fe03:405");
    }
}
