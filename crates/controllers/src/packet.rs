//! A packet for a controller, in each form that a controller can request.

use flow::{Match, Reason};

use openflow::{Message, Nicira, PacketIn, PacketIn2, Version};

/// A packet that a switch has for its controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketFor {
    /// The id of the controller that gets the packet.
    pub controller: u16,
    /// The bytes of the packet for the controller: as many as the action allows, or all if no flow matched the packet.
    pub data: Vec<u8>,
    /// The packet's whole length.
    pub full_bytes: usize,
    /// Why the controller gets the packet.
    pub reason: Reason,
    /// The table of the flow.
    pub table: u8,
    /// The flow's cookie.
    pub cookie: u64,
    /// The packet's input port, and its other fields that are not in its bytes.
    pub metadata: Match,
    /// The bytes that the action contains for the controller.
    pub userdata: Vec<u8>,
    /// The remaining execution of a packet that waits, in a form that only the switch reads.
    pub continuation: Option<Vec<u8>>,
}

/// The form of a packet (Nicira's SET_PACKET_IN_FORMAT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// The form of the OpenFlow version.
    #[default]
    Standard,
    /// Nicira's form, with all fields.
    Nicira,
    /// Nicira's form with properties.
    Properties,
}

/// The reason in a version: a newer reason becomes the older reason from which it was split.
fn known(reason: Reason, version: Version) -> Reason {
    match reason {
        Reason::ActionSet | Reason::Group | Reason::PacketOut if version < Version::V14 => Reason::Action,
        _ => reason,
    }
}

impl PacketFor {
    /// The message. `miss_bytes` is the largest length in bytes of an unmatched packet.
    pub(crate) fn message(&self, form: Form, version: Version, miss_bytes: u16) -> Message {
        let most = if self.reason == Reason::NoMatch { usize::from(miss_bytes) } else { usize::MAX };
        let data = self.data[..self.data.len().min(most)].to_vec();
        let reason = known(self.reason, version);
        let (table, cookie, metadata) = (self.table, self.cookie, self.metadata);
        if form == Form::Properties {
            let full_bytes = u32::try_from(self.full_bytes).ok();
            return Message::Nicira(Nicira::PacketIn2(Box::new(PacketIn2 {
                full_bytes: full_bytes.filter(|_| data.len() < self.full_bytes),
                data,
                buffer: None,
                table: Some(table),
                cookie: Some(cookie),
                reason: Some(openflow::reason_number(self.reason)),
                metadata: Some(metadata),
                userdata: Some(self.userdata.clone()).filter(|userdata| !userdata.is_empty()),
                continuation: self.continuation.clone(),
                other: Vec::new(),
            })));
        }
        let bytes = u16::try_from(self.full_bytes).unwrap_or(u16::MAX);
        let nicira = form == Form::Nicira;
        Message::PacketIn(Box::new(PacketIn {
            buffer: None,
            bytes,
            reason,
            table,
            cookie,
            metadata,
            data,
            nicira,
        }))
    }
}
