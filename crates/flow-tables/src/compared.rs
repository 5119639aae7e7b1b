//! The bits of a frame's fields by which a cache tells frames apart: bits that a flow matches, and bits that an action
//! reads or writes. They depend on flows and groups alone, so that no sender can change them.
//!
//! Frames that are equal in these bits pass the same flows, and get the same values in all fields that are written. The
//! bits of a flow or group that was removed stay in the mask until the tables are empty.
use std::sync::LazyLock;

use flow::{Action, Field, Flow, Group, GroupKind, HashFields, Key, Needs, Observation, Selection, Zone};

use crate::fields::{ENDS_TCP, TRACKED};
use crate::select::FLOW;

/// Fields that say which other fields a frame has, and the input port, to which no frame is flooded.
pub(crate) static ALWAYS: LazyLock<Key> = LazyLock::new(|| {
    let fields = [
        Field::InPortOxm,
        Field::EthType,
        Field::VlanTpid,
        Field::VlanTci,
        Field::InnerTpid,
        Field::InnerTci,
        Field::NwProto,
        Field::IpFrag,
    ];
    fields.iter().fold(Key::ZERO, |mask, field| mask.with_all(*field))
});

/// The addresses and ports of a connection.
const ENDS: [Field; 6] =
    [Field::IpSrc, Field::IpDst, Field::Ipv6Src, Field::Ipv6Dst, Field::TcpSrc, Field::TcpDst];

/// The addresses, protocol and ports of a connection's first direction.
const ORIGINAL: [Field; 7] = [
    Field::CtNwSrc,
    Field::CtNwDst,
    Field::CtIpv6Src,
    Field::CtIpv6Dst,
    Field::CtNwProto,
    Field::CtTpSrc,
    Field::CtTpDst,
];

/// What flows and groups read of a frame.
#[derive(Clone, Debug)]
pub(crate) struct Compared {
    /// The compared bits.
    pub mask: Key,
    /// Whether connections may get a helper, which reads the payload of frames.
    pub has_helper: bool,
}

impl Compared {
    /// Tables without flows.
    pub fn none() -> Compared {
        Compared { mask: *ALWAYS, has_helper: false }
    }
}

fn add_bits(mask: &mut Key, field: Field, bits: u128) {
    mask.set(field, mask.get(field) | bits);
    // Whether a frame has such a field depends on its type and code.
    if matches!(field.needs(), Needs::Neighbor | Needs::Solicitation | Needs::Advertisement) {
        add_all(mask, &[Field::IcmpType, Field::IcmpCode]);
    }
}

fn add_all(mask: &mut Key, fields: &[Field]) {
    fields.iter().for_each(|field| add_bits(mask, *field, field.all_bits()));
}

/// The bits that these actions read or write.
pub(crate) fn of_actions(actions: &[Action]) -> Key {
    let mut read = Compared { mask: Key::ZERO, has_helper: false };
    add_actions(&mut read, actions);
    read.mask
}

/// The bits by which a group selects, and the bits of its actions.
pub(crate) fn of_group(group: &Group) -> Key {
    let mut read = Compared { mask: Key::ZERO, has_helper: false };
    add_group(&mut read, group);
    read.mask
}

/// Adds the bits that a flow matches, and the bits of its actions.
pub(crate) fn add_flow(compared: &mut Compared, flow: &Flow) {
    compared.mask.add(flow.wanted.mask());
    add_actions(compared, &flow.actions);
}

/// Adds the bits by which a group selects, and the bits of its actions.
pub(crate) fn add_group(compared: &mut Compared, group: &Group) {
    let mask = &mut compared.mask;
    // A single bucket is taken by all frames, so no bits select.
    if group.kind == GroupKind::Select && group.buckets.len() > 1 {
        match &group.selection {
            Selection::Hash(_, fields) if !fields.is_empty() => {
                fields.iter().for_each(|(field, bits)| add_bits(mask, *field, *bits));
            }
            _ => add_all(mask, &FLOW),
        }
    }
    group.buckets.iter().for_each(|bucket| add_actions(compared, &bucket.actions));
}

fn add_actions(compared: &mut Compared, actions: &[Action]) {
    for action in actions {
        let mask = &mut compared.mask;
        match action {
            Action::SetField(field, _, bits) => add_bits(mask, *field, *bits),
            Action::SetOwn(field, _) => add_all(mask, &[*field]),
            Action::Move(from, to) => {
                add_bits(mask, from.field, from.mask());
                add_bits(mask, to.field, to.mask());
            }
            Action::OutputField(bits)
            | Action::Push(bits)
            | Action::Pop(bits)
            | Action::CheckPacketLarger(_, bits) => add_bits(mask, bits.field, bits.mask()),
            Action::DecTtl(_) => add_all(mask, &[Field::NwTtl]),
            Action::FinTimeout(_) => add_bits(mask, Field::TcpFlags, ENDS_TCP),
            Action::DecMplsTtl => add_all(mask, &[Field::MplsTtl]),
            Action::WriteMetadata(_, bits) => add_bits(mask, Field::Metadata, (*bits).into()),
            Action::Clone(inner) | Action::WriteActions(inner) => add_actions(compared, inner),
            Action::Resubmit { original: true, .. } => {
                add_all(mask, &ENDS);
                add_all(mask, &ORIGINAL);
            }
            Action::Ct(ct) => {
                if let Zone::Of(bits) = ct.zone {
                    add_bits(mask, bits.field, bits.mask());
                }
                let moves = ct.exec.iter().filter_map(|action| match action {
                    Action::Move(from, _) => Some(from),
                    _ => None,
                });
                moves.for_each(|from| add_bits(mask, from.field, from.mask()));
                // Whether a frame was tracked in this zone before.
                add_bits(mask, Field::CtState, TRACKED);
                add_all(mask, &[Field::CtZone]);
                compared.has_helper |= ct.helper != 0;
            }
            Action::Bundle(bundle) => {
                if bundle.by_weight {
                    add_all(mask, hashed(bundle.fields));
                }
                bundle.load.iter().for_each(|bits| add_bits(mask, bits.field, bits.mask()));
            }
            Action::Sample(sample) => {
                for observation in [sample.domain, sample.point] {
                    if let Observation::Of(bits) = observation {
                        add_bits(mask, bits.field, bits.mask());
                    }
                }
            }
            Action::Learn(learn) => {
                learn.result.iter().for_each(|bits| add_bits(mask, bits.field, bits.mask()));
            }
            _ => {}
        }
    }
}

/// The fields from which a bundle computes its hash.
fn hashed(fields: HashFields) -> &'static [Field] {
    match fields {
        HashFields::EthSrc => &[Field::EthSrc],
        HashFields::NwSrc => &[Field::IpSrc, Field::Ipv6Src],
        HashFields::NwDst => &[Field::IpDst, Field::Ipv6Dst],
        HashFields::SymmetricL3 => &[Field::IpSrc, Field::IpDst, Field::Ipv6Src, Field::Ipv6Dst],
        HashFields::SymmetricL3L4 | HashFields::SymmetricL3L4Udp => &ENDS,
        HashFields::SymmetricL4 => &[
            Field::EthSrc,
            Field::EthDst,
            Field::IpSrc,
            Field::IpDst,
            Field::Ipv6Src,
            Field::Ipv6Dst,
            Field::TcpSrc,
            Field::TcpDst,
        ],
    }
}
