//! Packets of tunnels in fragments: what comes out, and what hostile fragments may take.
use super::*;

/// Cuts the packet of a frame into fragments with so many bytes of payload, a multiple of 8.
fn fragments(frame: &[u8], bytes: usize, id: u16) -> Vec<Vec<u8>> {
    let is_v6 = frame[12..14] == [0x86, 0xdd];
    let headers = if is_v6 { 54 } else { 34 };
    let payload = &frame[headers..];
    let fragment = |(number, part): (usize, &[u8])| {
        let offset = number * bytes;
        let more = offset + part.len() < payload.len();
        let mut fragment = frame[..headers].to_vec();
        if is_v6 {
            fragment[18..20].copy_from_slice(&(8 + part.len() as u16).to_be_bytes());
            let protocol = std::mem::replace(&mut fragment[20], protocol::IPV6_FRAGMENT);
            fragment.extend([protocol, 0]);
            fragment.extend((offset as u16 | u16::from(more)).to_be_bytes());
            fragment.extend([0, 0]);
            fragment.extend(id.to_be_bytes());
        } else {
            fragment[16..18].copy_from_slice(&(20 + part.len() as u16).to_be_bytes());
            fragment[18..20].copy_from_slice(&id.to_be_bytes());
            fragment[20..22].copy_from_slice(&((offset as u16 / 8) | (u16::from(more) << 13)).to_be_bytes());
            sum_header(&mut fragment);
        }
        fragment.extend(part);
        fragment
    };
    payload.chunks(bytes).enumerate().map(fragment).collect()
}

/// Completes the checksum of an IPv4 header.
fn sum_header(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let mut sum = Sum::default();
    sum.add(&frame[14..34]);
    frame[24..26].copy_from_slice(&(!sum.folded()).to_be_bytes());
}

impl Underlay {
    fn take(&mut self, frame: &[u8]) {
        self.terminator.accept(&FrameBatch::of_frame(frame).unwrap(), &[0]).unwrap();
    }

    /// A frame with outer headers, as it leaves by the underlay.
    fn sent(&mut self, context: &mut TestContext, frame: &[u8]) -> Vec<u8> {
        send(context, NetHeader::default(), frame);
        let sent = completed(self.from_tunnels.rx_burst(1).unwrap()).remove(0);
        self.from_tunnels.release();
        sent
    }
}

/// The frames that came through a tunnel.
fn arrived(context: &mut TestContext) -> Vec<Vec<u8>> {
    let source = context.sources.get_mut(&0).unwrap();
    let frames = completed(source.rx_burst(64).unwrap());
    source.release();
    frames
}

#[test]
fn a_packet_in_fragments_comes_out_whole() {
    let mut underlay = Underlay::new("test7", 107);
    for kind in Kind::ALL {
        for remote in underlay.addresses {
            let settings = Settings { key: Some(KEY), checksum: true, ..Settings::new(kind, Some(remote)) };
            let (mut port, mut context) = start(settings);
            for (id, bytes) in [(1, 504), (2, 1000), (3, 64)] {
                let frame = tcp(1200);
                let mut parts = fragments(&underlay.sent(&mut context, &frame), bytes, id);
                parts.rotate_left(1);
                let last = parts.pop().unwrap();
                parts.iter().for_each(|part| underlay.take(part));
                assert!(arrived(&mut context).is_empty(), "{kind:?}: before the packet is complete");
                underlay.take(&last);
                assert_eq!(arrived(&mut context), [frame], "{kind:?} {remote} {bytes}");
            }
            port.end(&mut context);
        }
    }
    assert_eq!(underlay.drops(DropReason::Incomplete), 0);
    assert_eq!(underlay.terminator.counters().frames(), 0);
}

/// A sender spreads its frames over queue pairs, or a route goes over two links.
#[test]
fn fragments_that_come_to_different_sinks_are_one_packet() {
    let mut underlay = Underlay::new("test18", 118);
    let own = underlay.addresses[0];
    let (mut port, mut context) =
        start(Settings { key: Some(KEY), ..Settings::new(Kind::Geneve, Some(own)) });
    let kernel = queue(QueueOptions::default()).unwrap().0;
    let mut second = Terminator::new("test18", Box::new(kernel), &underlay.waiting).unwrap();
    let frame = tcp(1200);
    for id in 0..2 {
        let parts = fragments(&underlay.sent(&mut context, &frame), 504, id);
        for (number, part) in parts.iter().enumerate() {
            match (number + usize::from(id)) % 2 {
                0 => underlay.take(part),
                _ => second.accept(&FrameBatch::of_frame(part).unwrap(), &[0]).unwrap(),
            }
        }
        assert_eq!(arrived(&mut context), std::slice::from_ref(&frame), "packet {id}");
    }
    port.end(&mut context);
}

#[test]
fn fragments_for_no_tunnel_are_the_kernels() {
    let mut underlay = Underlay::new("test8", 108);
    let own = underlay.addresses[0];
    let (mut port, mut context) =
        start(Settings { key: Some(KEY), ..Settings::new(Kind::Geneve, Some(own)) });
    let mut sent = underlay.sent(&mut context, &tcp(1200));
    sent[36..38].copy_from_slice(&53_u16.to_be_bytes());
    let parts = fragments(&sent, 504, 1);
    parts.iter().for_each(|part| underlay.take(part));
    assert_eq!(underlay.terminator.counters().frames(), parts.len() as u64);
    assert!(arrived(&mut context).is_empty());
    port.end(&mut context);
}

/// A sender of fragments without end drops its own, and another sender's packets come through.
#[test]
fn a_flood_of_fragments_takes_its_share_alone() {
    let mut underlay = Underlay::new("test9", 109);
    let own = underlay.addresses[0];
    let (mut port, mut context) =
        start(Settings { key: Some(KEY), ..Settings::new(Kind::Geneve, Some(own)) });
    let frame = tcp(1200);
    let good = underlay.sent(&mut context, &frame);
    let mut hostile = good.clone();
    hostile[29] ^= 1; // another sender
    let others = fragments(&good, 504, 1);
    underlay.take(&others[0]);
    for id in 0..10_000 {
        underlay.take(&fragments(&hostile, 504, id)[usize::from(id) % 2]);
    }
    // At most 64 packets of one sender wait.
    assert_eq!(underlay.drops(DropReason::Incomplete), 10_000 - 64);
    others[1..].iter().for_each(|part| underlay.take(part));
    assert_eq!(arrived(&mut context), [frame]);
    // Fragments that overlap are no packet, nor are parts beyond the longest one.
    let before = underlay.drops(DropReason::Incomplete);
    let mut overlapping = fragments(&good, 504, 2);
    overlapping[1][21] -= 1;
    sum_header(&mut overlapping[1]);
    overlapping.iter().for_each(|part| underlay.take(part));
    let mut beyond = fragments(&good, 504, 3);
    beyond[1][20..22].copy_from_slice(&0x1fff_u16.to_be_bytes());
    sum_header(&mut beyond[1]);
    underlay.take(&beyond[1]);
    assert!(underlay.drops(DropReason::Incomplete) >= before + 3);
    assert!(arrived(&mut context).is_empty());
    port.end(&mut context);
}

/// A mark of a router on one fragment holds for the whole, and reaches the inner packet or costs the frame.
#[test]
fn congestion_marks_reach_the_inner_packet() {
    let mut underlay = Underlay::new("test10", 110);
    let own = underlay.addresses[0];
    let (mut port, mut context) =
        start(Settings { key: Some(KEY), ..Settings::new(Kind::Geneve, Some(own)) });
    let inner = |mark: u8| {
        let mut frame = tcp(1200);
        frame[15] = mark;
        sum_header(&mut frame);
        frame
    };
    let whole = underlay.sent(&mut context, &inner(2));
    assert_eq!(whole[15], 2, "the outer header has the inner mark");
    let marked = |mut frame: Vec<u8>| {
        frame[15] |= 3;
        sum_header(&mut frame);
        frame
    };
    underlay.take(&marked(whole.clone()));
    assert_eq!(arrived(&mut context), [inner(3)]);
    let mut parts = fragments(&whole, 504, 1);
    parts[1] = marked(parts[1].clone());
    parts.iter().for_each(|part| underlay.take(part));
    assert_eq!(arrived(&mut context), [inner(3)]);
    let unaware = underlay.sent(&mut context, &inner(0));
    assert_eq!(unaware[15], 0);
    underlay.take(&marked(unaware));
    assert_eq!((underlay.drops(DropReason::LostMark), arrived(&mut context).len()), (1, 0));
    port.end(&mut context);
}
