//! Fragments under `ct`.
use super::*;

/// The first host speaks with an address that the second one never sees.
const FLOWS: &str = "\
table=0,priority=1,ip actions=ct(table=1,zone=7,nat)
table=0,priority=1,ipv6 actions=ct(table=1,zone=7,nat)
table=1,priority=2,ip,ct_state=+trk+new,ct_nw_proto=17,ct_tp_dst=53,in_port=1 actions=ct(commit,zone=7,nat(src=10.0.9.9:9999)),output:2
table=1,priority=2,ipv6,ct_state=+trk+new,ct_nw_proto=17,ct_tp_dst=53,in_port=1 actions=ct(commit,zone=7,nat(src=[fd00::99]:9999)),output:2
table=1,priority=1,ct_state=+trk+est,in_port=1 actions=output:2
table=1,priority=1,ct_state=+trk+est+rpl,in_port=2 actions=output:1
table=1,priority=1,ct_state=+trk+inv actions=output:3";

fn framed(datagram: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if datagram[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    [&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1], &kind[..], datagram].concat()
}

/// A datagram as fragments of at most 1,000 bytes.
fn fragmented(datagram: &[u8], id: u16) -> Vec<Vec<u8>> {
    let end = datagram.len() - if datagram[0] >> 4 == 4 { 20 } else { 40 };
    let part = |at: usize| datagrams::fragment(datagram, id, at..(at + 1000).min(end), at + 1000 < end);
    (0..end).step_by(1000).map(|at| framed(&part(at))).collect()
}

#[test]
fn fragments_are_tracked_as_a_whole_and_leave_as_they_came() {
    let mut scene = Scene::start(FLOWS);
    let none = Vec::<Vec<u8>>::new;
    for (host, seen, other) in [("10.0.0.1", "10.0.9.9", "10.0.0.2"), ("fd00::1", "fd00::99", "fd00::2")] {
        let udp = |from, to, ports| datagrams::udp(datagrams::Ends::new(from, to, ports), &[7; 3500]);
        let (asks, asked) = (udp(host, other, [2000, 53]), udp(seen, other, [9999, 53]));
        let (answers, answered) = (udp(other, seen, [53, 9999]), udp(other, host, [53, 2000]));
        for id in [1, 2] {
            let mut sent = fragmented(&asks, id);
            sent.rotate_left(1);
            let early = sent.pop().unwrap();
            assert_eq!(scene.send(1, &sent), [none(), none(), none(), none()], "one is missing");
            assert_eq!(scene.send(2, std::slice::from_ref(&early)), [none(), none(), none(), none()]);
            assert_eq!(scene.send(1, &[early]), [none(), fragmented(&asked, id), none(), none()]);
            let sent = fragmented(&answers, id);
            assert_eq!(scene.send(2, &sent), [fragmented(&answered, id), none(), none(), none()]);
        }
        // Its ports are in the second fragment.
        let segment =
            datagrams::Tcp::new(datagrams::SYN, 1, 0).datagram(datagrams::Ends::new(host, other, [1, 2]));
        let end = segment.len() - if segment[0] >> 4 == 4 { 20 } else { 40 };
        let tiny = [(0, 8, true), (8, end, false)]
            .map(|(start, end, more)| framed(&datagrams::fragment(&segment, 5, start..end, more)));
        let sent = scene.send(1, &tiny);
        assert_eq!((&sent[1], sent[2].len()), (&none(), 2), "invalid: RFC 1858");
    }
    scene.switch.end();
}

/// One guest sends first fragments without end: neighbours' datagrams are complete, and the switch's memory is bounded.
#[test]
fn fragments_without_end_harm_no_neighbour() {
    let mut scene = Scene::start(FLOWS);
    let ends = datagrams::Ends::new("10.0.0.3", "10.0.0.2", [7, 53]);
    let endless = datagrams::udp(ends, &[7; 1400]);
    let datagram = datagrams::udp(datagrams::Ends::new("10.0.0.1", "10.0.0.2", [2000, 53]), &[7; 1500]);
    let mut sent = fragmented(&datagram, 1);
    let last = sent.pop().unwrap();
    scene.send(1, &sent);
    for burst in 0..60_u16 {
        let first = |id: u16| framed(&datagrams::fragment(&endless, burst * 50 + id, 0..1400, true));
        let left = scene.send(4, &(0..50).map(first).collect::<Vec<_>>());
        assert!(left.iter().all(Vec::is_empty));
    }
    assert_eq!(scene.send(1, &[last])[1].len(), 2);
    // 3,000 frames of 1.4 KB came, and a port holds 1 MiB at most.
    wait_for("the drops", || {
        (drops(&scene.switch.snapshot(), "p4", "fragment of an incomplete datagram") > 2200).then_some(())
    });
    scene.switch.end();
}
