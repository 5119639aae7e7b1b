//! The heads of actions, and their numbers (OpenFlow 1.0 §5.2.4; 1.5 §7.2.6; ovs-actions(7)).

use flow::{Field, Zone};

use crate::Failure;
use crate::bytes::{Reader, Writer};
use crate::failure::NICIRA;

/// The type of experimenters' actions.
pub(super) const EXPERIMENTER: u16 = 0xffff;

/// The bit of presence of a tag.
pub(super) const PRESENT: u128 = 0x1000;

/// Actions of OpenFlow 1.0.
pub(super) mod v10 {
    pub const OUTPUT: u16 = 0;
    pub const SET_VLAN_VID: u16 = 1;
    pub const SET_VLAN_PCP: u16 = 2;
    pub const STRIP_VLAN: u16 = 3;
    pub const SET_DL_SRC: u16 = 4;
    pub const SET_DL_DST: u16 = 5;
    pub const SET_NW_SRC: u16 = 6;
    pub const SET_NW_DST: u16 = 7;
    pub const SET_NW_TOS: u16 = 8;
    pub const SET_TP_SRC: u16 = 9;
    pub const SET_TP_DST: u16 = 10;
}

/// Actions of later versions.
pub(super) mod standard {
    pub const OUTPUT: u16 = 0;
    pub const SET_MPLS_TTL: u16 = 15;
    pub const DEC_MPLS_TTL: u16 = 16;
    pub const PUSH_VLAN: u16 = 17;
    pub const POP_VLAN: u16 = 18;
    pub const PUSH_MPLS: u16 = 19;
    pub const POP_MPLS: u16 = 20;
    pub const SET_QUEUE: u16 = 21;
    pub const GROUP: u16 = 22;
    pub const SET_TTL: u16 = 23;
    pub const DEC_TTL: u16 = 24;
    pub const SET_FIELD: u16 = 25;
    pub const COPY_FIELD: u16 = 28;
    pub const METER: u16 = 29;
}

/// Nicira's actions.
pub(super) mod nx {
    pub const RESUBMIT: u16 = 1;
    pub const SET_TUNNEL: u16 = 2;
    pub const SET_QUEUE: u16 = 4;
    pub const POP_QUEUE: u16 = 5;
    pub const REG_MOVE: u16 = 6;
    pub const REG_LOAD: u16 = 7;
    pub const NOTE: u16 = 8;
    pub const SET_TUNNEL64: u16 = 9;
    pub const BUNDLE: u16 = 12;
    pub const BUNDLE_LOAD: u16 = 13;
    pub const RESUBMIT_TABLE: u16 = 14;
    pub const OUTPUT_REG: u16 = 15;
    pub const LEARN: u16 = 16;
    pub const EXIT: u16 = 17;
    pub const DEC_TTL: u16 = 18;
    pub const FIN_TIMEOUT: u16 = 19;
    pub const CONTROLLER: u16 = 20;
    pub const DEC_TTL_CNT_IDS: u16 = 21;
    pub const WRITE_METADATA: u16 = 22;
    pub const PUSH_MPLS: u16 = 23;
    pub const POP_MPLS: u16 = 24;
    pub const SET_MPLS_TTL: u16 = 25;
    pub const DEC_MPLS_TTL: u16 = 26;
    pub const STACK_PUSH: u16 = 27;
    pub const STACK_POP: u16 = 28;
    pub const SAMPLE: u16 = 29;
    pub const SET_MPLS_LABEL: u16 = 30;
    pub const SET_MPLS_TC: u16 = 31;
    pub const OUTPUT_REG2: u16 = 32;
    pub const REG_LOAD2: u16 = 33;
    pub const CONJUNCTION: u16 = 34;
    pub const CT: u16 = 35;
    pub const NAT: u16 = 36;
    pub const CONTROLLER2: u16 = 37;
    pub const SAMPLE2: u16 = 38;
    pub const OUTPUT_TRUNC: u16 = 39;
    pub const GROUP: u16 = 40;
    pub const SAMPLE3: u16 = 41;
    pub const CLONE: u16 = 42;
    pub const CT_CLEAR: u16 = 43;
    pub const RESUBMIT_TABLE_CT: u16 = 44;
    pub const LEARN2: u16 = 45;
    pub const CHECK_PKT_LARGER: u16 = 49;
    pub const SAMPLE4: u16 = 51;
}

/// Reads an action; returns its type and the bytes behind its length.
pub(super) fn head<'a>(reader: &mut Reader<'a>) -> Result<(u16, Reader<'a>), Failure> {
    let mut ahead = reader.with(Failure::ActionLength);
    let (kind, length) = (ahead.u16()?, usize::from(ahead.u16()?));
    if length < 8 || length % 8 != 0 {
        return Err(Failure::ActionLength);
    }
    let mut whole = reader.with(Failure::ActionLength).part(length)?;
    reader.skip(length)?;
    whole.skip(4)?;
    Ok((kind, whole))
}

/// Writes an action: its head, the output of `body`, and the padding.
pub(super) fn put(writer: &mut Writer, kind: u16, body: impl FnOnce(&mut Writer)) {
    let start = writer.len();
    writer.u16(kind).u16(0);
    body(writer);
    writer.pad(start).length(start, 2);
}

/// Writes one of Nicira's actions.
pub(super) fn put_nicira(writer: &mut Writer, kind: u16, body: impl FnOnce(&mut Writer)) {
    put(writer, EXPERIMENTER, |writer| {
        writer.u32(NICIRA).u16(kind);
        body(writer);
    });
}

/// A zone as a field and 16 bits: bits of the field, or a number if there is no field.
pub(super) fn zone_words(zone: Zone) -> (Option<Field>, u16) {
    match zone {
        Zone::Number(number) => (None, number),
        Zone::Of(bits) => (Some(bits.field), crate::oxm::pack(bits)),
    }
}
