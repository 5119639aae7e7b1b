//! Frames for controllers, and frames that controllers send or return.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use controllers::PacketFor;
use flow::{Field, Key, Match, port};
use flow_tables::{Continuation, MAX_STACK, PacketIn};
use openflow::{Failure, PacketIn2, PacketOut};

/// A frame that a controller has sent, or that it lets continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFrame {
    /// The frame's bytes.
    pub data: Vec<u8>,
    /// The frame's input port, and its other fields that are not in its bytes.
    pub metadata: Match,
    /// The actions that are to be executed.
    pub rest: Continuation,
}

impl SentFrame {
    /// The number of the input port, which may be a reserved one.
    pub fn input(&self) -> u16 {
        self.metadata.exactly(Field::InPortOxm).map_or(port::ANY, |port| port as u16) // a port has 16 bits
    }
}

impl From<PacketOut> for SentFrame {
    fn from(packet: PacketOut) -> Self {
        let PacketOut { data, metadata, actions, .. } = packet;
        let rest = Continuation { rest: vec![(0, actions)], ..Continuation::default() };
        SentFrame { data, metadata, rest }
    }
}

/// A number that no other bridge has, for continuations.
pub(crate) fn number() -> u64 {
    RandomState::new().hash_one(0)
}

/// Whether a field is told to controllers as metadata: it is in no header, has a form in OpenFlow, and is not a part of
/// another field.
fn is_metadata(field: Field) -> bool {
    const OWN: [Field; 5] =
        [Field::InPort, Field::ConjId, Field::DpHash, Field::RecircId, Field::ActionSetOutput];
    !Field::FRAME_WORDS.contains(&field.place().0)
        && field.header().is_some()
        && !field.name().starts_with('x')
        && !OWN.contains(&field)
}

/// The fields of a frame that are in no header: the input port, and others that are not zero. A tracked frame has its
/// EtherType too, without which the addresses of a connection mean nothing, as in Open vSwitch.
fn metadata(key: &Key) -> Match {
    let mut metadata = Match::ANY;
    if key.get(Field::CtState) != 0 {
        metadata.set(Field::EthType, key.get(Field::EthType));
    }
    for field in Field::ALL.iter().filter(|field| is_metadata(**field)) {
        let value = key.get(*field);
        if value != 0 || *field == Field::InPortOxm {
            metadata.set(*field, value);
        }
    }
    metadata
}

/// A frame for controllers: see [`crate::Bridge::packet_for`].
pub(crate) fn packet_for(
    bridge: u64,
    packet: &PacketIn,
    data: Vec<u8>,
    full_bytes: usize,
) -> Option<PacketFor> {
    let PacketIn { controller, table, cookie, key, continuation, .. } = packet;
    let continuation = match continuation.as_deref() {
        Some(Continuation { stack, action_set, rest }) => {
            let (stack, action_set, rest) = (stack.clone(), action_set.clone(), rest.clone());
            Some(openflow::Continuation { switch: bridge, stack, action_set, rest }.encode()?)
        }
        None => None,
    };
    Some(PacketFor {
        controller: controller.id,
        data,
        full_bytes,
        reason: controller.reason,
        table: *table,
        cookie: *cookie,
        metadata: metadata(key),
        userdata: controller.userdata.clone(),
        continuation,
    })
}

/// The frame that a controller of the bridge with this number lets continue.
///
/// # Errors
/// The frame has no continuation of this bridge, or is not whole.
pub(crate) fn resumed(bridge: u64, packet: &PacketIn2) -> Result<SentFrame, Failure> {
    let bytes = packet.continuation.as_deref().ok_or(Failure::ResumeStale)?;
    let found = openflow::Continuation::decode(bytes)?;
    let is_whole = packet.full_bytes.is_none_or(|bytes| bytes as usize <= packet.data.len());
    if found.switch != bridge || found.stack.len() > MAX_STACK || !is_whole {
        return Err(Failure::ResumeStale);
    }
    let openflow::Continuation { stack, action_set, rest, .. } = found;
    let metadata = packet.metadata.unwrap_or(Match::ANY);
    Ok(SentFrame { data: packet.data.clone(), metadata, rest: Continuation { stack, action_set, rest } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracked_frame_has_its_ether_type_among_the_metadata() {
        let mut key = Key::ZERO;
        key.set(Field::EthType, 0x800);
        key.set(Field::NwTtl, 64);
        assert_eq!(metadata(&key).exactly(Field::EthType), None);
        key.set(Field::CtState, 0x21);
        key.set(Field::CtNwSrc, 7);
        let told = metadata(&key);
        let fields =
            [Field::EthType, Field::CtState, Field::CtNwSrc, Field::NwTtl].map(|field| told.exactly(field));
        assert_eq!(fields, [Some(0x800), Some(0x21), Some(7), None]);
    }
}
