//! Groups and meters in text: the same as Open vSwitch prints.
mod common;

use common::Random;
use flow::{Action, Field, Group, GroupKind, Meter, Selection};
use peers::OvsDummy;

fn below(random: &mut Random, limit: usize) -> usize {
    (random.next() % limit as u64) as usize
}

fn of<'a>(random: &mut Random, all: &[&'a str]) -> &'a str {
    all[below(random, all.len())]
}

/// Recorded from OVN 23.03 and 26.03, numbered anew.
#[test]
fn groups_of_ovn_are_printed_as_they_were_read() {
    let lines: Vec<_> = include_str!("data/ovn-groups.txt").lines().collect();
    assert_eq!(lines.len(), 32);
    for line in lines {
        assert_eq!(Group::parse(line).map(|group| group.to_string()).as_deref(), Ok(line));
    }
}

#[test]
fn a_group_has_what_its_text_says() {
    let text = "group_id=7,type=select,selection_method=hash,fields(ip_src=255.255.0.0,eth_dst),\
                bucket=weight:3,watch_port:2,output:1,set_field:5->reg0,bucket=bucket_id:9,weight=0,actions=drop";
    let group = Group::parse(text).unwrap();
    assert_eq!((group.id, group.kind, group.buckets.len()), (7, GroupKind::Select, 2));
    let fields = vec![(Field::EthDst, u128::from(u64::MAX >> 16)), (Field::IpSrc, 0xffff_0000)];
    assert_eq!(group.selection, Selection::Hash(0, fields));
    let [first, second] = group.buckets.as_slice() else { unreachable!() };
    assert_eq!((first.id, first.weight, first.watch_port), (0, 3, Some(2)));
    assert_eq!(Action::print_list(&first.actions), "output:1,set_field:0x5->reg0");
    assert_eq!((second.id, second.weight, second.actions.len()), (9, 0, 0));
}

fn random_group(random: &mut Random, id: usize) -> String {
    let kind = of(random, &["all", "select", "indirect", "ff", "select"]);
    let mut text = format!("group_id={id},type={kind}");
    if kind == "select" {
        text += of(
            random,
            &[
                "",
                ",selection_method=dp_hash",
                ",selection_method=dp_hash,selection_method_param=4294967296",
                ",selection_method=hash",
                ",selection_method=hash,selection_method_param=5,fields=ip_src",
                ",selection_method=hash,fields(tcp_dst,ip_src,ip_dst=255.255.255.0,eth_src)",
                ",selection_method=hash,fields(ipv6_dst=ffff::,nw_proto,vlan_vid)",
                ",selection_method=hash,fields=eth_dst=ff:ff:00:00:00:00",
            ],
        );
    }
    let buckets = if kind == "indirect" { 1 } else { below(random, 4) };
    for at in 0..buckets {
        text += ",bucket=";
        if below(random, 3) == 0 {
            text += &format!("bucket_id:{},", 3 * at);
        } else {
            text += &format!("bucket_id:{at}0,");
        }
        if kind == "select" && below(random, 2) == 0 {
            text += &format!("weight:{},", below(random, 3));
        }
        match (kind, below(random, 3)) {
            ("ff", 0) | ("select", 0) => text += "watch_port:1,",
            ("ff", 1) => text += "watch_group:1,",
            ("ff", _) => text += "watch_port:2,watch_group:1,",
            _ => {}
        }
        text += of(
            random,
            &[
                "actions=output:1",
                "output:1,output:2",
                "actions=set_field:5->reg0,resubmit(,3)",
                "set_field:02:00:00:00:00:01->eth_dst,output:LOCAL",
                "actions=push_vlan:0x8100,set_field:4101->vlan_vid,output:2",
                "actions=ct(commit,table=3,nat(dst=10.0.0.1))",
                "actions=drop",
                "group:1",
            ],
        );
    }
    text
}

fn printed(ovs: &OvsDummy, command: &str) -> Vec<String> {
    let text = ovs.ofctl(&[command], &[]).unwrap();
    text.lines().skip(1).map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn random_groups_are_printed_as_openvswitch_prints_them() {
    let ovs = OvsDummy::new(2).unwrap();
    let mut random = Random(41);
    let mut groups = vec!["group_id=1,type=all,bucket=output:1".to_owned()];
    groups.extend((2..300).map(|id| random_group(&mut random, id)));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), groups.join("\n")).unwrap();
    ovs.ofctl(&["add-groups"], &[&file.path().to_string_lossy()]).unwrap();
    let mut ours: Vec<_> = groups.iter().map(|text| Group::parse(text).unwrap().to_string()).collect();
    let mut theirs = printed(&ovs, "dump-groups");
    ours.sort();
    theirs.sort();
    assert_eq!(theirs.len(), 299);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
        assert_eq!(Group::parse(theirs).unwrap().to_string(), *theirs);
    }
}

#[test]
fn meters_are_printed_as_openvswitch_prints_them() {
    let ovs = OvsDummy::new(1).unwrap();
    let meters = [
        "meter=1,kbps,burst,stats,bands=type=drop,rate=1000,burst_size=800",
        "meter=2,pktps,bands=type=drop,rate=200",
        "meter=3 pktps stats bands=\ntype=drop rate=10\ntype=drop rate=20",
    ];
    for meter in meters {
        ovs.ofctl(&["add-meter"], &[meter]).unwrap();
    }
    let theirs = ovs.ofctl(&["dump-meters"], &[]).unwrap();
    let mut theirs: Vec<_> = theirs
        .split("meter=")
        .skip(1)
        .map(|text| format!("meter={}", text.trim()).replace("bands=\n", "bands=").replace('\n', " "))
        .collect();
    theirs.sort();
    let ours: Vec<_> = meters.iter().map(|text| Meter::parse(text).unwrap().to_string()).collect();
    assert_eq!(ours, theirs);
    theirs.iter().for_each(|text| assert_eq!(Meter::parse(text).unwrap().to_string(), *text));
}

#[test]
fn what_openvswitch_refuses_is_refused() {
    let ovs = OvsDummy::new(1).unwrap();
    for text in [
        "type=all,bucket=output:1",
        "group_id=4294967295,type=all",
        "group_id=5,bucket=output:1",
        "group_id=5,type=bogus",
        "group_id=5,type=indirect",
        "group_id=5,type=indirect,bucket=output:1,bucket=output:2",
        "group_id=5,type=ff,bucket=output:1",
        "group_id=5,type=all,selection_method=hash,bucket=output:1",
        "group_id=5,type=select,fields=ip_src,bucket=output:1",
        "group_id=5,type=select,selection_method=dp_hash,fields=ip_src,bucket=output:1",
        "group_id=5,type=select,selection_method=bogus,bucket=output:1",
        "group_id=5,type=select,selection_method_param=3,bucket=output:1",
        "group_id=5,type=select,selection_method=hash,fields=bogus,bucket=output:1",
        "group_id=5,type=all,bucket=bucket_id:1,output:1,bucket=bucket_id:1,output:2",
        "group_id=5,type=all,bucket=bogus:1",
        "group_id=5,type=all,bucket=weight:x,output:1",
        "group_id=5,type=all,bogus=1",
    ] {
        assert!(ovs.ofctl(&["add-group"], &[text]).is_err(), "{text}: Open vSwitch accepts it");
        assert!(Group::parse(text).is_err(), "{text}: accepted here");
    }
    for text in [
        "kbps,bands=type=drop,rate=5",
        "meter=1,kbps,pktps,bands=type=drop,rate=5",
        "meter=1,kbps,bands=rate=5",
        "meter=1,kbps,bands=type=bogus,rate=5",
        "meter=1,kbps,burst,bands=type=drop,rate=5",
        "meter=1,kbps,bands=type=drop,rate=7,burst_size=3",
        "meter=1,kbps,bogus,bands=type=drop,rate=5",
        "meter=1,kbps,bands=type=drop,rate=x",
    ] {
        assert!(ovs.ofctl(&["add-meter"], &[text]).is_err(), "{text}: Open vSwitch accepts it");
        assert!(Meter::parse(text).is_err(), "{text}: accepted here");
    }
}

#[test]
fn no_text_panics() {
    let mut random = Random(43);
    for id in 0..5_000 {
        let mut text = random_group(&mut random, id).into_bytes();
        for _ in 0..=below(&mut random, 3) {
            let at = below(&mut random, text.len());
            text[at] = of(&mut random, &["(", ")", ",", "[", "=", ":", "-", "0", "b", "/"]).as_bytes()[0];
        }
        let text = String::from_utf8(text).unwrap();
        let _ = (Group::parse(&text), Meter::parse(&text.replace("bucket", "bands")));
    }
}
