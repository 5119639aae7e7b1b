//! Which fragments are a datagram: Linux reassembles them, and so does this crate.
use std::time::Duration;

use conntrack::{FragmentFrame, FragmentLimits, Fragments, Held, Packet, Whole};

use super::common::{Ends, Random, below, fragment, of, udp};
use super::ours::Ours;
use super::router::{Router, Side};

const LIMITS: FragmentLimits = FragmentLimits {
    ports: 1,
    bytes: 1 << 20,
    bytes_per_port: 1 << 20,
    datagrams: 1000,
    datagrams_per_port: 1000,
    time: Duration::from_secs(30),
};

/// Some fragments of a datagram, in their order, not always all of them or without contradictions.
fn fragments(random: &mut Random, datagram: &[u8], id: u16) -> Vec<Vec<u8>> {
    let is_v4 = datagram[0] >> 4 == 4;
    let payload = datagram.len() - if is_v4 { 20 } else { 40 };
    let mut places = vec![0, payload];
    for _ in 0..=below(random, 5) {
        places.push((1 + below(random, payload / 8 - 1)) * 8);
    }
    places.sort_unstable();
    places.dedup();
    let whole: Vec<_> = places.windows(2).map(|part| (part[0], part[1], part[1] != payload)).collect();
    let mut parts = whole.clone();
    if below(random, 2) == 0 {
        (1..parts.len()).for_each(|at| parts.swap(at, below(random, at + 1)));
    }
    let (start, end, more) = of(random, &whole);
    match below(random, 8) {
        0 => parts.retain(|part| part.0 != start),
        1 => parts.insert(below(random, parts.len() + 1), (start, end, more)),
        // Within one that has come, when it comes.
        2 if end - start > 24 && more => parts.push((start + 8, end - 8, true)),
        // Overlaps the one before.
        3 if start > 0 => parts.iter_mut().filter(|part| part.0 == start).for_each(|part| part.0 -= 8),
        // Over IPv6, Linux drops a fragment alone that contradicts the datagram's end.
        4 if is_v4 => {
            parts.insert(below(random, parts.len()), (payload / 8 * 8 + 8, payload / 8 * 8 + 48, true))
        }
        5 if is_v4 && more && start > 0 => parts.insert(below(random, parts.len()), (start, end, false)),
        _ => {}
    }
    parts.into_iter().map(|(start, end, more)| fragment(datagram, id, start..end, more)).collect()
}

/// The payload of the datagram that these fragments are, by their offsets.
fn joined(fragments: &[Vec<u8>]) -> Vec<u8> {
    let mut all = Vec::new();
    for datagram in fragments {
        let (header, place) = if datagram[0] >> 4 == 4 { (20, 6) } else { (48, 42) };
        let word = u16::from_be_bytes([datagram[place], datagram[place + 1]]);
        let is_whole = datagram[0] >> 4 == 6 && datagram[6] != 44;
        let (header, at) = match (header, is_whole) {
            (_, true) => (40, 0),
            (20, _) => (20, usize::from(word & 0x1fff) * 8),
            _ => (48, usize::from(word & 0xfff8)),
        };
        let bytes = &datagram[header..];
        all.resize(all.len().max(at + bytes.len()), 0);
        all[at..at + bytes.len()].copy_from_slice(bytes);
    }
    all
}

fn take(fragments: &mut Fragments, whole: Whole) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while fragments.next_bytes(whole).is_some() {
        let mut frame = Vec::new();
        fragments.take(whole, |part| frame.extend(part));
        all.push(frame);
    }
    all
}

/// What leaves of these fragments: state, source address and payload of the datagram.
type Left = Option<(&'static str, Vec<u8>, Vec<u8>)>;

fn left(state: &'static str, fragments: &[Vec<u8>]) -> Left {
    let first = fragments.first()?;
    let source = if first[0] >> 4 == 4 { 12..16 } else { 8..24 };
    Some((state, first[source].to_vec(), joined(fragments)))
}

fn here(ours: &mut Ours, fragments: &mut Fragments, sent: &[Vec<u8>]) -> Left {
    let mut result = None;
    for datagram in sent {
        let frame = FragmentFrame {
            port: 0,
            tags: 0,
            head: datagram,
            network: 0,
            frame_bytes: datagram.len(),
            rest: &|_, _| 0,
        };
        match Packet::read(datagram) {
            Ok(_) => {
                let whole = ours.pass(Side::Left, datagram);
                result = result.or_else(|| left(whole.state, &[whole.datagram]));
            }
            Err(_) => {
                if let Held::Complete(whole) = fragments.hold(&frame, Duration::ZERO) {
                    let (state, all) = ours.pass_whole(Side::Left, &take(fragments, whole), whole.payload);
                    result = result.or_else(|| left(state, &all));
                }
            }
        }
    }
    result
}

/// So many datagrams in fragments through Linux and through this crate. The error has the first ones that differ.
pub fn compare(router: &mut Router, datagrams: u16, seed: u64) -> Result<usize, String> {
    let (mut random, mut ours) = (Random(seed), Ours::new(true));
    let mut held = Fragments::new(LIMITS);
    let (mut complete, mut wrong) = (0, Vec::new());
    for number in 0..datagrams {
        const PAIRS: [(&str, &str); 4] = [
            ("10.1.0.1", "10.2.0.1"),
            ("10.1.0.2", "10.2.0.1"),
            ("fd01::1", "fd02::1"),
            ("fd01::2", "fd02::1"),
        ];
        let (from, to) = of(&mut random, &PAIRS);
        let ends = Ends::new(from, to, [1000 + number, 53]);
        let payload: Vec<u8> = (0..100 + below(&mut random, 1200)).map(|at| at as u8).collect();
        let sent = fragments(&mut random, &udp(ends, &payload), number + 1);
        let theirs =
            router.pass_all(Side::Left, &sent, &udp(Ends { ports: [1000 + number, 54], ..ends }, b""));
        let state = theirs.first().map_or("", |left| left.state);
        let theirs: Vec<_> = theirs.into_iter().map(|left| left.datagram).collect();
        let (theirs, here) = (left(state, &theirs), here(&mut ours, &mut held, &sent));
        complete += usize::from(here.is_some());
        if theirs != here {
            let places = sent.iter().map(|datagram| format!("{:02x?}", &datagram[..datagram.len().min(48)]));
            wrong.push(format!(
                "datagram {number}: {:?} here, {:?} in Linux\n {}",
                here.map(|here| (here.0, here.1, here.2.len())),
                theirs.map(|theirs| (theirs.0, theirs.1, theirs.2.len())),
                places.collect::<Vec<_>>().join("\n ")
            ));
            if wrong.len() > 4 {
                break;
            }
        }
    }
    if wrong.is_empty() { Ok(complete) } else { Err(wrong.join("\n\n")) }
}
