//! Helpers: which connections a control channel announces, their limits, and hostile text.
#[path = "common/mod.rs"]
mod common;

use std::time::Duration;

use common::{ACK, Ends, PSH, SYN, Tcp, udp};
use conntrack::{
    Choice, ControlChange, Helper, Limits, Mapping, Mark, Packet, Request, Seed, Selection, Settings, Shard,
    Shards, Side, State, TcpRules, Timeouts, Translate, Verdict, Written,
};
use proptest::prelude::*;

const LIMITS: Limits = Limits { connections: 100_000, ports: 4, per_port: 50_000, per_zone: u32::MAX };

fn shards() -> Shards {
    let (tcp, timeouts) = (TcpRules::default(), Timeouts::default());
    let settings = Settings { limits: LIMITS, tcp, timeouts, shard: Shard::ALL, seed: Seed([3, 4]) };
    Shards::new(settings, 4, Duration::ZERO)
}

fn with(helper: Helper) -> Request<'static> {
    Request {
        helper: Some(helper),
        translate: Translate::Existing,
        commit: Some(Written::default()),
        ..Request::default()
    }
}

/// Tracks a datagram, and reads it if it belongs to a control channel.
fn pass(shards: &Shards, datagram: &[u8], request: &Request<'_>, seconds: u64) -> (Verdict, ControlChange) {
    let (packet, now) = (Packet::read(datagram).unwrap(), Duration::from_secs(seconds));
    let verdict = shards.track(&packet, request, now);
    let change = match verdict.is_control {
        true => shards.read_control(datagram, &packet, request, now),
        false => ControlChange::default(),
    };
    (verdict, change)
}

/// A control channel of a client and a server, each with its next sequence number.
struct Channel<'a> {
    shards: &'a Shards,
    request: Request<'a>,
    ends: Ends,
    next: [u32; 2],
}

impl<'a> Channel<'a> {
    fn open(shards: &'a Shards, request: Request<'a>, ends: Ends) -> Channel<'a> {
        let mut channel = Channel { shards, request, ends, next: [100, 500] };
        channel.send(0, SYN, b"");
        channel.send(1, SYN | ACK, b"");
        channel.send(0, ACK, b"");
        channel.send(1, ACK | PSH, b"220 ready\r\n");
        channel.send(0, ACK | PSH, b"USER x\r\n");
        channel
    }

    fn send(&mut self, from: usize, flags: u8, text: &[u8]) -> ControlChange {
        let ends = if from == 0 { self.ends } else { self.ends.back() };
        let acknowledgement = if flags & ACK != 0 { self.next[1 - from] } else { 0 };
        let segment = Tcp {
            window: 60_000,
            payload: text.to_vec(),
            ..Tcp::new(flags, self.next[from], acknowledgement)
        };
        self.next[from] += text.len() as u32 + u32::from(flags & SYN != 0);
        let (verdict, change) = pass(self.shards, &segment.datagram(ends), &self.request, 0);
        assert!(!verdict.state.has(State::INVALID) && verdict.is_control);
        change
    }

    fn say(&mut self, from: usize, text: &str) -> ControlChange {
        self.send(from, ACK | PSH, text.as_bytes())
    }
}

fn ends(port: u16) -> Ends {
    Ends::new("10.0.0.1", "10.0.0.2", [port, 21])
}

/// The state of the first frame from one host to a port of another.
fn first(shards: &Shards, from: &str, to: &str, port: u16, seconds: u64) -> State {
    let segment = Tcp::new(SYN, 1, 0).datagram(Ends::new(from, to, [20, port]));
    pass(shards, &segment, &Request::default(), seconds).0.state
}

#[test]
fn an_announced_connection_is_related_once_and_has_the_mark_of_its_channel() {
    let shards = shards();
    let mark = Mark { mark: 7, label: 9 };
    let written = Written { value: mark, mask: Mark { mark: u32::MAX, label: u128::MAX } };
    let request = Request { commit: Some(written), ..with(Helper::Ftp) };
    let mut channel = Channel::open(&shards, request, ends(1000));
    channel.say(0, "PORT 10,0,0,1,8,0\r\n");
    let (new, related) = (State::TRACKED | State::NEW, State::TRACKED | State::NEW | State::RELATED);
    assert_eq!(first(&shards, "10.0.0.2", "10.0.0.1", 2049, 0), new, "another port");
    assert_eq!(first(&shards, "10.0.0.3", "10.0.0.1", 2048, 0), new, "another host");
    assert_eq!(first(&shards, "10.0.0.2", "10.0.0.1", 2048, 300), new, "too late");
    let data = Ends::new("10.0.0.2", "10.0.0.1", [20, 2048]);
    for commits in [false, true] {
        let request = Request { commit: commits.then(Written::default), ..Request::default() };
        let (verdict, _) = pass(&shards, &Tcp::new(SYN, 1, 0).datagram(data), &request, 0);
        assert_eq!((verdict.state, verdict.mark), (related, mark));
    }
    let answer = Tcp::new(SYN | ACK, 1, 2).datagram(data.back());
    let established = State::TRACKED | State::ESTABLISHED | State::REPLY | State::RELATED;
    assert_eq!(pass(&shards, &answer, &Request::default(), 0).0.state, established);
    let another = Ends { ports: [21, 2048], ..data };
    let (verdict, _) = pass(&shards, &Tcp::new(SYN, 1, 0).datagram(another), &Request::default(), 0);
    assert_eq!(verdict.state, new, "only one connection was announced");
    // The end of the channel is the end of what it has announced.
    channel.say(0, "PORT 10,0,0,1,8,1\r\n");
    assert_eq!(first(&shards, "10.0.0.2", "10.0.0.1", 2049, 0), related);
    shards.flush(&[Selection::of_zone(None)]);
    assert_eq!(first(&shards, "10.0.0.2", "10.0.0.1", 2049, 0), new);
}

#[test]
fn lines_that_announce_and_lines_that_do_not() {
    let long = format!("227 {} (10,0,0,2,8,0)\r\n", "x".repeat(300));
    let lines: [(usize, &str, Option<u16>); 24] = [
        (0, "PORT 10,0,0,1,8,0\r\n", Some(2048)),
        (0, "port 10,0,0,1,8,0\r\n", Some(2048)),
        (0, "EPRT |1|10.0.0.1|2048|\r\n", Some(2048)),
        (0, "EPRT !1!10.0.0.1!2048!\r\n", Some(2048)),
        (1, "227 Entering Passive Mode (10,0,0,2,8,0).\r\n", Some(2048)),
        (1, "227 Entering Passive Mode 10,0,0,2,8,0\r\n", Some(2048)),
        (1, "229 Entering Extended Passive Mode (|||2048|)\r\n", Some(2048)),
        (1, &long, Some(2048)),
        (0, "PORT 10,0,0,3,8,0\r\n", None), // another host (RFC 2577 §3)
        (0, "EPRT |1|10.0.0.3|2048|\r\n", None),
        (1, "227 Entering Passive Mode (10,0,0,3,8,0)\r\n", None),
        (0, "PORT 10,0,0,1,3,255\r\n", None), // a privileged port
        (0, "PORT 10,0,0,1,8\r\n", None),
        (0, "PORT 10,0,0,257,8,0\r\n", None),
        (0, "PORT 10,0,0,1,8,0", None), // no whole line
        (0, "EPRT |2|10.0.0.1|2048|\r\n", None),
        (0, "EPRT |1|10.0.0.1|99999|\r\n", None),
        (0, "EPRT 1110.0.0.1120481\r\n", None),
        (1, "229 (||2048|)\r\n", None),
        (1, "229 (||x|2048|)\r\n", None),
        (0, "227 (10,0,0,2,8,0)\r\n", None), // the other direction
        (1, "PORT 10,0,0,2,8,0\r\n", None),
        (0, "NOOP\r\nPORT 10,0,0,1,8,0\r\n", None), // not at the beginning of a segment
        (1, "150 227 (10,0,0,2,8,0)\r\n", None),
    ];
    for (number, (from, line, expected)) in lines.into_iter().enumerate() {
        let shards = shards();
        let mut channel = Channel::open(&shards, with(Helper::Ftp), ends(1000 + number as u16));
        channel.say(from, line);
        let (own, other) = if from == 0 { ("10.0.0.1", "10.0.0.2") } else { ("10.0.0.2", "10.0.0.1") };
        for port in [2048, 1023] {
            let is_related = first(&shards, other, own, port, 0).has(State::RELATED);
            assert_eq!(is_related, expected == Some(port), "{from} {line}");
        }
        // Behind a segment that ends within a line, nothing counts.
        shards.flush(&[Selection::of_zone(None)]);
        let mut channel = Channel::open(&shards, with(Helper::Ftp), ends(3000));
        channel.say(from, "xyz");
        channel.say(from, line);
        assert!(!first(&shards, other, own, 2048, 0).has(State::RELATED), "{line}");
    }
}

#[test]
fn a_transfer_is_answered_from_any_port() {
    let shards = shards();
    let ends = Ends { ports: [1500, 69], ..ends(0) };
    let answered = |shards: &Shards, port: u16| {
        let answer = udp(Ends { ports: [port, 1500], ..ends.back() }, &[0, 3]);
        pass(shards, &answer, &Request::default(), 0).0.state.has(State::RELATED)
    };
    pass(&shards, &udp(ends, &[0, 5, 0]), &with(Helper::Tftp), 0);
    assert!(!answered(&shards, 3000), "an error asks for nothing");
    pass(&shards, &udp(ends, &[0, 1, b'f', 0]), &with(Helper::Tftp), 0);
    assert!(answered(&shards, 3000) && answered(&shards, 70));
    // A helper reads the frames of its own transport protocol.
    let other = Ends { ports: [1501, 69], ..ends };
    assert!(!pass(&shards, &udp(other, &[0, 1]), &with(Helper::Ftp), 0).0.is_control);
}

/// A port of the switch that opens channel after channel gets its share; another port still has room.
#[test]
fn control_channels_have_limits_by_port_and_zone() {
    let shards = shards();
    let opened = |port: u16, zone: u16, sources: std::ops::Range<u16>| {
        let request = Request { port, zone, ..with(Helper::Ftp) };
        sources
            .filter(|source| {
                let ends = Ends { ports: [*source, 21], ..ends(0) };
                pass(&shards, &Tcp::new(SYN, 1, 0).datagram(ends), &request, 0);
                let answer = Tcp::new(SYN | ACK, 1, 2).datagram(ends.back());
                pass(&shards, &answer, &Request { commit: None, ..request }, 0).0.is_control
            })
            .count()
    };
    assert_eq!(opened(0, 1, 1000..3000), 512, "half of a zone");
    assert_eq!(opened(1, 1, 3000..5000), 256, "half of the rest");
    assert_eq!(opened(1, 2, 1000..3000), 512);
    let kept = shards.counters().kept;
    assert_eq!(kept, 6000, "the others are tracked without a helper");
    shards.flush(&[Selection::of_zone(None)]);
    assert_eq!(opened(2, 1, 1000..3000), 512, "what has ended counts no more");
}

/// Behind a translated address, the other end reads the translated one, and each end the sequence numbers of its peer's
/// shifted text.
#[test]
fn text_is_translated_and_sequence_numbers_follow() {
    let shards = shards();
    let address = "198.51.100.200".parse().unwrap();
    let mapping = Mapping {
        side: Side::Source,
        addresses: Some((address, address)),
        ports: None,
        choice: Choice::Keep,
        persistent: false,
    };
    let request = Request { translate: Translate::New(&mapping), ..with(Helper::Ftp) };
    let outer = Ends::new("198.51.100.200", "10.0.0.2", [1000, 21]);
    let mut next = [100_u32, 500_u32];
    let send = |next: &mut [u32; 2], from: usize, flags: u8, text: &[u8], acknowledged: u32| {
        let ends = if from == 0 { ends(1000) } else { outer.back() };
        let segment =
            Tcp { window: 60_000, payload: text.to_vec(), ..Tcp::new(flags, next[from], acknowledged) };
        next[from] += text.len() as u32 + u32::from(flags & SYN != 0);
        let (verdict, change) = pass(&shards, &segment.datagram(ends), &request, 0);
        assert!(!verdict.state.has(State::INVALID) && verdict.is_control);
        change
    };
    send(&mut next, 0, SYN, b"", 0);
    send(&mut next, 1, SYN | ACK, b"", 101);
    send(&mut next, 0, ACK, b"USER x\r\n", 501);
    let line = b"PORT 10,0,0,1,8,0\r\n";
    let change = send(&mut next, 0, ACK, line, 501);
    let replaced = change.payload.unwrap();
    assert_eq!(replaced.text(), b"198,51,100,200,8,0");
    assert_eq!((replaced.at, replaced.removed), (45, b"10,0,0,1,8,0".len()));
    assert!(change.words().is_empty(), "numbers up to this segment stay");
    let longer = (replaced.text().len() - replaced.removed) as u32;
    // The server acknowledges what it got; the client learns of what it has sent.
    let change = send(&mut next, 1, ACK, b"200 fine\r\n", 109 + line.len() as u32 + longer);
    assert_eq!(change.words().iter().map(|word| word.value).collect::<Vec<_>>(), [109 + line.len() as u32]);
    let (sequence, end) = (next[0], next[1]);
    let change = send(&mut next, 0, ACK, b"PWD\r\n", end);
    assert_eq!(change.words().iter().map(|word| word.value).collect::<Vec<_>>(), [sequence + longer]);
    // The announced connection comes to the outer address, and leaves to the inner one.
    let data = Tcp::new(SYN, 1, 0).datagram(Ends::new("10.0.0.2", "198.51.100.200", [20, 2048]));
    let (verdict, _) = pass(&shards, &data, &with(Helper::Ftp), 0);
    assert!(verdict.state.has(State::RELATED | State::NEW | State::DESTINATION_TRANSLATED));
    let to = verdict.translation.unwrap().to;
    assert_eq!((to.destination.address.to_string(), to.destination.port), ("10.0.0.1".to_owned(), 2048));
}

fn lines() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just("PORT ".to_owned()),
        Just("EPRT ".to_owned()),
        Just("227 ".to_owned()),
        Just("229 (".to_owned()),
        Just("10,0,0,1".to_owned()),
        Just("10.0.0.2".to_owned()),
        Just("|1|".to_owned()),
        Just("|||".to_owned()),
        Just("\r\n".to_owned()),
        Just("|".to_owned()),
        Just(",".to_owned()),
        Just("(".to_owned()),
        "[0-9]{1,6}",
        "[ -~]{0,4}",
    ];
    let text = proptest::collection::vec(word, 0..12).prop_map(|words| words.concat().into_bytes());
    prop_oneof![4 => text, 1 => proptest::collection::vec(any::<u8>(), 0..80)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Any text: no panic, and no connection is expected to a host other than the sender, or to a privileged port.
    #[test]
    fn hostile_text_announces_the_senders_own_ports_alone(
        said in proptest::collection::vec((0..2_usize, lines()), 1..12), port in any::<u16>()
    ) {
        let shards = shards();
        let mut channel = Channel::open(&shards, with(Helper::Ftp), ends(1000));
        for (from, text) in said {
            channel.send(from, ACK, &text);
            channel.say(from, "\r\n");
            for (from, to) in [("10.0.0.2", "10.0.0.3"), ("10.0.0.3", "10.0.0.1"), ("10.0.0.1", "10.0.0.3")] {
                prop_assert!(!first(&shards, from, to, port, 0).has(State::RELATED));
            }
            prop_assert!(!first(&shards, "10.0.0.2", "10.0.0.1", port % 1024, 0).has(State::RELATED));
        }
    }
}
