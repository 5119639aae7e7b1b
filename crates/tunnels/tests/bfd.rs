//! Two ends of a session, joined by a wire that can be cut.
use std::time::Duration;

use tunnels::bfd::{Control, Session, State, Timing};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

struct Ends {
    now: Duration,
    sessions: [Session; 2],
    /// Whether packets of an end arrive.
    arrives: [bool; 2],
    sent: [u32; 2],
}

impl Ends {
    fn new(timings: [Timing; 2]) -> Self {
        let mut seeds = [7, 8];
        let sessions = timings.map(|timing| {
            seeds.rotate_left(1);
            Session::new(timing, seeds[0], Duration::ZERO)
        });
        Ends { now: Duration::ZERO, sessions, arrives: [true; 2], sent: [0; 2] }
    }

    /// Lets time pass, in steps of a millisecond, and packets go as frames.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            for end in 0..2 {
                while let Some(packet) = self.sessions[end].advance(self.now) {
                    self.sent[end] += 1;
                    let frame = packet.frame(MAC);
                    assert_eq!(Control::of_frame(&frame), Some(packet));
                    if self.arrives[end] {
                        self.sessions[1 - end].receive(&packet, self.now);
                    }
                }
                assert!(self.sessions[end].deadline() > self.now, "a deadline is never in the past");
            }
            self.now += Duration::from_millis(1);
        }
    }

    fn states(&self) -> [State; 2] {
        [0, 1].map(|end: usize| self.sessions[end].state())
    }

    fn status(&self, end: usize, key: &str) -> String {
        self.sessions[end].status()[key].clone()
    }
}

const FAST: Timing = Timing { min_rx_ms: 50, min_tx_ms: 100, multiplier: 3 };

#[test]
fn a_session_comes_up_and_goes_down_when_the_other_end_is_silent() {
    let mut ends = Ends::new([FAST, Timing { min_rx_ms: 200, min_tx_ms: 20, multiplier: 5 }]);
    ends.pass(Duration::from_secs(3));
    assert_eq!(ends.states(), [State::Up; 2]);
    // The first end sends each max(100, 200) ms and the other one each max(20, 50), less up to a quarter.
    ends.sent = [0; 2];
    ends.pass(Duration::from_secs(10));
    assert!((50..=67).contains(&ends.sent[0]) && (200..=267).contains(&ends.sent[1]), "{:?}", ends.sent);
    // The second end is gone 5 times max(20, 50) ms after its last packet, which is 50 ms old at most, and learns of it
    // from the first end.
    ends.arrives[1] = false;
    ends.pass(Duration::from_millis(199));
    assert_eq!(ends.states(), [State::Up; 2]);
    ends.pass(Duration::from_millis(53));
    assert_eq!(ends.states(), [State::Down; 2]);
    assert_eq!(ends.status(0, "diagnostic"), "Control Detection Time Expired");
    assert_eq!(ends.status(1, "diagnostic"), "Neighbor Signaled Session Down");
    assert_eq!((ends.status(0, "forwarding"), ends.status(0, "flap_count")), ("false".into(), "2".into()));
    // Without an answer, each end sends about once a second.
    ends.sent = [0; 2];
    ends.arrives = [false; 2];
    ends.pass(Duration::from_secs(10));
    assert!(ends.sent.iter().all(|sent| (10..=14).contains(sent)), "{:?}", ends.sent);
    ends.arrives = [true; 2];
    ends.pass(Duration::from_secs(3));
    assert_eq!(ends.states(), [State::Up; 2]);
}

#[test]
fn polls_are_answered_at_once_and_end_with_the_answer() {
    let mut ends = Ends::new([FAST; 2]);
    ends.pass(Duration::from_secs(3));
    let mut packet = ends.sessions[1].advance(ends.now + Duration::from_secs(1)).unwrap();
    assert!(!packet.polls, "the poll after the start has been answered");
    packet.polls = true;
    ends.sessions[0].receive(&packet, ends.now);
    let answer = ends.sessions[0].advance(ends.now).unwrap();
    assert!(answer.is_final && !answer.polls);
}

#[test]
fn a_session_in_the_hands_of_an_administrator_is_down() {
    let mut ends = Ends::new([FAST; 2]);
    ends.pass(Duration::from_secs(3));
    let up = ends.sessions[1].advance(ends.now + Duration::from_secs(1)).unwrap();
    ends.sessions[0].receive(&Control { state: State::AdminDown, ..up }, ends.now);
    assert_eq!(ends.sessions[0].state(), State::Down);
    assert_eq!(ends.status(0, "remote_state"), "admin_down");
    // An end that wants no packets gets none.
    ends.sessions[0].receive(&Control { min_rx_us: 0, ..up }, ends.now);
    assert_eq!(ends.sessions[0].advance(ends.now + Duration::from_millis(1)), None);
}

#[test]
fn a_long_interval_ends_when_the_other_end_asks_for_a_short_one() {
    let mut ends = Ends::new([FAST; 2]);
    ends.pass(Duration::from_secs(3));
    let up = ends.sessions[1].advance(ends.now + Duration::from_secs(1)).unwrap();
    ends.sessions[0].receive(&Control { min_rx_us: u32::MAX, ..up }, ends.now);
    let sent = ends.sessions[0].advance(ends.now + Duration::from_secs(1));
    assert!(sent.is_some() && ends.sessions[0].advance(ends.now + Duration::from_secs(2)).is_none());
    ends.sessions[0].receive(&up, ends.now + Duration::from_secs(2));
    assert!(ends.sessions[0].advance(ends.now + Duration::from_millis(2100)).is_some());
}

#[test]
fn packets_of_others_are_discarded() {
    let mut session = Session::new(FAST, 7, Duration::ZERO);
    let packet = session.advance(Duration::ZERO).unwrap();
    let good = Control { discriminators: [99, 0], ..packet }.frame(MAC);
    assert!(Control::of_frame(&good).is_some());
    // Each of these bytes makes it none of BFD, or one that RFC 5880 §6.8.6 discards.
    let changes = [
        (12, 9),
        (14, 0x46),
        (20, 0x20),
        (22, 254),
        (23, 6),
        (37, 0),
        (39, 31),
        (42, 0x40),
        (43, 0x44),
        (43, 0x41),
        (43, 0x80),
        (44, 0),
        (45, 23),
        (49, 0),
    ];
    for (at, byte) in changes {
        let mut bad = good;
        bad[at] = byte;
        assert_eq!(Control::of_frame(&bad), None, "byte {at}");
    }
    assert!((0..good.len()).all(|bytes| Control::of_frame(&good[..bytes]).is_none()));
    // A session with another number does not change.
    session.receive(&Control { discriminators: [99, 1234], ..packet }, Duration::ZERO);
    assert_eq!(session.state(), State::Down);
    session.receive(&Control { discriminators: [99, 0], ..packet }, Duration::ZERO);
    assert_eq!(session.state(), State::Init);
}
