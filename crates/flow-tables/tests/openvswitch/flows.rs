//! Random flows that fit their matches.
use flow::{Flow, Group};

use super::common::Random;
use super::frames::below;

/// Groups that all tables use. A `select` of one bucket alone has one answer.
pub const GROUPS: [&str; 4] = [
    "group_id=1,type=all,bucket=set_field:02:00:00:00:00:77->eth_dst,output:1,bucket=push_vlan:0x8100,set_field:4105->vlan_vid,output:2,bucket=output:3",
    "group_id=2,type=indirect,bucket=resubmit(,3)",
    "group_id=3,type=select,selection_method=hash,bucket=output:4,set_field:02:00:00:00:00:78->eth_src",
    "group_id=4,type=all,bucket=output:1,output:2,group:3,bucket=output:4,resubmit(,3),bucket=output:2,output:3",
];

/// The groups that both switches have.
pub fn groups() -> Vec<Group> {
    GROUPS.iter().map(|text| Group::parse(text).unwrap()).collect()
}

pub fn of<T: Copy>(random: &mut Random, all: &[T]) -> T {
    all[below(random, all.len())]
}

const MATCHES: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "in_port=P",
            "dl_src=02:00:00:00:00:0V",
            "dl_dst=02:00:00:00:00:00/ff:ff:ff:ff:ff:fe",
            "reg0=V",
            "reg1=V/1",
            "dl_vlan=5",
            "vlan_tci=0/0x1000",
            "dl_vlan_pcp=1",
            "metadata=V",
            "xreg1=V",
        ],
    ),
    ("ip,tcp,udp,icmp,sctp", &["nw_src=10.0.0.V", "nw_dst=10.0.V.0/24", "nw_dst=10.0.0.0/8", "nw_frag=no"]),
    ("ipv6,tcp6,udp6,icmp6", &["ipv6_src=fd01::V", "ipv6_dst=fd01::/16"]),
    ("ip,tcp,udp,ipv6,tcp6", &["nw_ttl=64", "nw_ttl=1", "nw_ecn=1"]),
    ("tcp,udp,tcp6,udp6,sctp", &["tp_dst=80", "tp_src=0x50/0xfff0", "tp_dst=8080"]),
    ("tcp,tcp6", &["tcp_flags=+syn"]),
    ("icmp", &["icmp_type=8"]),
    ("icmp6", &["icmp_type=135", "icmp_type=136"]),
    ("arp", &["arp_op=1", "arp_spa=10.0.0.V", "arp_sha=02:00:00:00:00:0V"]),
];

const ACTIONS: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "output:P",
            "output:P",
            "output:P",
            "in_port",
            "flood",
            "all",
            "output:NXM_NX_REG0[]",
            "output(port=P,max_len=5V)",
            "set_field:V->reg0",
            "set_field:1/1->reg1",
            "set_field:V->xreg1",
            "set_field:V->metadata",
            "load:V->NXM_NX_REG1[4..9]",
            "set_field:02:00:00:00:00:0V->eth_dst",
            "set_field:02:00:00:00:00:0V->eth_src",
            "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
            "move:NXM_NX_REG0[0..7]->NXM_OF_ETH_SRC[8..15]",
            "move:NXM_OF_IN_PORT[]->NXM_NX_REG0[0..15]",
            "push:NXM_NX_REG0[]",
            "push:NXM_OF_ETH_SRC[]",
            "pop:NXM_OF_ETH_DST[]",
            "pop:NXM_NX_REG1[0..7]",
            "push_vlan:0x8100",
            "push_vlan:0x88a8",
            "push_vlan:0x8100,set_field:410V->vlan_vid",
            "pop_vlan",
            "clone(A,A)",
            "clone(A,output:P)",
            "group:V",
            "group:4",
            "exit",
            "set_field:P->in_port",
            "resubmit(P,T)",
            "note:01.02",
            "write_metadata:V",
        ],
    ),
    (
        "ip,tcp,udp,icmp,sctp",
        &[
            "set_field:10.9.0.V->ip_src",
            "set_field:10.9.0.V->ip_dst",
            "move:NXM_OF_IP_SRC[]->NXM_OF_IP_DST[]",
            "push:NXM_OF_IP_SRC[],push:NXM_OF_IP_DST[],pop:NXM_OF_IP_SRC[],pop:NXM_OF_IP_DST[]",
            "load:V->NXM_OF_IP_DST[0..7]",
        ],
    ),
    (
        "ipv6,tcp6,udp6,icmp6",
        &[
            "set_field:fd09::V->ipv6_src",
            "set_field:fd09::V->ipv6_dst",
            "set_field:0x1234V->ipv6_label",
            "move:NXM_NX_IPV6_SRC[]->NXM_NX_XXREG1[]",
            "move:NXM_NX_IPV6_SRC[0..63]->NXM_NX_IPV6_DST[64..127]",
        ],
    ),
    (
        "ip,tcp,udp,icmp,sctp,ipv6,tcp6,udp6,icmp6",
        &[
            "dec_ttl",
            "dec_ttl",
            "set_field:3V->nw_ttl",
            "set_field:V->ip_dscp",
            "set_field:V->nw_ecn",
            "mod_nw_tos:16",
        ],
    ),
    (
        "tcp,tcp6",
        &["set_field:9V->tcp_dst", "set_field:9V->tcp_src", "move:NXM_OF_TCP_SRC[]->NXM_OF_TCP_DST[]"],
    ),
    ("udp,udp6", &["set_field:9V->udp_dst", "set_field:9V->udp_src"]),
    ("sctp", &["set_field:9V->sctp_dst", "set_field:9V->sctp_src"]),
    ("icmp", &["set_field:V->icmp_type", "set_field:V->icmp_code"]),
    ("icmp_type=135", &["set_field:fd09::V->nd_target", "set_field:02:00:00:00:00:8V->nd_sll"]),
    ("icmp_type=136", &["set_field:fd09::V->nd_target", "set_field:02:00:00:00:00:8V->nd_tll"]),
    (
        "arp",
        &[
            "set_field:2->arp_op",
            "set_field:10.0.9.V->arp_spa",
            "move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[]",
            "move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[]",
            "set_field:02:00:00:00:00:9V->arp_sha",
        ],
    ),
];

const PROTOCOLS: [&str; 11] = ["", "", "ip", "tcp", "udp", "icmp", "sctp", "ipv6", "tcp6", "icmp6", "arp"];

fn one<'a>(random: &mut Random, all: &[(&str, &'a [&'a str])], words: &[String]) -> &'a str {
    loop {
        let (names, patterns) = all[below(random, all.len())];
        if names.is_empty() || names.split(',').any(|name| words.iter().any(|word| word == name)) {
            return patterns[below(random, patterns.len())];
        }
    }
}

fn fill(random: &mut Random, pattern: &str, table: usize, words: &[String]) -> String {
    let mut text = String::new();
    for (at, sign) in pattern.char_indices() {
        let beside = |sign: Option<char>| sign.is_some_and(|sign| sign.is_ascii_uppercase() || sign == '_');
        let before = pattern[..at].chars().next_back();
        let name = beside(before) || beside(pattern[at + 1..].chars().next());
        text += &match sign {
            'V' if !name => (1 + below(random, 3)).to_string(),
            'P' if !name => (1 + below(random, 4)).to_string(),
            'T' if !name => (table + below(random, 3)).min(4).to_string(),
            'A' if !name => {
                let pattern = one(random, ACTIONS, words);
                if pattern.contains("clone") {
                    "output:2".to_owned()
                } else {
                    fill(random, pattern, table, words)
                }
            }
            sign => sign.to_string(),
        };
    }
    text
}

fn flow(random: &mut Random) -> String {
    let table = below(random, 5);
    let mut words = vec![of(random, &PROTOCOLS).to_owned()];
    for _ in 0..below(random, 3) {
        let pattern = one(random, MATCHES, &words);
        let name = pattern.split('=').next().unwrap();
        if !words.iter().any(|word| word.starts_with(name) || word.contains("vlan") && name.contains("vlan"))
        {
            let word = fill(random, pattern, table, &words);
            words.push(word);
        }
    }
    words.retain(|word| !word.is_empty());
    let mut actions: Vec<_> = (0..=below(random, 4))
        .map(|_| {
            let pattern = one(random, ACTIONS, &words);
            fill(random, pattern, table, &words)
        })
        .filter(|action| !action.starts_with("write_metadata"))
        .collect();
    match below(random, 6) {
        0 => actions.push(format!("output:{}", 1 + below(random, 4))),
        1 if table < 4 => {
            actions.push(format!(
                "write_actions(set_field:5->reg2,output:{}),goto_table:{}",
                1 + below(random, 4),
                table + 1
            ));
        }
        2 if table > 0 => {
            actions.push(format!("resubmit(,{table})").replace(&table.to_string(), &(table - 1).to_string()))
        }
        _ => actions.push(format!("resubmit(,{})", table + 1)),
    }
    let priority = of(random, &[1, 10, 10, 20, 30, 40]) * 100 + below(random, 100);
    format!("table={table},priority={priority},{} actions={}", words.join(","), actions.join(","))
}

/// A check of the length, behind which Open vSwitch forgets what an outer list of actions knows, stands at the end.
pub fn lengths() -> Vec<String> {
    [
        "priority=2,dl_vlan=5 actions=pop_vlan,check_pkt_larger(90)->NXM_NX_REG0[0],resubmit(,1)",
        "priority=1 actions=push_vlan:0x8100,check_pkt_larger(90)->NXM_NX_REG0[0],resubmit(,1)",
        "table=1,priority=1,reg0=1 actions=output:1,output:2",
        "table=1,priority=1,reg0=0 actions=output:3,output:4",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Actions, and the groups that they name, in the order of their numbers.
fn with_groups(actions: &str) -> String {
    let named = GROUPS.iter().zip(1..).filter(|(_, id)| actions.contains(&format!("group:{id}")));
    named.fold(actions.to_owned(), |all, (group, _)| all + group)
}

/// About 40 flows, no two of which have priority and frames in common: which of them counts is not defined.
///
/// Of each of these pairs, one is left out:
/// - action sets, times to live that end: Open vSwitch 3.1 aborts if a frame goes to a controller while its action set is
///   not empty (an assertion in `recirc_alloc_id__`);
/// - cut frames, tags: it cuts a frame before it writes the tags that were pushed since the last output;
/// - times to live that end, pushed tags: it reads a frame for a controller again, with one tag, and writes what follows
///   two tags to the wrong place.
pub fn flows(random: &mut Random) -> Vec<String> {
    let without = [
        of(random, &["dec_ttl", "write_actions"]),
        of(random, &["max_len", "_vlan"]),
        of(random, &["dec_ttl", "push_vlan"]),
    ];
    let mut flows: Vec<(Flow, String)> = Vec::new();
    while flows.len() < 40 {
        let text = flow(random);
        let actions = with_groups(text.split_once("actions=").map_or("", |(_, actions)| actions));
        if without.iter().any(|word| actions.contains(word)) {
            continue;
        }
        let Ok(flow) = Flow::parse(&text) else { continue };
        let ambiguous = |other: &Flow| {
            other.table == flow.table
                && other.priority == flow.priority
                && other.wanted.overlaps(&flow.wanted)
        };
        if !flows.iter().any(|(other, _)| ambiguous(other)) {
            flows.push((flow, text));
        }
    }
    flows.into_iter().map(|(_, text)| text).collect()
}
