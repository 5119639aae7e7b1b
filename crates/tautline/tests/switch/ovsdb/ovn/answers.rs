//! OVN's controller gets frames, and answers them or lets them continue.
use super::*;
use crate::flow_tables::datagrams::{ACK, RST, SYN, Tcp, icmp, transport_sum};

const UDP: u8 = 17;
const BROADCAST: [u8; 6] = [0xff; 6];
/// The address that OVN gives its servers.
const SERVER: [u8; 6] = [2, 0, 0, 0, 0, 0xee];

/// A frame from a station to any Ethernet address.
fn to(mac: [u8; 6], from: u8, datagram: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if datagram[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    [&mac[..], &[2, 0, 0, 0, 0, from], &kind, datagram].concat()
}

fn text(octets: &[u8]) -> String {
    match <[u8; 16]>::try_from(octets) {
        Ok(six) => std::net::Ipv6Addr::from(six).to_string(),
        Err(_) => std::net::Ipv4Addr::from(<[u8; 4]>::try_from(octets).unwrap()).to_string(),
    }
}

/// The transport header and payload of an answer, whose checksums are right, and its ends.
#[track_caller]
fn opened(frame: &[u8]) -> (Ends, &[u8]) {
    let (addresses, from, protocol) = match frame[12] {
        8 => (26..34, 34, frame[23]),
        _ => (22..54, 54, frame[20]),
    };
    let (source, destination) = frame[addresses.clone()].split_at(addresses.len() / 2);
    let length = match frame[12] {
        8 => usize::from(u16::from_be_bytes([frame[16], frame[17]])) - 20,
        _ => usize::from(u16::from_be_bytes([frame[18], frame[19]])),
    };
    let behind = &frame[from..from + length];
    let ports = [0, 2].map(|at| u16::from_be_bytes([behind[at], behind[at + 1]]));
    let ends = Ends::new(&text(source), &text(destination), ports);
    // UDP over IPv4 may come without a checksum (RFC 768).
    let is_summed = protocol != UDP || behind[6..8] != [0, 0] || ends.from.is_ipv6();
    assert!(!is_summed || transport_sum(ends, protocol, behind) == 0, "{ends:?}: {behind:?}");
    (ends, behind)
}

/// A message of BOOTP with options of DHCP (RFC 2131, RFC 2132) from station 1.
fn dhcp(options: &[u8]) -> Vec<u8> {
    let mut message = vec![1, 1, 6, 0, 0xca, 0xfe, 0xca, 0xfe, 0, 0, 0x80, 0];
    message.resize(28, 0);
    message.extend([2, 0, 0, 0, 0, 1]);
    message.resize(236, 0);
    message.extend([0x63, 0x82, 0x53, 0x63]);
    message.extend(options);
    message.push(0xff);
    let ends = Ends::new("0.0.0.0", "255.255.255.255", [68, 67]);
    to(BROADCAST, 1, &datagrams::udp(ends, &message))
}

impl Cloud {
    /// Creates a row, and returns its id.
    #[track_caller]
    fn create(&self, words: &[&str]) -> String {
        self.ovn.nbctl(&[&["create"], words].concat()).unwrap().trim().to_owned()
    }
}

#[test]
fn ovn_gives_addresses_by_dhcp() {
    let cloud = Cloud::new();
    cloud.nbctl(&["ls-add", "sw0"]);
    cloud.add(0, 1);
    cloud.nbctl(&["lsp-set-addresses", "vif1", "02:00:00:00:00:01 10.0.0.1 fd00::1"]);
    let options = r#"options="server_id"="10.0.0.254" "server_mac"="02:00:00:00:00:ee" "lease_time"="3600""#;
    let four = cloud.create(&["DHCP_Options", "cidr=10.0.0.0/24", options]);
    cloud.nbctl(&["lsp-set-dhcpv4-options", "vif1", &four]);
    let six =
        cloud.create(&["DHCP_Options", "cidr=\"fd00::/64\"", r#"options="server_id"="02:00:00:00:00:ee""#]);
    cloud.nbctl(&["lsp-set-dhcpv6-options", "vif1", &six]);
    let [mut one] = cloud.stations([1]);

    // Discovery and offer, request and acknowledgement.
    for (asked, options, answered) in [(1, &[][..], 2), (3, &[50, 4, 10, 0, 0, 1][..], 5)] {
        one.send(&dhcp(&[&[53, 1, asked], options].concat()));
        let answer = one.receive();
        let (ends, udp) = opened(&answer);
        assert_eq!((&answer[..6], &answer[6..12]), (&[2, 0, 0, 0, 0, 1][..], &SERVER[..]));
        assert_eq!((ends.from.to_string().as_str(), ends.ports), ("10.0.0.254", [67, 68]));
        assert_eq!(
            (udp[8], &udp[12..16], &udp[24..28]),
            (2, &[0xca, 0xfe, 0xca, 0xfe][..], &[10, 0, 0, 1][..])
        );
        assert_eq!(udp[8 + 240..8 + 243], [53, 1, answered]);
    }

    // Solicitation and advertisement (RFC 8415).
    let identity = [0, 1, 0, 10, 0, 3, 0, 1, 2, 0, 0, 0, 0, 1];
    let address = [0, 3, 0, 12, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0];
    let solicit = [&[1, 7, 8, 9][..], &identity, &address].concat();
    let ends = Ends::new("fe80::ff:fe00:1", "ff02::1:2", [546, 547]);
    one.send(&to([0x33, 0x33, 0, 1, 0, 2], 1, &datagrams::udp(ends, &solicit)));
    let answer = one.receive();
    let (ends, udp) = opened(&answer);
    assert_eq!((ends.to.to_string().as_str(), ends.ports), ("fe80::ff:fe00:1", [547, 546]));
    let given = [&[0xfd][..], &[0; 14], &[1]].concat();
    assert_eq!(udp[8..12], [2, 7, 8, 9]);
    assert!(udp[12..].windows(16).any(|address| address == given), "{udp:?}");
    cloud.scene.switch.end();
}

#[test]
fn ovn_answers_names_and_routers_advertise() {
    let cloud = Cloud::routed();
    let dns = cloud.create(&["DNS", r#"records={"vm1.example"="10.0.0.77"}"#]);
    cloud.nbctl(&["set", "Logical_Switch", "sw0", &format!("dns_records={dns}")]);
    cloud.nbctl(&["lrp-add", "lr0", "r6", "02:00:00:00:00:f6", "fd01::ff/64"]);
    cloud.nbctl(&["set", "Logical_Router_Port", "r6", "ipv6_ra_configs:address_mode=slaac"]);
    cloud.nbctl(&["ls-add", "sw6", "--", "lsp-add", "sw6", "s6", "--", "lsp-set-type", "s6", "router"]);
    cloud.nbctl(&["lsp-set-addresses", "s6", "router", "--", "lsp-set-options", "s6", "router-port=r6"]);
    cloud.nbctl(&["lsp-add", "sw6", "vif4", "--", "lsp-set-addresses", "vif4", "02:00:00:00:00:04"]);
    cloud
        .scene
        .vsctl("add-port br-int vif4 -- set Interface vif4 type=dpdkvhostuser external_ids:iface-id=vif4");
    let [mut one, mut four] = cloud.stations([1, 4]);

    // A name that OVN knows (RFC 1035), and one that goes on to the server.
    let question = |name: &str| {
        let labels = name.split('.').flat_map(|label| [&[label.len() as u8][..], label.as_bytes()].concat());
        [&[0, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &labels.collect::<Vec<_>>(), &[0, 0, 1, 0, 1]].concat()
    };
    let ends = Ends::new("10.0.0.1", "10.0.0.2", [5000, 53]);
    one.send(&framed(1, 2, &datagrams::udp(ends, &question("vm1.example"))));
    let answer = one.receive();
    let (back, udp) = opened(&answer);
    assert_eq!(back, ends.back());
    assert_eq!((&udp[8..10], udp[10] & 0x80, &udp[14..16]), (&[0, 9][..], 0x80, &[0, 1][..]));
    assert_eq!(udp[udp.len() - 4..], [10, 0, 0, 77]);

    // The router advertises itself (RFC 4861).
    let solicit = icmp(Ends::new("fe80::4", "ff02::2", [0, 0]), 133, 0, [0; 4], &[1, 1, 2, 0, 0, 0, 0, 4]);
    let mut solicit = to([0x33, 0x33, 0, 0, 0, 2], 4, &solicit);
    solicit[21] = 255;
    four.send(&solicit);
    let answer = four.receive();
    let (_, advertisement) = opened(&answer);
    assert_eq!((answer[6..12].to_vec(), advertisement[0]), (vec![2, 0, 0, 0, 0, 0xf6], 134));
    let prefix = [&[0xfd, 1][..], &[0; 14]].concat();
    assert!(advertisement.windows(16).any(|window| window == prefix), "{advertisement:?}");
    cloud.scene.switch.end();
}

#[test]
fn ovn_rejects_and_routers_say_why() {
    let cloud = Cloud::routed();
    cloud.nbctl(&["acl-add", "sw0", "from-lport", "1001", "inport == \"vif1\" && tcp.dst == 80", "reject"]);
    cloud.nbctl(&["acl-add", "sw0", "from-lport", "1001", "inport == \"vif1\" && udp.dst == 81", "reject"]);
    let [mut one] = cloud.stations([1]);

    let ends = Ends::new("10.0.0.1", "10.0.0.2", [4000, 80]);
    one.send(&framed(1, 2, &Tcp::new(SYN, 7000, 0).datagram(ends)));
    let answer = one.receive();
    let (back, tcp) = opened(&answer);
    assert_eq!((back, tcp[13]), (ends.back(), RST | ACK));
    assert_eq!(tcp[8..12], 7001_u32.to_be_bytes());

    let refused = datagram("10.0.0.1", "10.0.0.2", [4000, 81]);
    one.send(&framed(1, 2, &refused));
    let answer = one.receive();
    assert_eq!((answer[23], answer[34], answer[35], sum(&answer[34..])), (1, 3, 3, 0), "port unreachable");
    assert_eq!(answer[42..42 + 28], refused[..28]);

    // The last hop (RFC 792).
    let mut last = datagram("10.0.0.1", "10.0.1.3", [4000, 53]);
    last[8] = 1;
    last[10..12].fill(0);
    let checksum = sum(&last[..20]);
    last[10..12].copy_from_slice(&checksum.to_be_bytes());
    one.send(&framed(1, ROUTER[0], &last));
    let answer = one.receive();
    assert_eq!((answer[23], answer[34], answer[35]), (1, 11, 0), "time exceeded");
    assert_eq!(answer[26..34], [10, 0, 0, 254, 10, 0, 0, 1]);
    cloud.scene.switch.end();
}

#[test]
fn a_router_asks_for_an_address_and_learns_it() {
    let cloud = Cloud::routed();
    let [mut one, mut three] = cloud.stations([1, 3]);
    let there = datagram("10.0.0.1", "10.0.1.9", [2000, 53]);
    one.send(&framed(1, ROUTER[0], &there));
    let asked = three.receive();
    assert_eq!((&asked[..6], &asked[12..14], asked[21]), (&BROADCAST[..], &[8, 6][..], 1));
    assert_eq!((&asked[28..32], &asked[38..42]), (&[10, 0, 1, 254][..], &[10, 0, 1, 9][..]));
    // Station 3 has the address too.
    let mut answer = [&asked[6..12], &[2, 0, 0, 0, 0, 3][..], &asked[12..21], &[2]].concat();
    answer.extend([&[2, 0, 0, 0, 0, 3, 10, 0, 1, 9][..], &asked[22..32]].concat());
    three.send(&answer);
    assert_eq!(three.receive(), framed(ROUTER[1], 3, &routed(there.clone())), "the frame that waited");
    wait_for("the address in OVN's database", || {
        let known = cloud.ovn.sbctl(&["--bare", "--columns=ip", "list", "MAC_Binding"]).unwrap();
        known.contains("10.0.1.9").then_some(())
    });
    cloud.sync();
    one.send(&framed(1, ROUTER[0], &there));
    assert_eq!(three.receive(), framed(ROUTER[1], 3, &routed(there)));
    cloud.scene.switch.end();
}
