//! Control channels of FTP under flows with `alg=ftp`: the client's address is translated, in the text too, and the
//! connection that the client announces comes back to it. With a cache, and with checksums that the sender left partial.
#[path = "../../conntrack/tests/common/mod.rs"]
mod datagrams;

use std::sync::Arc;
use std::time::Duration;

use datagrams::{ACK, Ends, PSH, SYN, Tcp, transport_sum};
use flow::{Controller, Field, Flow, Key, Learn};
use flow_tables::{Cache, Change, Connection, HeaderWindow, Limits, Outcome, Surroundings, Tables, Track};
use pipeline::{Connections, PortId};

const FLOWS: [&str; 6] = [
    "table=0,ip actions=ct(table=1,zone=1,nat)",
    "table=1,priority=20,tcp,ct_state=+trk+new,tp_dst=21 actions=ct(commit,zone=1,alg=ftp,nat(src=198.51.100.200)),output:2",
    "table=1,priority=30,ip,ct_state=+trk+new+rel actions=ct(commit,zone=1,nat),output:1",
    "table=1,priority=10,ct_state=+trk+est,in_port=1 actions=output:2",
    "table=1,priority=10,ct_state=+trk+est,in_port=2 actions=output:1",
    "table=1,priority=0 actions=drop",
];

struct Around<'a>(&'a Connections, u16);

impl Surroundings for Around<'_> {
    fn now_ms(&mut self) -> u64 {
        0
    }

    fn ports(&self) -> &[u16] {
        &[1, 2]
    }

    fn is_live(&self, _: u16) -> bool {
        true
    }

    fn track(&mut self, track: &Track, window: &mut HeaderWindow) -> Connection {
        self.0.track(Some(PortId(self.1)), track, window, Duration::ZERO)
    }

    fn learn(&mut self, _: &Arc<Learn>, _: &Key) -> bool {
        true
    }

    fn has_room_for_packet_in(&mut self, _: &Controller) -> bool {
        true
    }
}

/// A switch with two ports: the client is behind port 1.
struct Switch {
    tables: Tables,
    caches: [Cache; 2],
    connections: Connections,
    /// Whether senders leave checksums partial.
    is_partial: bool,
}

impl Switch {
    fn new(is_partial: bool) -> Switch {
        let mut tables = Tables::new(1, 7, Limits::default());
        for text in FLOWS {
            tables.change(Change::Add(Flow::parse(text).unwrap()), 0).unwrap();
        }
        assert!(tables.has_helper());
        let caches = [1_u16, 2].map(|port| {
            let mut metadata = Key::ZERO;
            metadata.set(Field::InPortOxm, port.into());
            Cache::new(64, &metadata)
        });
        Switch { tables, caches, connections: Connections::with_seed(3, [1, 2]), is_partial }
    }

    /// The datagram that leaves, with a whole checksum.
    fn pass(&mut self, port: u16, datagram: &[u8]) -> Option<Vec<u8>> {
        let mut frame = vec![2; 12];
        frame.extend([8, 0]);
        frame.extend(datagram);
        let pseudo = |datagram: &[u8]| {
            let ends = ends_of(datagram);
            let whole = transport_sum(ends, 6, &datagram[20..]);
            let payload = datagrams::sum(&datagram[20..]);
            // The sum of the pseudo header alone: what is left if that of the segment is taken away.
            let sum = u32::from(!whole) + u32::from(payload);
            (sum & 0xffff) as u16 + (sum >> 16) as u16
        };
        if self.is_partial {
            frame[50..52].fill(0);
            let sum = pseudo(&frame[14..]);
            frame[50..52].copy_from_slice(&sum.to_be_bytes());
        }
        let mut window = HeaderWindow::new(&frame, frame.len(), 1);
        window.leave(self.is_partial.then_some(50), None);
        let (mut around, mut outcome) = (Around(&self.connections, port - 1), Outcome::default());
        self.caches[usize::from(port) - 1].execute(&self.tables, &mut window, &mut around, &mut outcome);
        let delivery = outcome.deliveries.first()?;
        assert_eq!(delivery.port, 3 - port);
        let mut left = outcome.header(&delivery.header)[14..].to_vec();
        if self.is_partial {
            let sum = transport_sum(ends_of(&left), 6, &[&left[20..36], &[0, 0], &left[38..]].concat());
            let (partial, mut plain) = ([left[36], left[37]], left.clone());
            plain[36..38].fill(0);
            assert_eq!(u16::from_be_bytes(partial), pseudo(&plain), "the sum of the pseudo header");
            left[36..38].copy_from_slice(&sum.to_be_bytes());
        }
        assert_eq!(transport_sum(ends_of(&left), 6, &left[20..]), 0, "the checksum");
        assert_eq!(datagrams::sum(&left[..20]), 0, "the checksum of the header");
        assert_eq!(usize::from(u16::from_be_bytes([left[2], left[3]])), left.len());
        Some(left)
    }
}

fn ends_of(datagram: &[u8]) -> Ends {
    let word = |at: usize| u16::from_be_bytes([datagram[at], datagram[at + 1]]);
    let address = |at: usize| <[u8; 4]>::try_from(&datagram[at..at + 4]).unwrap().into();
    Ends { from: address(12), to: address(16), ports: [word(20), word(22)] }
}

fn segment(flags: u8, numbers: [u32; 2], text: &str) -> Tcp {
    Tcp { window: 60_000, payload: text.as_bytes().to_vec(), ..Tcp::new(flags, numbers[0], numbers[1]) }
}

fn text(datagram: &[u8]) -> String {
    String::from_utf8(datagram[40..].to_vec()).unwrap()
}

fn numbers(datagram: &[u8]) -> [u32; 2] {
    [24, 28].map(|at| u32::from_be_bytes(datagram[at..at + 4].try_into().unwrap()))
}

#[test]
fn a_translated_client_is_reached_by_the_port_that_it_announces() {
    for is_partial in [false, true] {
        let mut switch = Switch::new(is_partial);
        let inner = Ends::new("10.0.0.1", "10.0.0.2", [1000, 21]);
        let outer = Ends::new("198.51.100.200", "10.0.0.2", [1000, 21]);
        let client = |switch: &mut Switch, flags, numbers, text: &str| {
            let left = switch.pass(1, &segment(flags, numbers, text).datagram(inner)).unwrap();
            assert_eq!(ends_of(&left), outer);
            left
        };
        let server = |switch: &mut Switch, flags, numbers, text: &str| {
            let left = switch.pass(2, &segment(flags, numbers, text).datagram(outer.back())).unwrap();
            assert_eq!(ends_of(&left), inner.back());
            left
        };
        client(&mut switch, SYN, [100, 0], "");
        server(&mut switch, SYN | ACK, [500, 101], "");
        client(&mut switch, ACK | PSH, [101, 501], "USER x\r\n");
        let left = client(&mut switch, ACK | PSH, [109, 501], "PORT 10,0,0,1,8,1\r\n");
        assert_eq!(text(&left), "PORT 198,51,100,200,8,1\r\n");
        assert_eq!(numbers(&left), [109, 501]);
        // Six bytes more than the client knows of.
        let left = server(&mut switch, ACK, [501, 134], "200 fine\r\n");
        assert_eq!(numbers(&left), [501, 128]);
        let left = client(&mut switch, ACK, [128, 511], "LIST\r\n");
        assert_eq!((numbers(&left), text(&left)), ([134, 511], "LIST\r\n".to_owned()));
        let data = Ends::new("10.0.0.2", "198.51.100.200", [20, 2049]);
        let left = switch.pass(2, &segment(SYN, [7, 0], "").datagram(data)).unwrap();
        assert_eq!(ends_of(&left), Ends::new("10.0.0.2", "10.0.0.1", [20, 2049]));
        let left = switch.pass(1, &segment(SYN | ACK, [9, 8], "").datagram(ends_of(&left).back())).unwrap();
        assert_eq!(ends_of(&left), data.back());
        let other = Ends { ports: [20, 2050], ..data };
        assert!(switch.pass(2, &segment(SYN, [7, 0], "").datagram(other)).is_none(), "not announced");
    }
}
