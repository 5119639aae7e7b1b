//! VLANs from port to port: tags pushed and popped, offloads behind them, and ports that change theirs while they run.
use frame::DropReason;
use switch::{Options, PortOptions, Switch, VlanMode, VlanOptions};
use virtio::net::{NetHeader, checksum};

use crate::bench::*;

fn access(tag: u16) -> VlanOptions {
    VlanOptions { tag: Some(tag), ..VlanOptions::default() }
}

fn trunk(vlans: &[u16]) -> VlanOptions {
    VlanOptions { trunks: vlans.iter().copied().collect(), ..VlanOptions::default() }
}

/// Ports of these queue pairs and VLANs, named a, b, c, …
fn switch_of(ports: &[(u16, VlanOptions)]) -> (Switch, Vec<Hands>) {
    let pairs: Vec<u16> = ports.iter().map(|(pairs, _)| *pairs).collect();
    with_ports(&pairs, Options::default(), |index| PortOptions {
        vlans: ports[index].1.clone(),
        ..PortOptions::default()
    })
}

fn tagged(frame: &[u8], vlan: u16) -> Vec<u8> {
    let [high, low] = vlan.to_be_bytes();
    [&frame[..12], &[0x81, 0, high, low], &frame[12..]].concat()
}

/// What a port has got.
fn rest(hand: &mut Hands) -> Vec<Vec<u8>> {
    hand.iter_mut()
        .flat_map(|(_, collector)| std::iter::from_fn(|| collector.take()))
        .map(|(_, frame)| frame)
        .collect()
}

#[test]
fn each_frame_stays_in_its_vlan_and_has_the_tag_that_its_receiver_wants() {
    let native = VlanOptions { mode: Some(VlanMode::NativeUntagged), tag: Some(20), ..trunk(&[10]) };
    let (switch, mut hands) = switch_of(&[
        (1, access(10)),
        (1, access(10)),
        (1, access(20)),
        (1, trunk(&[10, 20])),
        (1, native),
        (2, trunk(&[30])),
    ]);
    let bench = Bench::run(switch);
    let of = |number| frame(BROADCAST, station(number), number.into());
    let [first, second, third, fourth, fifth] = [1, 2, 3, 4, 5].map(of);
    send(&mut hands[0][0].0, &first);
    send(&mut hands[2][0].0, &second);
    send(&mut hands[3][0].0, &tagged(&third, 20));
    send(&mut hands[0][0].0, &tagged(&fourth, 10));
    send(&mut hands[5][0].0, &tagged(&fifth, 10));
    settled(&bench, 5);
    let snapshot = bench.stop();
    assert_eq!(rest(&mut hands[0]), Vec::<Vec<u8>>::new());
    assert_eq!(rest(&mut hands[1]), vec![first.clone()]);
    assert_eq!(rest(&mut hands[2]), vec![third.clone()]);
    let sorted = |mut frames: Vec<Vec<u8>>| {
        frames.sort_by_key(|frame| frame[11]);
        frames
    };
    assert_eq!(sorted(rest(&mut hands[3])), [tagged(&first, 10), tagged(&second, 20)]);
    assert_eq!(sorted(rest(&mut hands[4])), [tagged(&first, 10), second, third]);
    assert_eq!(rest(&mut hands[5]), Vec::<Vec<u8>>::new());
    assert_eq!([0, 5].map(|port| drops(&snapshot, port, true, DropReason::WrongVlan)), [1, 1]);
    check_books(&snapshot, 0);
}

/// Frames that their sender has left to be summed and cut, to a port that takes both: what the net header says moves with
/// the tag.
#[test]
fn offloads_go_along_behind_a_pushed_and_a_popped_tag() {
    let (switch, mut hands) = switch_of(&[(1, access(10)), (1, trunk(&[10])), (1, access(10))]);
    let bench = Bench::run(switch);
    let mut sent = [&BROADCAST[..], &station(1), &[8, 0, 0x45]].concat();
    sent.resize(1000, 7);
    let pseudo = checksum::pseudo_v4([7; 4], [7; 4], 6, 966);
    sent[50..52].copy_from_slice(&pseudo.to_be_bytes());
    let header = NetHeader {
        flags: NetHeader::F_NEEDS_CSUM,
        gso_type: NetHeader::GSO_TCPV4,
        hdr_len: 54,
        gso_size: 500,
        csum_start: 34,
        csum_offset: 16,
        num_buffers: 1,
    };
    let behind_tag = NetHeader { hdr_len: 58, csum_start: 38, ..header };
    assert!(hands[0][0].0.inject(header, &sent));
    assert_eq!(hands[1][0].1.take_within(LIMIT), Some((behind_tag, tagged(&sent, 10))));
    assert_eq!(hands[2][0].1.take_within(LIMIT), Some((header, sent.clone())));
    assert!(hands[1][0].0.inject(behind_tag, &tagged(&sent, 10)));
    assert_eq!(hands[0][0].1.take_within(LIMIT), Some((header, sent.clone())));
    assert_eq!(hands[2][0].1.take_within(LIMIT), Some((header, sent)));
    bench.stop();
}

#[test]
fn a_port_changes_its_vlan_while_it_runs() {
    let (switch, mut hands) = switch_of(&[(1, access(10)), (1, access(10)), (1, access(20))]);
    let bench = Bench::run(switch);
    // Stations 2 and 3 are known where they are.
    for (port, number) in [(1, 2), (2, 3)] {
        send(&mut hands[port][0].0, &frame(BROADCAST, station(number), 0));
    }
    assert_eq!(number(&receive(&mut hands[0][0].1)), 0);
    settled(&bench, 2);
    send(&mut hands[0][0].0, &frame(station(2), station(1), 1));
    assert_eq!(number(&receive(&mut hands[1][0].1)), 1);
    bench.change(|view| {
        let options = PortOptions { vlans: access(20), ..PortOptions::default() };
        view.set_port_options("a", options).unwrap();
    });
    send(&mut hands[0][0].0, &frame(station(2), station(1), 2));
    assert_eq!(number(&receive(&mut hands[2][0].1)), 2);
    send(&mut hands[0][0].0, &frame(station(3), station(1), 3));
    assert_eq!(number(&receive(&mut hands[2][0].1)), 3);
    settled(&bench, 5);
    bench.stop();
    assert_eq!(rest(&mut hands[1]), Vec::<Vec<u8>>::new());
}
