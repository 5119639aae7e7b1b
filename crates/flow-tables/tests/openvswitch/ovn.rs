//! The flows that OVN 23.03 gave a chassis: virtual machines, a gateway, load balancers, security groups.
use flow::{Field, Key};

use super::chassis::{ADDRESSES, AllNew, MACHINES, TO, load};
use super::common::Random;
use super::flows::of;
use super::frames::below;
use super::hex;
use super::peer::Peer;
use super::trace::passed;

/// Frames for each set of random tables in the other test.
const FRAMES: usize = 10;
fn frame(random: &mut Random) -> (u16, Vec<u8>) {
    let (port, mut source, address) = of(random, &MACHINES);
    if below(random, 10) == 0 {
        source = [2, 0, 0, 0, 0, 0x99];
    }
    let mut frame = of(random, &TO).to_vec();
    frame.extend(source);
    let to = of(random, &ADDRESSES);
    if below(random, 8) == 0 {
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1 + below(random, 2) as u8]);
        frame.extend(source);
        frame.extend(address);
        frame.extend([0; 6]);
        frame.extend(to);
        frame.resize(60, 0);
        return (port, frame);
    }
    let protocol = of(random, &[6, 17, 1_u8]);
    let mut payload = (1024 + below(random, 60_000) as u16).to_be_bytes().to_vec();
    match protocol {
        6 => {
            payload.extend(of(random, &[22, 80, 443, 8050, 8080_u16]).to_be_bytes());
            payload.extend([
                0,
                0,
                0,
                1,
                0,
                0,
                0,
                0,
                0x50,
                of(random, &[2, 0x10, 0x12, 1]),
                0x20,
                0,
                0,
                0,
                0,
                0,
            ]);
        }
        17 => {
            payload.extend(of(random, &[53, 67, 5000_u16]).to_be_bytes());
            payload.extend([0, 20, 0, 0]);
            payload.extend([7; 12]);
        }
        _ => payload = vec![8, 0, 0, 0, 0, 1, 0, 1],
    }
    payload.resize(payload.len() + below(random, 80), 5);
    frame.extend([8, 0, 0x45, of(random, &[0, 0, 0xb8])]);
    frame.extend((20 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 1, 0, 0, of(random, &[1, 64, 255]), protocol, 0, 0]);
    frame.extend(address);
    frame.extend(to);
    frame.extend(payload);
    frame.resize(frame.len().max(60), 0);
    (port, frame)
}

/// Each frame passes the flows that it passes in Open vSwitch's `ofproto/trace`.
#[test]
fn frames_pass_the_same_flows_of_ovn_as_in_openvswitch() {
    let peer = Peer::without_groups(10);
    let tables = load(&peer);
    let mut random = Random(61);
    let (mut chosen, mut longest) = (0, 0);
    let frames = FRAMES * super::sets();
    for _ in 0..frames {
        let (input, frame) = frame(&mut random);
        let mut metadata = Key::ZERO;
        metadata.set(Field::InPortOxm, input.into());
        let ours = tables.trace(&frame, frame.len(), &metadata, &mut AllNew);
        // Which bucket a hash selects is each switch's own. Open vSwitch follows both outcomes of a check of the length.
        if ours.contains("group:") || ours.contains("check_pkt_larger") {
            chosen += 1;
            continue;
        }
        let theirs = peer.trace(input, &hex(&frame));
        let (mut one, mut other) = (passed(&ours), passed(&theirs));
        longest = longest.max(one.len());
        // Connections are looked up at once here; Open vSwitch does it when all other actions are done.
        one.sort();
        other.sort();
        assert_eq!(one, other, "frame {}\n{ours}\n{theirs}", hex(&frame));
    }
    assert!(chosen < frames / 2 && longest > 40, "{chosen} frames met groups; {longest} flows");
}
