//! Finds which frames belong together by a hash of the flow, so that frames of one flow take one path and stay in
//! order.
//!
//! A flow is two IP addresses and, for TCP, UDP and SCTP, two ports. Fragments are hashed by their addresses
//! alone, because only the first one has ports. Frames that are not IP are hashed by their Ethernet addresses.
//! VLAN tags are skipped. Everything is read from the snapshot, except ports that lie behind it.
use frame::Frame;

use crate::Key;

const VLAN: u16 = 0x8100; // IEEE 802.1Q C-tag
const SERVICE_VLAN: u16 = 0x88a8; // IEEE 802.1Q S-tag
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

const WITH_PORTS: [u8; 3] = [6, 17, 132]; // TCP, UDP, SCTP: ports come first in all three

fn field<const N: usize>(snapshot: &[u8], at: usize) -> Option<[u8; N]> {
    snapshot.get(at..)?.first_chunk().copied()
}

fn u16_at(snapshot: &[u8], at: usize) -> Option<u16> {
    field(snapshot, at).map(u16::from_be_bytes)
}

fn u32_at(snapshot: &[u8], at: usize) -> Option<u64> {
    field(snapshot, at).map(|bytes| u64::from(u32::from_be_bytes(bytes)))
}

fn u64_at(snapshot: &[u8], at: usize) -> Option<u64> {
    field(snapshot, at).map(u64::from_be_bytes)
}

/// The hash of the flow that a frame belongs to.
#[inline]
pub fn of_frame(frame: &Frame<'_>, key: &Key) -> u64 {
    hash_with(frame.snapshot(), key, &|at| ports_beyond(frame, at))
}

/// The hash of the fields that the snapshot contains.
#[cfg(test)]
fn hash(snapshot: &[u8], key: &Key) -> u64 {
    hash_with(snapshot, key, &|_| None)
}

/// Ports that the snapshot does not hold, of IPv6 behind two tags or IPv4 with options. They choose a queue and nothing
/// else, so that it does no harm if the sender changes them later.
#[cold]
fn ports_beyond(frame: &Frame<'_>, at: usize) -> Option<u64> {
    let mut ports = [0; 4];
    if frame.read(at, &mut ports) < ports.len() {
        return None;
    }
    Some(u32::from_be_bytes(ports).into())
}

/// `beyond` gives the ports that begin behind the snapshot or reach beyond it, by their place in the frame.
#[inline(always)]
fn hash_with(snapshot: &[u8], key: &Key, beyond: &impl Fn(usize) -> Option<u64>) -> u64 {
    ip(snapshot, key, beyond).unwrap_or_else(|| {
        let addresses = (u64_at(snapshot, 0).unwrap_or(0), u32_at(snapshot, 8).unwrap_or(0));
        key.more(key.hash(addresses.0), addresses.1)
    })
}

#[inline(always)]
fn ip(snapshot: &[u8], key: &Key, beyond: &impl Fn(usize) -> Option<u64>) -> Option<u64> {
    let mut at = 12;
    let mut kind = u16_at(snapshot, at)?;
    for _ in 0..2 {
        if matches!(kind, VLAN | SERVICE_VLAN) {
            at += 4;
            kind = u16_at(snapshot, at)?;
        }
    }
    at += 2;
    let beyond = |place| beyond(at + place);
    match kind {
        IPV4 => ipv4(snapshot.get(at..)?, key, beyond),
        IPV6 => ipv6(snapshot.get(at..)?, key, beyond),
        _ => None,
    }
}

/// RFC 791 §3.1.
#[inline(always)]
fn ipv4(packet: &[u8], key: &Key, beyond: impl Fn(usize) -> Option<u64>) -> Option<u64> {
    let addresses = key.hash(u64_at(packet, 12)?);
    let header_bytes = usize::from(packet[0] & 0xf) * 4;
    let more_fragments_or_offset = u16_at(packet, 6)? & 0x3fff;
    let ports = match more_fragments_or_offset == 0 && WITH_PORTS.contains(&packet[9]) {
        true => u32_at(packet, header_bytes).or_else(|| beyond(header_bytes)),
        false => None,
    };
    Some(ports.map_or(addresses, |ports| key.more(addresses, ports)))
}

/// RFC 8200 §3. Extension headers, the fragment's among them, are not stepped over.
#[inline(always)]
fn ipv6(packet: &[u8], key: &Key, beyond: impl Fn(usize) -> Option<u64>) -> Option<u64> {
    let mut hash = 0;
    for at in [8, 16, 24, 32] {
        hash = key.more(hash, u64_at(packet, at)?);
    }
    let with_ports = WITH_PORTS.contains(&packet[6]);
    let ports = with_ports.then(|| u32_at(packet, 40).or_else(|| beyond(40))).flatten();
    Some(ports.map_or(hash, |ports| key.more(hash, ports)))
}

#[cfg(test)]
mod tests {
    use frame::FrameBatch;

    use super::*;

    /// Addresses, tags, IPv4 with these ports.
    fn udp(tags: &[u16], fragment: u16, ports: [u16; 2]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        for (i, tag) in tags.iter().enumerate() {
            frame.extend([SERVICE_VLAN, VLAN][i].to_be_bytes());
            frame.extend(tag.to_be_bytes());
        }
        frame.extend(IPV4.to_be_bytes());
        let mut packet = [0; 20];
        packet[0] = 0x45;
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet[9] = 17;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(packet);
        ports.iter().for_each(|port| frame.extend(port.to_be_bytes()));
        frame.resize(64, 0);
        frame
    }

    #[test]
    fn ports_tell_flows_apart_and_tags_and_payload_do_not() {
        let key = Key::random();
        let of = |frame: &[u8]| hash(frame, &key);
        let plain = udp(&[], 0, [1, 2]);
        assert_ne!(of(&plain), of(&udp(&[], 0, [1, 3])));
        assert_eq!(of(&plain), of(&udp(&[5], 0, [1, 2])));
        assert_eq!(of(&plain), of(&udp(&[5, 6], 0, [1, 2])));
        let mut longer = plain.clone();
        longer[63] = 9;
        assert_eq!(of(&plain), of(&longer));
    }

    #[test]
    fn all_fragments_of_a_datagram_go_one_way() {
        let key = Key::random();
        let first = hash(&udp(&[], 0x2000, [1, 2]), &key);
        assert_eq!(first, hash(&udp(&[], 0x2000 | 185, [77, 78]), &key));
        assert_eq!(first, hash(&udp(&[], 370, [9, 9]), &key));
    }

    #[test]
    fn ipv6_flows_are_told_apart() {
        let key = Key::random();
        let mut frame = vec![2; 12];
        frame.extend(IPV6.to_be_bytes());
        frame.resize(64, 0);
        frame[14 + 6] = 6;
        let mut other_port = frame.clone();
        other_port[14 + 41] = 1;
        let mut other_address = frame.clone();
        other_address[14 + 39] = 1;
        let hashes = [&frame, &other_port, &other_address].map(|frame| hash(frame, &key));
        assert!(hashes[0] != hashes[1] && hashes[0] != hashes[2] && hashes[1] != hashes[2]);
    }

    /// IPv6 behind two tags has its ports at 62 to 66, and IPv4 with all options behind one at 78 to 82.
    #[test]
    fn ports_behind_the_snapshot_tell_flows_apart() {
        let key = Key::random();
        let of = |frame: &[u8]| of_frame(&FrameBatch::of_frame(frame).unwrap().frame(0), &key);
        let mut v6 = vec![2; 12];
        v6.extend([0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x86, 0xdd]);
        v6.resize(100, 0);
        v6[22 + 6] = 17;
        let mut v4 = udp(&[5], 0, [0, 0]);
        v4.resize(100, 0);
        v4[18] = 0x4f;
        for (mut frame, ports) in [(v6, 62), (v4, 78)] {
            let plain = of(&frame);
            assert_eq!(plain, of(&frame));
            for at in 0..4 {
                frame[ports + at] = 1;
                assert_ne!(of(&frame), plain, "byte {at} of the ports");
                frame[ports + at] = 0;
            }
            frame[ports + 4] = 1;
            assert_eq!(of(&frame), plain, "behind the ports");
            (14..ports + 4).for_each(|len| _ = of(&frame[..len]));
        }
    }

    #[test]
    fn every_length_is_hashed() {
        let key = Key::random();
        for frame in [udp(&[], 0, [1, 2]), udp(&[1, 2], 0, [1, 2]), vec![0xff; 64]] {
            (14..=64).for_each(|len| _ = hash(&frame[..len], &key));
        }
        let mut arp = vec![2; 42];
        arp[12..14].copy_from_slice(&[8, 6]);
        let mut other = arp.clone();
        other[11] = 3;
        assert_ne!(hash(&arp, &key), hash(&other, &key));
    }
}
