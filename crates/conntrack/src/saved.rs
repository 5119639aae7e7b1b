//! Connections as bytes, for a process that goes on in place of another one.
//!
//! A record has the fields of a connection in the order of [`Saved`], with the lowest byte first. The windows of TCP are
//! not saved: segments of a connection that was restored pass unchecked by windows, as those of a connection that was
//! found after its beginning. Of a control channel, its helper is saved, and neither the connection that it expects nor the
//! shift of its sequence numbers.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::STATE_BYTES;
use crate::connection::{Connection, Protocol};
use crate::nat::Sides;
use crate::sctp::Sctp;
use crate::tcp::Tcp;
use crate::{Endpoint, Helper, Mark, State, Tuple, protocol};

/// Bits of a record's flags.
const ANSWERED: u8 = 1;
const ASSURED: u8 = 1 << 1;
const SOURCE: u8 = 1 << 2;
const DESTINATION: u8 = 1 << 3;
const FROM_POOL: u8 = 1 << 4;
const V6: u8 = 1 << 5;
const RELATED: u8 = 1 << 6;
const WITH_HELPER: u8 = 1 << 7;

/// Bytes of a tuple: two addresses and two ports.
const TUPLE_BYTES: usize = 36;
/// Bytes of a record.
pub(crate) const RECORD_BYTES: usize = 2 + 2 + 1 + 1 + 2 * TUPLE_BYTES + 4 + 16 + 8 + STATE_BYTES;

/// Reads fields one after another. A field behind the end of the bytes is zero.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        let length = N.min(self.0.len());
        field[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        field
    }

    fn byte(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }
}

fn put_tuple(bytes: &mut Vec<u8>, tuple: &Tuple) {
    for end in [tuple.source, tuple.destination] {
        let number = match end.address {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits(),
        };
        bytes.extend(number.to_le_bytes());
        bytes.extend(end.port.to_le_bytes());
    }
}

fn take_tuple(fields: &mut Fields<'_>, is_v6: bool, protocol: u8) -> Tuple {
    let mut end = || {
        let number = u128::from_le_bytes(fields.take());
        let address = match is_v6 {
            true => Ipv6Addr::from_bits(number).into(),
            false => Ipv4Addr::from_bits(number as u32).into(),
        };
        Endpoint { address, port: u16::from_le_bytes(fields.take()) }
    };
    Tuple { source: end(), destination: end(), protocol }
}

/// A connection that was saved. Times are in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    /// Without its deadline, and with the number of its port in the process that has saved it.
    pub connection: Connection,
    /// How long the connection is kept without another frame.
    pub rest: u64,
}

/// Appends the record of a connection.
pub(crate) fn put(bytes: &mut Vec<u8>, connection: &Connection, now: u64) {
    let Connection { tuples, zone, port, sides, mark, deadline, .. } = connection;
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags = flag(connection.is_answered, ANSWERED)
        | flag(connection.is_assured, ASSURED)
        | flag(sides.source, SOURCE)
        | flag(sides.destination, DESTINATION)
        | flag(connection.pool.is_some(), FROM_POOL)
        | flag(connection.related == State::RELATED, RELATED)
        | flag(connection.helper.is_some(), WITH_HELPER)
        | flag(tuples[0].source.address.is_ipv6(), V6);
    bytes.extend(zone.to_le_bytes());
    bytes.extend(port.to_le_bytes());
    bytes.extend([tuples[0].protocol, flags]);
    tuples.iter().for_each(|tuple| put_tuple(bytes, tuple));
    bytes.extend(mark.mark.to_le_bytes());
    bytes.extend(mark.label.to_le_bytes());
    bytes.extend(deadline.saturating_sub(now).to_le_bytes());
    let rest = match &connection.protocol {
        Protocol::Tcp(tcp) => tcp.saved(),
        Protocol::Sctp(sctp) => sctp.saved(),
        Protocol::Icmp | Protocol::Udp | Protocol::Other => [0; STATE_BYTES],
    };
    bytes.extend(rest);
}

/// Reads a record of [`RECORD_BYTES`] bytes.
pub(crate) fn read(record: &[u8]) -> Saved {
    let mut fields = Fields(record);
    let (zone, port) = (u16::from_le_bytes(fields.take()), u16::from_le_bytes(fields.take()));
    let (kind, flags) = (fields.byte(), fields.byte());
    let has = |flag| flags & flag != 0;
    let tuples = [0, 1].map(|_| take_tuple(&mut fields, has(V6), kind));
    let mark = Mark { mark: u32::from_le_bytes(fields.take()), label: u128::from_le_bytes(fields.take()) };
    let rest = u64::from_le_bytes(fields.take());
    let state: [u8; STATE_BYTES] = fields.take();
    let connection = Connection {
        tuples,
        zone,
        port,
        protocol: match kind {
            protocol::TCP => Protocol::Tcp(Tcp::restored(&state)),
            protocol::SCTP => Protocol::Sctp(Sctp::restored(&state)),
            protocol::UDP => Protocol::Udp,
            protocol::ICMP | protocol::ICMPV6 => Protocol::Icmp,
            _ => Protocol::Other,
        },
        is_answered: has(ANSWERED),
        is_assured: has(ASSURED),
        sides: Sides { source: has(SOURCE), destination: has(DESTINATION) },
        pool: has(FROM_POOL).then_some(0),
        mark,
        related: if has(RELATED) { State::RELATED } else { State::NONE },
        helper: Helper::of_protocol(kind).filter(|_| has(WITH_HELPER)),
        control: None,
        deadline: 0,
        due: 0,
    };
    Saved { connection, rest }
}
