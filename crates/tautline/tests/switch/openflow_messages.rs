//! Messages of OpenFlow 1.5, byte by byte, of controllers that misbehave.

/// The type of a change of flows (OpenFlow 1.5 §7.1.1).
pub const FLOW_MOD: u8 = 14;

/// A message of this type (OpenFlow 1.5 §7.1).
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + body.len()).unwrap().to_be_bytes();
    [&[6, kind][..], &length, &[0, 0, 0, 7], body].concat()
}

/// Adds a flow without actions to a table, for this value of the metadata (OpenFlow 1.5 §7.3.4.2).
pub fn flow(table: u8, metadata: u64) -> Vec<u8> {
    let mut body = vec![0; 16];
    body.extend([table, 0, 0, 0, 0, 0, 0, 1]); // command, timeouts, priority
    body.extend([0xff; 12]); // no buffer, any port, any group
    body.extend([0; 4]);
    body.extend([0, 1, 0, 16, 0x80, 0, 2 << 1, 8]);
    body.extend(metadata.to_be_bytes());
    message(FLOW_MOD, &body)
}
