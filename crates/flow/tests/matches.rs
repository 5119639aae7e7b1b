//! Matches in text: the same as Open vSwitch prints (`ovs-ofctl parse-flows`).
mod common;

use std::process::Command;

use common::Random;
use flow::Match;

/// What Open vSwitch prints for each of these matches.
fn printed(matches: &[String]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flows");
    let lines: Vec<_> = matches.iter().map(|wanted| format!("{wanted} actions=drop\n")).collect();
    std::fs::write(&file, lines.concat()).unwrap();
    let mut command = Command::new(peers::ovs::programs().unwrap().ofctl);
    let output = command.args(["-O", "OpenFlow15", "parse-flows"]).arg(&file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let flows = text.lines().filter_map(|line| line.split_once("): ADD "));
    let printed = flows.map(|(_, flow)| flow.strip_suffix("actions=drop").expect(flow).trim().to_owned());
    let printed: Vec<_> = printed.collect();
    let refused = text.lines().find(|line| line.contains("error")).unwrap_or_default();
    assert_eq!(printed.len(), matches.len(), "{refused}");
    printed
}

fn same(matches: &[String]) {
    let mut wrong = Vec::new();
    for (text, printed) in matches.iter().zip(printed(matches)) {
        let ours = Match::parse(text).map_or_else(|error| error.to_string(), |wanted| wanted.to_string());
        if ours != printed {
            wrong.push(format!("{text}\n  Open vSwitch: {printed}\n  printed here: {ours}"));
            continue;
        }
        assert_eq!(Match::parse(&ours), Match::parse(text), "{text}");
    }
    let first = wrong[..wrong.len().min(25)].join("\n");
    assert!(wrong.is_empty(), "{} of {} differ:\n{first}", wrong.len(), matches.len());
}

/// Protocols, and the fields that each has. Not among them, and why:
///
/// - `tun_tos`, `tun_ttl`: OpenFlow has no such field, `ovs-ofctl` refuses them.
/// - `ct_nw_src` and the others of the original direction: Open vSwitch 3.1 writes them and refuses what it wrote
///   (`OFPBMC_BAD_PREREQ`), also after `ct_state=+trk`.
/// - `recirc_id`: Open vSwitch prints `eth` behind it; a match has no packet type here.
/// - `tun_gbp_flags` with a mask: Open vSwitch prints no mask.
/// - `tp_src` of a later fragment, a VLAN's priority without its bit of presence: `OFPBMC_BAD_PREREQ`.
/// - `nw_tos=33`, `vlan_vid=0x2000`: bits that Open vSwitch drops are an error here.
const FIELDS: &[(&[&str], &[&str])] = &[
    (
        &[""],
        &[
            "metadata=X",
            "metadata=X/X",
            "reg0=X",
            "reg5=X/X",
            "reg15=H",
            "xreg1=X/X",
            "xreg4=H",
            "xxreg1=X/X",
            "xxreg3=L",
            "in_port=N",
            "in_port=LOCAL",
            "tun_id=X/X",
            "tun_src=4",
            "tun_dst=4/P",
            "tun_metadata0=X/X",
            "pkt_mark=X/X",
            "ct_state=+trk-new",
            "ct_state=+est+trk-rel-inv",
            "ct_state=0x21/0x23",
            "ct_state=new|trk",
            "ct_mark=H/H",
            "ct_label=L/L",
            "ct_zone=N",
            "eth_src=M",
            "dl_dst=M/M",
            "dl_dst=M/01:00:00:00:00:00",
            "dl_vlan=V",
            "dl_vlan_pcp=3",
            "vlan_pcp=0",
            "vlan_vid=0x1005",
            "vlan_vid=0x1000/0x1000",
            "dl_vlan=0xffff",
            "vlan_tci=0x1123/0x1fff",
            "vlan_tci=0/0x1000",
            "conj_id=N",
            "tun_flags=+oam",
            "tun_flags=-oam",
            "tun_flags=oam",
            "tun_flags=0",
            "tun_gbp_id=N",
            "tun_gbp_id=N/N",
            "tun_gbp_flags=B",
            "tun_ipv6_src=6",
            "tun_ipv6_dst=6/Q",
            "tunnel_id=X",
            "tun_metadata7=X",
            "reg0=*",
            "reg1=0",
            "xreg0=0/X",
            "in_port=CONTROLLER",
            "in_port=*",
            "in_port=any",
            "in_port_oxm=N",
            "dp_hash=X/X",
            "dp_hash=X",
            "actset_output=N",
            "ct_state=0",
            "ct_state=+new+est+rel+rpl+inv+trk+snat+dnat",
            "ct_state=0/0x1",
            "ct_state=snat|dnat",
            "ct_mark=0/H",
            "ct_label=0/L",
            "eth_dst=*",
            "eth_dst=0:0:0:0:0:0/M",
            "vlan_tci=T/U",
            "vlan_tci=T/W",
            "vlan_tci=T",
            "dl_vlan=V,dl_vlan_pcp=3",
            "dl_vlan_pcp=0,dl_vlan=V",
            "vlan_vid=0x1005,vlan_pcp=5",
            "vlan_vid=X13/X13",
            "vlan_vid=0/0x1000",
            "vlan_vid=0",
            "dl_vlan=*",
            "dl_vlan=0",
            "dl_vlan=010",
            "in_port=010",
            "reg2=0777/0xffff",
            "ct_zone=5/0xffff",
            "dl_vlan_pcp=*",
        ],
    ),
    (
        &["ip", "tcp", "icmp", "udp", "sctp"],
        &[
            "nw_src=4",
            "ip_dst=4/P",
            "nw_src=4/4",
            "nw_dst=4/255.0.255.0",
            "nw_src=4/0",
            "ip_dst=4/32",
            "nw_dst=*",
        ],
    ),
    (
        &["ipv6", "tcp6", "icmp6"],
        &[
            "ipv6_src=6",
            "ipv6_dst=6/Q",
            "ipv6_src=6/ffff:0:ff::1",
            "ipv6_label=5",
            "ipv6_label=0x10/0xf0",
            "ipv6_label=0x12345",
            "ipv6_src=6/0",
            "ipv6_dst=::ffff:4",
            "ipv6_dst=::4/96",
        ],
    ),
    (
        &["ip", "tcp", "icmp", "ipv6", "udp6", "icmp6"],
        &[
            "nw_ttl=B",
            "nw_tos=32",
            "ip_dscp=8",
            "nw_ecn=1",
            "nw_frag=no",
            "nw_frag=not_later",
            "nw_frag=first",
            "ip_frag=yes",
            "ip_dscp=0",
            "nw_tos=0",
            "ip_ecn=3",
            "ip_ecn=*",
            "nw_ttl=0",
        ],
    ),
    (&["ip", "ipv6"], &["nw_proto=B", "ip_proto=0x6", "nw_proto=58", "nw_proto=1", "nw_frag=later"]),
    (
        &["tcp", "udp", "sctp", "tcp6", "udp6", "sctp6"],
        &["tp_src=N", "tp_dst=N/N", "tp_dst=80", "tp_src=N/0xfff0"],
    ),
    (
        &["tcp", "tcp6"],
        &[
            "tcp_flags=+syn-ack",
            "tcp_flags=syn|ack",
            "tcp_flags=2/7",
            "tcp_flags=0x12",
            "tcp_dst=N",
            "tcp_src=N/N",
            "tcp_flags=+ns-fin+urg",
            "tcp_flags=0xfff",
            "tcp_flags=0",
            "tcp_flags=fin|cwr|ece|[200]",
        ],
    ),
    (&["udp", "udp6"], &["udp_dst=N", "udp_src=N/N"]),
    (&["icmp", "icmp6"], &["icmp_type=B", "icmp_code=B", "icmp_type=B,icmp_code=0"]),
    (&["icmp6"], &["icmpv6_type=B", "icmpv6_code=B"]),
    (&["sctp", "sctp6"], &["sctp_src=N", "sctp_dst=N/N"]),
    (
        &["icmp6,icmp_type=135,icmp_code=0"],
        &["nd_target=6", "nd_sll=M", "nd_target=6/Q", "nd_sll=M/M", "nd_reserved=X", "nd_options_type=1"],
    ),
    (&["icmp6,icmpv6_type=136"], &["nd_target=6", "nd_tll=M", "nd_tll=M/M", "nd_options_type=2"]),
    (
        &["arp", "rarp"],
        &[
            "arp_op=1",
            "arp_op=2",
            "arp_spa=4",
            "arp_tpa=4/P",
            "arp_sha=M",
            "arp_tha=M/M",
            "nw_src=4",
            "nw_dst=4/P",
            "nw_proto=2",
            "arp_op=B",
        ],
    ),
    (
        &[
            "dl_type=0x88cc",
            "eth_type=0x800",
            "dl_type=0x86dd",
            "dl_type=2054",
            "ip4",
            "ipv4",
            "ip6",
            "mpls",
            "mplsm",
            "dl_type=0x05ff",
            "dl_type=0x8035",
            "dl_type=0",
        ],
        &["priority=77"],
    ),
];

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn six(&mut self) -> String {
        let groups: Vec<_> =
            (0..8).map(|_| if self.below(3) == 0 { 0 } else { self.next() as u16 }).collect();
        groups.iter().map(|group| format!("{group:x}")).collect::<Vec<_>>().join(":")
    }

    /// Puts a value in place of each capital letter and digit that stands for one behind `=` or `/`.
    fn value(&mut self, pattern: &str) -> String {
        let mut text = String::new();
        let mut rest = pattern;
        while let Some(at) = rest.find(['=', '/']) {
            text += &rest[..=at];
            rest = &rest[at + 1..];
            let word = &rest[..rest.find(['/', ',']).unwrap_or(rest.len())];
            rest = &rest[word.len()..];
            text += &match word {
                "X" => format!("{:#x}", self.next() as u32 | 1),
                "H" => (self.next() as u32 >> 3 | 1).to_string(),
                "L" => format!("{:#x}", u128::from(self.next()) << 60 | 1),
                "N" => (1 + self.below(65000)).to_string(),
                "B" => self.below(100).to_string(),
                "T" => format!("{:#x}", self.next() as u16 | 0x1000),
                "U" => format!("{:#x}", self.next() as u16 & 0xfff | 0x1000),
                "W" => format!("{:#x}", self.next() as u16 | 0xf000),
                "X13" => format!("{:#x}", self.below(0x2000)),
                "V" => self.below(4096).to_string(),
                "P" => (1 + self.below(32)).to_string(),
                "Q" => (1 + self.below(128)).to_string(),
                "4" => std::net::Ipv4Addr::from(self.next() as u32 | 0x0100_0001).to_string(),
                "6" => self.six(),
                "M" => (0..6).map(|_| format!("{:02x}", self.next() as u8 | 1)).collect::<Vec<_>>().join(":"),
                "::4/96" | "::ffff:4" | "::4" => {
                    word.replacen('4', &std::net::Ipv4Addr::from(self.next() as u32).to_string(), 1)
                }
                word => word.to_owned(),
            };
        }
        text + rest
    }
}

#[test]
fn random_matches_are_printed_as_openvswitch_prints_them() {
    let mut random = Random(7);
    let mut matches = Vec::new();
    while matches.len() < 4000 {
        let (protocols, _) = FIELDS[random.below(FIELDS.len() as u64) as usize];
        let protocol = protocols[random.below(protocols.len() as u64) as usize];
        let of = |(names, _): &&(&[&str], &[&str])| names.contains(&protocol) || names.contains(&"");
        let mut words: Vec<String> = Vec::new();
        for (_, fields) in FIELDS.iter().filter(of) {
            for _ in 0..random.below(4) {
                let pattern = fields[random.below(fields.len() as u64) as usize];
                let name = &pattern[..=pattern.find('=').unwrap_or(0)];
                // Only one word about the VLAN tag: Open vSwitch refuses a priority without the bit of presence, which
                // a second word can clear.
                let name = if name.contains("vlan") { "vlan" } else { name };
                if pattern != "priority=77" && !words.iter().any(|word| word.contains(name)) {
                    words.push(random.value(pattern));
                }
            }
        }
        words.insert(0, protocol.to_owned());
        words.retain(|word| !word.is_empty());
        matches.push(words.join(","));
    }
    same(&matches);
}

/// Distinct matches of the flows that ovn-controller 23.03 and 26.03 wrote, as `ovs-ofctl dump-flows` of Open vSwitch
/// 3.1 and 3.7 printed them.
#[test]
fn matches_of_ovn_are_printed_as_they_were_read() {
    let recorded = include_str!("data/ovn-matches.txt");
    assert!(recorded.lines().count() > 500);
    for text in recorded.lines() {
        assert_eq!(Match::parse(text).map(|wanted| wanted.to_string()).as_deref(), Ok(text));
    }
}

#[test]
fn what_openvswitch_refuses_is_refused() {
    let ofctl = peers::ovs::programs().unwrap().ofctl;
    for text in [
        "igmp",
        "in_port=0x5",
        "in_port=5/7",
        "in_port=70000",
        "actset_output=0x5",
        "ct_zone=5/7",
        "conj_id=5/6",
        "dl_vlan=5/0xff",
        "vlan_pcp=5/5",
        "dl_vlan_pcp=1/1",
        "dl_type=0x800/0xff",
        "ip,nw_proto=0x6/0xf",
        "ip,nw_tos=32/0xf0",
        "ip,ip_dscp=8/8",
        "ip,nw_ecn=1/1",
        "ip,nw_ttl=1/1",
        "ip,ip_frag=0",
        "ip,ip_frag=1/1",
        "arp,arp_op=1/1",
        "icmp,icmp_type=1/1",
        "icmp6,icmp_type=135,icmp_code=0,nd_reserved=5/5",
        "tun_flags=df",
        "tun_flags=+csum",
        "tun_flags=4/4",
        "ct_state=0x1ff",
        "ct_state=0x100/0x100",
        "ct_state=new/0x1",
        "ct_state=+trk+trk",
        "tcp,tcp_flags=0x1000",
        "tcp,tcp_flags=0x10/0xffff",
        "metadata=08",
        "reg0=5x",
        "reg0=-1",
        "ip,nw_src=10.0.0.1/33",
        "dl_src=01-02-03-04-05-06",
    ] {
        let flow = format!("{text} actions=drop");
        let output = Command::new(&ofctl).args(["-O", "OpenFlow15", "parse-flow", &flow]).output().unwrap();
        assert!(!output.status.success(), "{text}: Open vSwitch accepts it");
        assert!(Match::parse(text).is_err(), "{text}: accepted here");
    }
}

#[test]
fn a_wrong_word_is_named_with_what_is_accepted() {
    for (text, parts) in [
        ("bogus=4", ["bogus=4", "no field of this name", "FIELD=VALUE"]),
        ("tcpp", ["tcpp", "no field of this name", "tcp6"]),
        ("nw_src=1.2.3.4", ["nw_src=1.2.3.4", "the protocol that has this field is missing", "ip"]),
        ("ip,nw_ttl=300", ["nw_ttl=300", "more bits than the field has", "8 bits"]),
        ("ip,nw_tos=33", ["nw_tos=33", "two low bits", "multiple of 4"]),
        ("ip,nw_dst=1.2.3", ["ip_dst=1.2.3", "no value of this field", "10.0.0.1"]),
        ("ip,nw_dst=1.2.3.4/33", ["ip_dst=1.2.3.4/33", "no mask of this field", "/PREFIX"]),
        ("in_port=foo", ["in_port=foo", "no value of this field", "LOCAL"]),
        ("ct_state=+trk+bad", ["bad", "unknown flag", "trk"]),
        ("ct_state=+trk-trk", ["trk", "twice", "once"]),
        (
            "udp,tcp_flags=syn",
            ["tcp_flags=syn", "the protocol that has this field is missing", "tcp or tcp6"],
        ),
        ("ct_zone=5/7", ["ct_zone=5/7", "the field has no mask", "16 bits"]),
        ("dl_vlan=5/0xff", ["dl_vlan=5/0xff", "the field has no mask", "vlan_vid=NUMBER/MASK"]),
        ("in_port=0x5", ["in_port=0x5", "no value of this field", "a decimal number up to 65535"]),
        ("actset_output=70000", ["actset_output=70000", "no value of this field", "LOCAL"]),
        ("ip,nw_frag=maybe", ["ip_frag=maybe", "no value of this field", "not_later"]),
        ("reg0=08", ["reg0=08", "no value of this field", "32 bits, with /MASK"]),
        ("reg0=", ["reg0=", "no value of this field", "32 bits"]),
        ("tun_flags=+df", ["df", "unknown flag", "oam"]),
        ("tcp,tcp_flags=0x1000", ["tcp_flags=0x1000", "more bits than the field has", "syn"]),
        ("vlan_vid=0x2000", ["vlan_vid=0x2000", "more bits than the field has", "13 bits"]),
        ("ipv6,ipv6_src=fe80::1/129", ["ipv6_src=fe80::1/129", "no mask of this field", "/PREFIX"]),
        ("arp,nw_ttl=3", ["nw_ttl=3", "the protocol that has this field is missing", "ip or ipv6"]),
        ("ip,arp_tpa=1.2.3.4", ["arp_tpa=1.2.3.4", "the protocol that has this field is missing", "arp"]),
        ("ip,tp_dst=80", ["tp_dst=80", "the protocol that has this field is missing", "tcp, udp or sctp"]),
        ("tcp,icmp_type=8", ["icmp_type=8", "the protocol that has this field is missing", "icmp or icmp6"]),
        ("tcp,nw_frag=later,tp_dst=80", ["tp_dst=80", "the protocol that has this field is missing", "tcp"]),
        (
            "icmp6,icmp_type=136,nd_sll=1:2:3:4:5:6",
            ["nd_sll=1:2:3:4:5:6", "the protocol that has this field is missing", "icmp_type=135"],
        ),
        ("dl_src=1:2:3:4:5", ["eth_src=1:2:3:4:5", "no value of this field", "six bytes"]),
    ] {
        let error = Match::parse(text).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
    }
}
