//! The ports of a switch, each with what its program is made from.
use crate::PortId;
use crate::setup::Forwarding;

/// The forwarding of each port, by its number. Frames of a port without forwarding go nowhere.
pub(crate) type Places<'a> = [Option<&'a Forwarding>];

fn places<'a>(ports: &'a Places<'_>) -> impl Iterator<Item = (PortId, &'a Forwarding)> {
    (0..).map(PortId).zip(ports).filter_map(|(id, port)| Some((id, (*port)?)))
}

/// The ports that learn, each with its forwarding.
pub(crate) fn learning<'a>(ports: &'a Places<'_>) -> impl Iterator<Item = (PortId, &'a Forwarding)> {
    places(ports).filter(|(_, port)| port.wire.is_none())
}
