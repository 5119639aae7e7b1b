//! Plain frames leave by their first bytes as they leave by their fields: changed fields, checksums at their limits, partial
//! checksums, and frames that are nearly plain.
#[path = "../../flow/tests/common/mod.rs"]
mod common;
mod passing;
mod ports;

use common::Random;
use flow::{Field, Flow, Key};
use flow_tables::{Cache, Change, Limits, Outcome, Tables};
use passing::{Sent, cached, uncached};
use ports::Ports;

fn of<T: Copy>(random: &mut Random, all: &[T]) -> T {
    all[(random.next() % all.len() as u64) as usize]
}

const EDGES: [u16; 6] = [0, u16::MAX, 1, 80, 0x7fff, 0xfffe];

/// A frame of TCP or UDP with few values in each field, zeros and ones among them.
fn frame(random: &mut Random) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    frame[5] = of(random, &[1, 2, 3]);
    frame[15] = of(random, &[0, 1, 0xb8]);
    frame.resize(of(random, &[54, 60, 64, 90]), 0);
    let protocol = of(random, &[6, 17]);
    let total = frame.len() - 14 - of(random, &[0, 0, 6]);
    frame[16..18].copy_from_slice(&(total as u16).to_be_bytes());
    frame[20] = of(random, &[0, 0x40]);
    (frame[22], frame[23]) = (of(random, &[1, 2, 64, 255]), protocol);
    for at in [26, 30] {
        let address = of(random, &[0, u32::MAX, 0x0a00_0001, 0x0a00_ffff, 0xffff_0000, 0x0000_ffff]);
        frame[at..at + 4].copy_from_slice(&address.to_be_bytes());
    }
    for at in [24, 34, 36, if protocol == 6 { 50 } else { 40 }] {
        let number = of(random, &EDGES);
        frame[at..at + 2].copy_from_slice(&number.to_be_bytes());
    }
    if protocol == 6 {
        (frame[46], frame[47]) = (of(random, &[0x50, 0x50, 0x60, 0x40, 0xf0]), of(random, &[2, 0x10, 0x18]));
    }
    for _ in 0..of(random, &[0, 0, 1, 1, 1, 2]) {
        let tag = [of(random, &[0x81, 0x81, 0x88]), 0, of(random, &[0, 0x10, 0x20]), of(random, &[5, 6])];
        let tag = if tag[0] == 0x88 { [0x88, 0xa8, tag[2], tag[3]] } else { tag };
        frame.splice(12..12, tag);
    }
    if random.next().is_multiple_of(8) {
        // Nearly plain: options, a fragment, another type, a length that is wrong.
        let (at, value) =
            of(random, &[(14, 0x46), (14, 0x65), (20, 0x20), (21, 1), (13, 6), (12, 0x81), (17, 0)]);
        frame[at] = value;
    }
    frame
}

const CHANGES: [&str; 17] = [
    "set_field:02:00:00:00:00:77->eth_dst",
    "set_field:00:00:00:00:00:01/00:00:00:00:00:01->eth_src",
    "set_field:255.255.0.0->ip_src",
    "set_field:0.0.0.0->ip_dst",
    "set_field:0.0.0.7/0.0.0.15->ip_dst",
    "mod_nw_tos:252",
    "mod_tp_src:65535",
    "mod_tp_dst:0",
    "dec_ttl",
    "set_field:65->nw_ttl",
    "mod_nw_ecn:2",
    "push_vlan:0x8100,set_field:4105->vlan_vid",
    "mod_vlan_vid:7",
    "mod_vlan_pcp:3",
    "strip_vlan",
    "move:NXM_OF_IP_SRC[0..15]->NXM_OF_IP_DST[0..15]",
    "clone(set_field:02:00:00:00:00:78->eth_dst,output:3)",
];

const MATCHES: [&str; 8] = [
    "",
    "dl_vlan=5,",
    "vlan_tci=0/0x1000,",
    "nw_dst=10.0.0.0/16,",
    "nw_src=255.255.0.0/17,",
    "nw_ttl=64,",
    "nw_tos=184,",
    "dl_dst=02:00:00:00:00:01,",
];

fn tables(random: &mut Random) -> (Vec<String>, [Tables; 2]) {
    let mut flows = Vec::new();
    for priority in 1..8 {
        let kind = of(random, &["ip", "tcp", "udp"]);
        let mut actions = Vec::new();
        for _ in 0..random.next() % 4 {
            actions.push(of(random, &CHANGES));
            actions.extend((random.next().is_multiple_of(4)).then_some("output:2"));
        }
        actions.push(of(random, &["output:1", "output:1", "output:1,output:4", "flood", "drop"]));
        actions.retain(|action| *action != "drop");
        let actions = if actions.is_empty() { "drop".to_owned() } else { actions.join(",") };
        flows.push(
            format!("priority={priority},{kind},{} actions={actions}", of(random, &MATCHES))
                .replace(", ", " "),
        );
    }
    // Ports are fields of TCP and UDP alone.
    flows.retain(|text| Flow::parse(text).is_ok());
    let tables = [(); 2].map(|()| {
        let mut tables = Tables::new(1, 7, Limits::default());
        for text in &flows {
            tables.change(Change::Add(Flow::parse(text).unwrap()), 0).unwrap();
        }
        tables
    });
    (flows, tables)
}

fn counts(tables: &Tables) -> Vec<(u64, u64)> {
    tables.entries(0).into_iter().map(|entry| entry.counters().get()).collect()
}

#[test]
fn plain_frames_leave_as_frames_that_are_read() {
    let mut random = Random(53);
    let mut metadata = Key::ZERO;
    metadata.set(Field::InPortOxm, 9);
    let (mut unread, mut changed, mut all) = (0, 0, 0);
    for _ in 0..300 {
        let (flows, [with, without]) = tables(&mut random);
        let mut cache = Cache::new(256, &metadata);
        let mut outcomes = [Outcome::default(), Outcome::default()];
        let frames: Vec<_> = (0..50).map(|_| frame(&mut random)).collect();
        for _ in 0..200 {
            let mut frame = of(&mut random, &frames.iter().collect::<Vec<_>>()).clone();
            let ip = frame.windows(2).position(|kind| kind == [8, 0]).map_or(14, |at| at + 2);
            let at = ip + if frame.get(ip + 9) == Some(&6) { 36 } else { 26 };
            // The identification, which no flow matches, and the checksums.
            for at in [ip + 4, ip + 10, at].into_iter().filter(|at| at + 2 <= frame.len()).collect::<Vec<_>>()
            {
                frame[at..at + 2].copy_from_slice(&of(&mut random, &EDGES).to_be_bytes());
            }
            let sent = Sent { frame: &frame, partial: (random.next().is_multiple_of(4)).then_some(at) };
            let (ours, is_unread) = cached(&mut cache, &with, sent, &mut Ports, &mut outcomes[0]);
            let theirs = uncached(&without, sent, &metadata, &mut Ports, &mut outcomes[1]);
            assert_eq!(ours, theirs, "{frame:02x?} {:?}\n{flows:#?}", sent.partial);
            (all, unread) = (all + 1, unread + u64::from(is_unread));
            changed +=
                u64::from(is_unread && !theirs.is_empty() && !theirs[0].contains(&format!("{frame:02x?}")));
        }
        cache.flush(0);
        assert_eq!(counts(&with), counts(&without), "{flows:#?}");
        let done = cache.counts();
        assert_eq!(done.hits + done.misses, 200, "each frame is looked up once");
    }
    println!("{unread} of {all} were not read, {changed} of them changed");
    assert!(unread > all / 5 && changed > all / 30, "{unread} and {changed} of {all}");
}
