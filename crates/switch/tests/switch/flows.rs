//! Forwarding by flow tables: offloads behind edited headers, books, and tables that are replaced while frames pass.
use std::sync::Arc;

use flow::Flow;
use flow_tables::{Change, Limits, Tables};
use frame::DropReason;
use switch::{ChangeError, Options, PortOptions, View, VlanOptions, Wanted};
use virtio::net::{NetHeader, checksum};

use crate::bench::*;

fn tables(flows: &[&str]) -> Tables {
    let mut tables = Tables::new(1, 7, Limits::default());
    for text in flows {
        tables.change(Change::Add(Flow::parse(text).unwrap()), 0).unwrap();
    }
    tables
}

fn with_flows(ports: usize, flows: &[&str], workers: usize) -> (Bench, Hands) {
    let flows = Some(Arc::new(tables(flows)));
    Bench::learning(ports, Options { flows, workers: vec![None; workers], ..Options::default() })
}

fn rest(hand: &mut (port::in_memory::testing::Injector, port::in_memory::testing::Collector)) -> Vec<u64> {
    std::iter::from_fn(|| hand.1.take()).map(|(_, frame)| number(&frame)).collect()
}

#[test]
fn every_frame_is_counted_once_whether_it_leaves_never_once_or_often() {
    for workers in [1, 2] {
        let flows = [
            "priority=9,dl_dst=02:00:00:00:00:01 actions=output:2",
            "priority=9,dl_dst=02:00:00:00:00:02 actions=in_port,output:3,set_field:02:00:00:00:00:09->eth_dst,all",
            "priority=9,dl_dst=02:00:00:00:00:03 actions=drop",
            "priority=9,dl_dst=02:00:00:00:00:04 actions=output:900",
            "priority=9,dl_dst=02:00:00:00:00:05 actions=resubmit(,0)",
        ];
        let (bench, mut hands) = with_flows(3, &flows, workers);
        for n in 0..6 {
            send(&mut hands[0].0, &frame(station(n), station(9), n.into()));
        }
        settled(&bench, 6);
        let snapshot = bench.stop();
        assert_eq!(rest(&mut hands[0]), [2]);
        assert_eq!(rest(&mut hands[1]), [1, 2]);
        assert_eq!(rest(&mut hands[2]), [2, 2]);
        for (reason, frames) in
            [(DropReason::ByFlow, 2), (DropReason::NotConnected, 1), (DropReason::FlowLimit, 1)]
        {
            assert_eq!(drops(&snapshot, 0, true, reason), frames, "{reason:?}");
        }
        check_books(&snapshot, 0);
    }
}

/// Where TCP begins in an untagged frame, and the sum of its pseudo header.
fn pseudo(frame: &[u8]) -> (usize, u16) {
    let four = |at: usize| frame[at..at + 4].try_into().unwrap();
    let six = |at: usize| frame[at..at + 16].try_into().unwrap();
    match frame[12] {
        8 => (34, checksum::pseudo_v4(four(26), four(30), 6, frame.len() as u16 - 34)),
        _ => (54, checksum::pseudo_v6(&six(22), &six(38), 6, frame.len() as u32 - 54)),
    }
}

/// A TCP segment whose checksum is finished, or is still the sum of its pseudo header.
fn segment(addresses: [u8; 2], port: u16, is_v6: bool, is_partial: bool) -> Vec<u8> {
    let mut frame = [&station(2)[..], &station(1)].concat();
    if is_v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 2, 8, 6, 64]);
        addresses.iter().for_each(|last| frame.extend([&[0xfd; 15][..], &[*last]].concat()));
    } else {
        frame.extend([8, 0, 0x45, 0, 2, 28, 0, 0, 0, 0, 64, 6, 0, 0]);
        addresses.iter().for_each(|last| frame.extend([10, 0, 0, *last]));
        let sum = checksum::ipv4_header_field(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    let at = frame.len();
    frame.extend([[0x30, 0x39], port.to_be_bytes()].concat());
    frame.resize(at + 520, 7);
    frame[at + 12] = 0x50;
    frame[at + 16..at + 18].fill(0);
    let (_, pseudo) = pseudo(&frame);
    let sum = match is_partial {
        true => pseudo,
        false => checksum::field(checksum::add(pseudo, checksum::sum(&frame[at..]))),
    };
    frame[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// Addresses and ports are set, and a tag is pushed, in front of checksums that are finished, that are partial, and that
/// each segment gets when it is cut.
#[test]
fn checksums_are_right_behind_fields_that_are_set() {
    let set = "set_field:8080->tcp_dst,push_vlan:0x8100,set_field:4101->vlan_vid,output:2";
    let flows = [
        format!("tcp actions=set_field:10.0.0.8->ip_src,set_field:10.0.0.9->ip_dst,{set}"),
        format!(
            "tcp6 actions=set_field:{0}:fd08->ipv6_src,set_field:{0}:fd09->ipv6_dst,{set}",
            ["fdfd"; 7].join(":")
        ),
    ];
    let (bench, mut hands) = with_flows(2, &flows.each_ref().map(String::as_str), 1);
    for (is_v6, offload) in [false, true].into_iter().flat_map(|six| [(six, 0), (six, 1), (six, 2)]) {
        let is_partial = offload > 0;
        let sent = segment([1, 2], 80, is_v6, is_partial);
        let (at, _) = pseudo(&sent);
        let mut header = NetHeader { num_buffers: 1, ..NetHeader::default() };
        if is_partial {
            (header.flags, header.csum_start, header.csum_offset) = (NetHeader::F_NEEDS_CSUM, at as u16, 16);
        }
        if offload == 2 {
            header.gso_type = if is_v6 { NetHeader::GSO_TCPV6 } else { NetHeader::GSO_TCPV4 };
            (header.gso_size, header.hdr_len) = (100, at as u16 + 20);
        }
        assert!(hands[0].0.inject(header, &sent));
        let (got_header, mut got) = hands[1].1.take_within(LIMIT).expect("a frame");
        let moved = |place: u16| if place > 0 { place + 4 } else { 0 };
        let expected =
            NetHeader { csum_start: moved(header.csum_start), hdr_len: moved(header.hdr_len), ..header };
        assert_eq!(got_header, expected);
        assert_eq!(got.drain(12..16).collect::<Vec<_>>(), [0x81, 0, 0, 5]);
        let wanted = segment([8, 9], 8080, is_v6, is_partial);
        assert_eq!(got, wanted, "IPv6: {is_v6}, offload {offload}");
    }
    bench.stop();
}

/// A controller gets the bytes that would leave: with tags, changed fields, and whole checksums.
#[test]
fn controllers_get_frames_as_they_leave_and_with_whole_checksums() {
    let set = "set_field:8080->tcp_dst,push_vlan:0x8100,set_field:4101->vlan_vid,controller,output:2";
    let flows = [
        format!("tcp actions=set_field:10.0.0.8->ip_src,{set}"),
        format!("tcp6 actions=set_field:{}:fd08->ipv6_src,{set}", ["fdfd"; 7].join(":")),
        "priority=1 actions=controller(max_len=20)".to_owned(),
    ];
    let (bench, mut hands) = with_flows(2, &flows.each_ref().map(String::as_str), 1);
    let punted = |hands: &mut Hands, header: NetHeader, frame: &[u8]| {
        assert!(hands[0].0.inject(header, frame));
        until("a frame for controllers", || !bench.raised.lock().unwrap().is_empty());
        match bench.raised.lock().unwrap().remove(0).wanted {
            Wanted::Frame(frame) => frame,
            Wanted::Learn(..) => panic!("no flow learns"),
        }
    };
    for is_v6 in [false, true] {
        let [whole, partial] = [false, true].map(|is_partial| segment([1, 2], 80, is_v6, is_partial));
        let got = punted(&mut hands, NetHeader::default(), &whole);
        let left = receive(&mut hands[1].1);
        assert_eq!((&got.bytes, got.frame_bytes), (&left, left.len()), "IPv6: {is_v6}");
        let (at, _) = pseudo(&partial);
        let flags = NetHeader::F_NEEDS_CSUM;
        let header = NetHeader { flags, csum_start: at as u16, csum_offset: 16, ..NetHeader::default() };
        let got = punted(&mut hands, header, &partial);
        assert_eq!(got.bytes, left, "IPv6: {is_v6}");
        receive(&mut hands[1].1);
    }
    let other = frame(station(1), station(2), 7);
    let got = punted(&mut hands, NetHeader::default(), &other);
    assert_eq!((&got.bytes[..], got.frame_bytes), (&other[..20], 100));
    bench.stop();
}

/// Other tables and ports get the numbers of those that are gone, and nothing that waited for them.
#[test]
fn frames_of_tables_and_of_ports_that_are_gone_reach_no_others() {
    let (bench, mut hands) = with_flows(3, &["actions=controller"], 1);
    let (left, hands) = bench.change(move |view| {
        let mut send = |view: &View<'_>, sent: u64| {
            assert!(hands[0].0.inject(NetHeader::default(), &frame(station(1), station(2), 7)));
            let frames = || view.snapshot().workers.iter().map(|worker| worker.frames).sum::<u64>();
            until("a frame for controllers", || frames() >= sent);
        };
        let tables = view.flows(None);
        send(view, 1);
        let stays = view.take_raised(usize::MAX).len();
        send(view, 2);
        view.set_flows(None, None).unwrap();
        view.set_flows(None, tables).unwrap();
        let of_tables = view.take_raised(usize::MAX).len();
        send(view, 3);
        view.remove_port("a").unwrap();
        ([stays, of_tables, view.take_raised(usize::MAX).len()], hands)
    });
    assert_eq!(left, [1, 0, 0]);
    bench.stop();
    drop(hands);
}

/// Each frame goes by the former tables or by the new ones, and all are counted.
#[test]
fn tables_are_replaced_while_frames_pass() {
    let (bench, mut hands) = with_flows(3, &["actions=output:2"], 2);
    for n in 0..20 {
        send(&mut hands[0].0, &frame(station(2), station(1), n));
        settled(&bench, n + 1);
        let port = if n % 2 == 0 { 3 } else { 2 };
        let counted = bench.change(move |view| {
            let former = view.flows(None).unwrap();
            let tables = tables(&[&format!("actions=output:{port}")]);
            view.set_flows(None, Some(Arc::new(tables))).unwrap();
            former.entries(0)[0].counters().get()
        });
        assert_eq!(counted, (1, 100));
    }
    bench.stop();
    let evens = (0..20).filter(|n| n % 2 == 0);
    assert_eq!(rest(&mut hands[1]), evens.collect::<Vec<_>>());
    assert_eq!(rest(&mut hands[2]), (0..20).filter(|n| n % 2 == 1).collect::<Vec<_>>());
}

/// One network forwards by its tables, the others learn; without its tables it learns again.
#[test]
fn a_network_gets_tables_of_its_own_and_learns_again_without_them() {
    for workers in [1, 2] {
        let options = Options { workers: vec![None; workers], ..Options::default() };
        let (bench, mut hands) = Bench::learning(4, options);
        let in_network = |network: &str, number| PortOptions {
            network: network.to_owned(),
            number,
            ..PortOptions::default()
        };
        let [one, two] = [in_network("n", Some(7)), in_network("n", Some(9))];
        bench.change(move |view| {
            view.set_port_options("a", one).unwrap();
            view.set_port_options("b", two).unwrap();
        });
        let send_one = |hands: &mut Hands, from: usize, number: u64| {
            send(&mut hands[from].0, &frame(station(8), station(number as u8), number));
        };
        let back = Arc::new(tables(&["in_port=7 actions=in_port"]));
        let published = Arc::clone(&back);
        bench.change(move |view| view.set_flows(Some("n"), Some(published)).unwrap());
        send_one(&mut hands, 0, 1);
        send_one(&mut hands, 2, 2);
        settled(&bench, 2);
        assert_eq!(back.entries(0)[0].counters().get(), (1, 100));
        bench.change(|view| view.set_flows(Some("n"), None).unwrap());
        send_one(&mut hands, 0, 3);
        settled(&bench, 3);
        let snapshot = bench.stop();
        check_books(&snapshot, 0);
        assert_eq!([0, 1, 2, 3].map(|at| rest(&mut hands[at])), [vec![1], vec![3], vec![], vec![2]]);
    }
}

#[test]
fn a_number_belongs_to_one_port_of_a_network() {
    let (bench, _hands) = Bench::learning(2, Options::default());
    let with = |number| PortOptions { number: Some(number), ..PortOptions::default() };
    let refused =
        bench.change(move |view| view.set_port_options("a", with(2)).err().map(|error| error.to_string()));
    assert!(refused.unwrap().contains("OpenFlow number 2"));
    let ports = bench.change(move |view| {
        view.set_port_options("a", with(5)).unwrap();
        view.add_port("late", Box::new(in_memory(1).0), PortOptions::default()).unwrap();
        view.numbered_ports()
    });
    let numbers: Vec<_> = ports.iter().map(|port| (port.name.as_str(), port.number)).collect();
    assert_eq!(numbers, [("a", 5), ("b", 2), ("late", 3)]);
    bench.stop();
}

#[test]
fn a_switch_with_flow_tables_has_no_vlans() {
    let vlans = VlanOptions { tag: Some(5), ..VlanOptions::default() };
    let with_vlans = PortOptions { vlans, ..PortOptions::default() };
    let (bench, _hands) = Bench::learning(2, Options::default());
    let tagged = with_vlans.clone();
    let refused = bench.change(move |view| {
        view.set_port_options("a", tagged).unwrap();
        view.set_flows(None, Some(Arc::new(tables(&[]))))
    });
    assert!(matches!(refused, Err(ChangeError::VlansBesideFlows(_))), "{refused:?}");
    bench.stop();
    let (bench, _hands) = with_flows(2, &["actions=normal"], 1);
    let refused = bench.change(move |view| {
        let added = view.add_port("late", Box::new(in_memory(1).0), with_vlans.clone());
        [added, view.set_port_options("a", with_vlans)]
    });
    assert!(refused.iter().all(|refused| matches!(refused, Err(ChangeError::VlansBesideFlows(_)))));
    bench.stop();
}
