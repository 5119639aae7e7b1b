//! The capabilities of a switch's tables: the properties of table features (OpenFlow 1.5 §7.3.5.18.2). The properties
//! contain what this crate can read and write, in Open vSwitch's order.

use flow::Field;

use crate::bytes::Writer;
use crate::oxm::{self, Prefer};
use crate::property::RawProperty;
use crate::{TableFeatures, Version};

/// The numbers of properties that apply to all flows. The number after each is the same property for the flow that
/// matches everything.
mod kind {
    pub const INSTRUCTIONS: u16 = 0;
    pub const NEXT_TABLES: u16 = 2;
    pub const WRITE_ACTIONS: u16 = 4;
    pub const APPLY_ACTIONS: u16 = 6;
    pub const MATCH: u16 = 8;
    pub const WILDCARDS: u16 = 10;
    pub const WRITE_SET_FIELD: u16 = 12;
    pub const APPLY_SET_FIELD: u16 = 14;
}

const GOTO_TABLE: u16 = 1;
/// Write-Metadata, Write-Actions, Apply-Actions, Clear-Actions.
const INSTRUCTIONS: [u16; 4] = [2, 3, 4, 5];
/// An instruction up to OpenFlow 1.4, an action later.
const METER: u16 = 6;
/// Output, time to live of labels, push and pop of VLANs and labels, queue, group, time to live, fields.
const ACTIONS: [u16; 12] = [0, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25];
/// Bytes of a number with its length.
const ENTRY_BYTES: u16 = 4;
/// The bit of a header that says that a mask follows the value.
const HAS_MASK: u8 = 1;
const EXPERIMENTER: [u8; 2] = [0xff, 0xff];
const EXPERIMENTER_BYTES: u8 = 4;

fn numbers(all: impl IntoIterator<Item = u16>) -> Vec<u8> {
    let bytes = |number: u16| [number.to_be_bytes(), ENTRY_BYTES.to_be_bytes()].concat();
    all.into_iter().flat_map(bytes).collect()
}

/// Headers of fields, without values.
fn headers(version: Version, masked: bool, is: impl Fn(Field) -> bool) -> Vec<u8> {
    let mut all = Vec::new();
    for field in Field::ALL.iter().copied().filter(|field| oxm::is_on_wire(*field) && is(*field)) {
        let mut writer = Writer::default();
        oxm::write_bare(&mut writer, field, Prefer::Version(version));
        let Ok(mut header) = writer.finish() else { continue };
        if masked && oxm::is_maskable(field) {
            let own = if header[..2] == EXPERIMENTER { EXPERIMENTER_BYTES } else { 0 };
            header[2] |= HAS_MASK;
            header[3] = own + 2 * (header[3] - own);
        }
        all.extend(header);
    }
    all
}

impl TableFeatures {
    /// The capabilities of the table with number `table`. `tables` is the number of tables.
    pub fn of(table: u8, tables: u8, max_flows: u32, version: Version) -> Self {
        let is_last = table.saturating_add(1) >= tables;
        let goto = if is_last { None } else { Some(GOTO_TABLE) };
        let meter = if version < Version::V15 { Some(METER) } else { None };
        let instructions = numbers(goto.into_iter().chain(INSTRUCTIONS).chain(meter));
        let next = (table.saturating_add(1)..tables).collect();
        let fields = headers(version, false, Field::is_writable);
        let mut properties = Vec::new();
        for other in [0, 1] {
            for (kind, value) in [
                (kind::INSTRUCTIONS, &instructions),
                (kind::NEXT_TABLES, &next),
                (kind::WRITE_ACTIONS, &numbers(ACTIONS)),
                (kind::WRITE_SET_FIELD, &fields),
                (kind::APPLY_ACTIONS, &numbers(ACTIONS)),
                (kind::APPLY_SET_FIELD, &fields),
            ] {
                properties.push(RawProperty { kind: kind + other, value: value.clone() });
            }
        }
        for (kind, masked) in [(kind::MATCH, true), (kind::WILDCARDS, false)] {
            properties.push(RawProperty { kind, value: headers(version, masked, |_| true) });
        }
        Self {
            table,
            command: 0,
            features: 0,
            name: [0; 32],
            metadata_match: u64::MAX,
            metadata_write: u64::MAX,
            capabilities: 0,
            max_flows,
            properties,
        }
    }
}
