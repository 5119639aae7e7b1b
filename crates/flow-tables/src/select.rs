//! Chooses among alternatives by a frame's fields: a bucket of a group, a port of a bundle.
use flow::{Bundle, Field, HashFields, Key};

use crate::Surroundings;

fn mix(hash: u64, word: u64) -> u64 {
    let mut mixed = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

pub(crate) fn hash(basis: u64, values: impl IntoIterator<Item = u128>) -> u64 {
    values.into_iter().fold(basis, |hash, value| mix(mix(hash, value as u64), (value >> 64) as u64))
}

/// Addresses, protocol and ports, which are the same for all frames of one direction of a connection.
pub(crate) const FLOW: [Field; 10] = [
    Field::EthSrc,
    Field::EthDst,
    Field::EthType,
    Field::IpSrc,
    Field::IpDst,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::NwProto,
    Field::TcpSrc,
    Field::TcpDst,
];

/// The choice with the highest random weight. Each choice is `(choice, number, share)`; a choice with the share 0 is
/// never taken. When a choice is added or removed, only the frames of this choice are moved.
pub(crate) fn heaviest<'a, T>(hash: u64, choices: impl Iterator<Item = (&'a T, u64, u16)>) -> Option<&'a T> {
    let score = |id: u64, weight: u16| {
        let uniform = (mix(hash, id) >> 11) as f64 / (1_u64 << 53) as f64; // 53 bits
        -f64::from(weight) / (uniform.max(f64::MIN_POSITIVE)).ln()
    };
    let scored =
        choices.filter(|(.., weight)| *weight > 0).map(|(choice, id, weight)| (score(id, weight), choice));
    scored.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, choice)| choice)
}

/// The port that a bundle chooses.
pub(crate) fn choose<S: Surroundings>(bundle: &Bundle, key: &Key, around: &S) -> Option<u16> {
    let mut live = bundle.members.iter().filter(|port| around.is_live(**port));
    if !bundle.by_weight {
        return live.next().copied();
    }
    let both = |fields: [Field; 2]| fields.iter().fold(0, |sum: u128, field| sum ^ key.get(*field));
    let of = |values: &[u128]| hash(bundle.basis.into(), values.iter().copied());
    let symmetric = |ports: bool| {
        let addresses = [Field::IpSrc, Field::Ipv6Src].map(|field| key.get(field));
        let others = [Field::IpDst, Field::Ipv6Dst].map(|field| key.get(field));
        let port = if ports { both([Field::TcpSrc, Field::TcpDst]) } else { 0 };
        [addresses[0] ^ others[0], addresses[1] ^ others[1], key.get(Field::NwProto), port]
    };
    let is_udp = key.get(Field::NwProto) == flow::protocol::UDP.into();
    let hash = match bundle.fields {
        HashFields::EthSrc => of(&[key.get(Field::EthSrc)]),
        HashFields::NwSrc => of(&[key.get(Field::IpSrc), key.get(Field::Ipv6Src)]),
        HashFields::NwDst => of(&[key.get(Field::IpDst), key.get(Field::Ipv6Dst)]),
        HashFields::SymmetricL3 => of(&symmetric(false)),
        HashFields::SymmetricL3L4 => of(&symmetric(!is_udp)),
        HashFields::SymmetricL3L4Udp => of(&symmetric(true)),
        HashFields::SymmetricL4 => {
            let [one, two, protocol, ports] = symmetric(true);
            let addresses = both([Field::EthSrc, Field::EthDst]);
            of(&[one, two, protocol, ports, addresses, key.get(Field::EthType), key.get(Field::VlanTci)])
        }
    };
    heaviest(hash, live.map(|port| (port, u64::from(*port), 1))).copied()
}
