//! A packet for a controller, in each of the forms that a controller can ask for.

use flow::{Match, Reason};

use openflow::{Message, Nicira, PacketIn, PacketIn2, Version};

/// A packet that a switch has for its controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketFor {
    /// The id of the controller that gets it.
    pub controller: u16,
    /// Its bytes, as many as the action has for the controller; of a packet that no flow matched all.
    pub data: Vec<u8>,
    /// Its length.
    pub full_bytes: usize,
    /// Why.
    pub reason: Reason,
    /// The table of the flow.
    pub table: u8,
    /// The flow's cookie.
    pub cookie: u64,
    /// Its input port and what else of it is not in its bytes.
    pub metadata: Match,
    /// Bytes that the action has for the controller.
    pub userdata: Vec<u8>,
    /// Where it goes on: the switch's own, opaque to others.
    pub continuation: Option<Vec<u8>>,
}

/// The form of a packet (Nicira's SET_PACKET_IN_FORMAT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// The version's own.
    #[default]
    Standard,
    /// Nicira's, with all fields.
    Nicira,
    /// Properties.
    Properties,
}

/// The reason as a version knows it: newer ones are told as the one that they were split from.
fn known(reason: Reason, version: Version) -> Reason {
    match reason {
        Reason::ActionSet | Reason::Group | Reason::PacketOut if version < Version::V14 => Reason::Action,
        _ => reason,
    }
}

impl PacketFor {
    /// The message. `miss_bytes` is the most of a packet that no flow matched.
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
