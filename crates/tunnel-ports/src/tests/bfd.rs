//! Packets of the session with the other end of a tunnel.
use std::time::{Duration, Instant};

use tunnels::bfd::{Control, State, Timing};

use super::*;

/// A packet of an end that is down and knows no other number.
const PACKET: Control = Control {
    state: State::Down,
    diagnostic: 0,
    polls: false,
    is_final: false,
    multiplier: 3,
    discriminators: [99, 0],
    min_tx_us: 1_000_000,
    min_rx_us: 1_000_000,
};

fn session(kind: Kind, remote: IpAddr, port: u16, key: Option<u64>) -> Settings {
    Settings { key, port, bfd: Some(Timing::default()), ..Settings::new(kind, Some(remote)) }
}

/// All frames that wait for the network.
fn waiting(underlay: &mut Underlay) -> Vec<Vec<u8>> {
    let frames = completed(underlay.from_tunnels.rx_burst(64).unwrap());
    underlay.from_tunnels.release();
    frames
}

#[test]
fn a_packet_reaches_the_session_and_no_port() {
    let mut underlay = Underlay::new("test15", 115);
    let (mut port, mut context) = start(session(Kind::Geneve, underlay.addresses[0], 4805, Some(KEY)));
    assert_eq!(port.session()["state"], "down");
    assert!(!port.forwards());
    // The first packet is sent with the start, and this host is its own other end.
    let first = waiting(&mut underlay).remove(0);
    for state in ["init", "up"] {
        // Of the frame that was sent, with the packet of another end.
        let mut frame = first.clone();
        let packet = Control { state: if state == "init" { State::Down } else { State::Init }, ..PACKET };
        let own: [u8; 4] = *first[first.len() - 20..].first_chunk().unwrap();
        let discriminators = [99, if state == "init" { 0 } else { u32::from_be_bytes(own) }];
        let inner = Control { discriminators, ..packet }.frame(MAC);
        let inner_at = frame.len() - inner.len();
        frame[inner_at..].copy_from_slice(&inner);
        underlay.terminator.accept(&FrameBatch::of_frame(&frame).unwrap(), &[0]).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while port.session()["state"] != state && Instant::now() < deadline {
            context.turn(&mut port, Duration::from_secs(1));
        }
        assert_eq!(port.session()["state"], state);
    }
    assert!(port.forwards());
    assert!(context.sources.get_mut(&0).unwrap().rx_burst(8).unwrap().is_empty());
    assert_eq!(underlay.terminator.counters().frames(), 0, "nothing goes to the kernel");
    port.end(&mut context);
}

#[test]
fn a_guest_does_not_speak_for_the_session() {
    let mut underlay = Underlay::new("test16", 116);
    let remote = underlay.addresses[0];
    // The packets of the session have the key 0 if flows set the keys of frames.
    for (key, of_flow, is_sent) in [(Some(KEY), 0, false), (None, 0, false), (None, 7, true)] {
        let (mut port, mut context) = start(session(Kind::Vxlan, remote, 4806, key));
        waiting(&mut underlay);
        let mut fields = Key::ZERO;
        fields.set(Field::TunnelId, of_flow);
        let mut batch = FrameBatch::of_frame(&PACKET.frame(MAC)).unwrap();
        batch.set_metadata(0, &fields.tunnel());
        context.sinks.get_mut(&0).unwrap().accept(&batch, &[0]).unwrap();
        let drops = port.counters(0, Side::ToGuest).unwrap().drops(DropReason::Spoofed);
        assert_eq!((waiting(&mut underlay).len() == 1, drops == 0), (is_sent, is_sent), "{key:?} {of_flow}");
        port.end(&mut context);
    }
}

/// Control packets that a guest leaves the switch to cut out of one frame.
#[test]
fn a_guest_does_not_speak_for_the_session_by_segments() {
    let mut underlay = Underlay::new("test14", 114);
    let (mut port, mut context) = start(session(Kind::Geneve, underlay.addresses[0], 4814, Some(KEY)));
    waiting(&mut underlay);
    let packet = PACKET.frame(MAC);
    let control = &packet[42..];
    let mut frame = [&packet[..], control, &[0; 24]].concat();
    // The sender leaves lengths to the device.
    [16, 38].iter().for_each(|at| frame[*at..at + 2].fill(0));
    let header = NetHeader {
        flags: NetHeader::F_NEEDS_CSUM,
        gso_type: NetHeader::GSO_UDP_L4,
        gso_size: control.len() as u16,
        csum_start: TCP_AT as u16,
        csum_offset: 6,
        ..NetHeader::default()
    };
    send(&mut context, header, &frame);
    // The third segment is dropped by its headers: its payload may change until it is sent.
    assert_eq!(port.counters(0, Side::ToGuest).unwrap().drops(DropReason::Spoofed), 3);
    assert_eq!(waiting(&mut underlay).len(), 0);
    port.end(&mut context);
}

/// A checksum that is left to the device may become the port of control packets.
#[test]
fn a_guest_does_not_speak_for_the_session_by_a_checksum() {
    let mut underlay = Underlay::new("test20", 120);
    let (mut port, mut context) = start(session(Kind::Geneve, underlay.addresses[0], 4820, Some(KEY)));
    waiting(&mut underlay);
    let mut frame = PACKET.frame(MAC).to_vec();
    frame[36..38].fill(0);
    for (csum_offset, drops) in [(2, 1), (4, 1)] {
        let header = NetHeader {
            flags: NetHeader::F_NEEDS_CSUM,
            csum_start: TCP_AT as u16,
            csum_offset,
            ..NetHeader::default()
        };
        send(&mut context, header, &frame);
        assert_eq!(port.counters(0, Side::ToGuest).unwrap().drops(DropReason::Spoofed), drops);
    }
    assert_eq!(waiting(&mut underlay).len(), 1, "port 0 stays where another field is written");
    port.end(&mut context);
}

/// Packets without end are looked at in turns: most are lost, and the control thread is not woken for them.
#[test]
fn a_flood_of_packets_is_looked_at_in_turns() {
    let mut underlay = Underlay::new("test17", 117);
    let (mut port, mut context) = start(session(Kind::Geneve, underlay.addresses[0], 4807, Some(KEY)));
    let mut frame = waiting(&mut underlay).remove(0);
    let inner_at = frame.len() - PACKET.frame(MAC).len();
    frame[inner_at..].copy_from_slice(&PACKET.frame(MAC));
    let batch = FrameBatch::of_frame(&frame).unwrap();
    let began = Instant::now();
    let mut turns = 0;
    for _ in 0..20_000 {
        underlay.terminator.accept(&batch, &[0]).unwrap();
        turns += u128::from(context.turn(&mut port, Duration::ZERO));
    }
    // Each look is one turn that is woken by a packet, and one by the timer.
    let most = 2 * (began.elapsed().as_millis() / 5 + 2);
    assert!((1..=most).contains(&turns), "{turns} turns, {most} at most");
    assert_eq!(port.session()["state"], "init");
    port.end(&mut context);
}
