//! The `virtio-user` port against a back-end in this process: well-behaved ones of every kind, and others.
mod common_driver;

use std::time::Instant;

use common_driver::attached::Attached;
use common_driver::backend::{BackEnd, Nature};
use common_driver::frames::{Checker, Sender};
use common_driver::soon;
use frame::{DropReason, QueueError, Side};
use port::Port;
use port::virtio_user::VirtioUserOptions;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vhost_user::bits::ProtocolFeatures as P;
use virtio::{Features, NetFeatures};
use virtqueue::RingFeatures;

/// Both ends of a socket.
struct Both {
    attached: Attached,
    back_end: BackEnd,
    _folder: tempfile::TempDir,
}

impl Both {
    fn new(nature: Nature, change: impl FnOnce(&mut VirtioUserOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vhost.sock");
        let back_end = BackEnd::new(&path, nature);
        let mut options = VirtioUserOptions::new(&path);
        change(&mut options);
        Both { attached: Attached::start(options), back_end, _folder: folder }
    }

    fn turn(&mut self) {
        self.attached.context.turn_now(&mut self.attached.port);
        self.back_end.turn();
    }

    fn until(&mut self, what: &str, so: impl Fn(&Both) -> bool) {
        let deadline = soon();
        while !so(self) {
            let logged = &self.attached.context.logged;
            assert!(Instant::now() < deadline, "not {what}: {}; {logged:?}", self.attached.port.describe());
            self.turn();
        }
    }

    fn pairs(&self) -> usize {
        assert_eq!(self.attached.context.sources.len(), self.attached.context.sinks.len());
        self.attached.context.sources.len()
    }

    fn until_connected(&mut self, pairs: usize) {
        self.until(&format!("{pairs} pairs connected"), |both| both.pairs() == pairs);
    }

    /// The retry timer ends now.
    fn again(&mut self) {
        self.attached.context.fast_forward(&mut self.attached.port);
    }

    fn logged(&self, text: &str) -> bool {
        self.attached.context.logged.iter().any(|line| line.contains(text))
    }

    /// Sends frames over every pair and checks that they come back.
    fn pass(&mut self, frames: u64, longest: usize) {
        let pairs = self.pairs();
        let mut senders: Vec<_> = (0..pairs as u8).map(Sender::new).collect();
        let mut checker = Checker::default();
        let mut lengths = (60..=longest).step_by(13).cycle();
        let deadline = soon();
        while checker.next[..pairs].iter().any(|next| *next < frames) {
            assert!(Instant::now() < deadline, "{:?} of {frames} came", checker.next);
            for (pair, sender) in senders.iter_mut().enumerate().filter(|(_, sender)| sender.next < frames) {
                let burst: Vec<_> = lengths.by_ref().take(4).collect();
                sender.send(self.attached.context.sinks.get_mut(&(pair as u16)).unwrap().as_mut(), &burst);
            }
            self.back_end.turn();
            for source in self.attached.context.sources.values_mut() {
                while checker.drain(source.as_mut()) > 0 {}
            }
        }
    }
}

#[test]
fn every_kind_of_back_end() {
    let all = Nature::default();
    for bits in 0..64 {
        let without = |bit: u32, feature: Features, set: Features| {
            if bits & (1 << bit) != 0 { set.difference(feature) } else { set }
        };
        let features = without(0, Features::RING_PACKED, all.features);
        let features = without(1, Features::IN_ORDER, features);
        let features = without(2, NetFeatures::MRG_RXBUF, features);
        let features = without(3, Features::RING_EVENT_IDX, features);
        let features = without(4, Features::RING_INDIRECT_DESC, features);
        let protocol = if bits & 32 != 0 { P::MQ } else { all.protocol };
        let mut both = Both::new(Nature { features, protocol, ..all.clone() }, |options| {
            options.queue_pairs = 2;
            options.mtu_bytes = Some(4000);
        });
        both.until_connected(2);
        for pair in 0..2 {
            assert!(both.attached.port.counters(pair, Side::ToGuest).is_some());
        }
        let accepted = both.back_end.features;
        assert!(features.contains(accepted - Features::VHOST_PROTOCOL_FEATURES), "{accepted}");
        let rings = RingFeatures::from(features);
        assert_eq!(
            RingFeatures::from(accepted),
            RingFeatures { order_platform: false, notification_data: false, ring_reset: false, ..rings }
        );
        if protocol.contains(P::STATUS) {
            assert_eq!((both.back_end.status, both.back_end.mtu_bytes), (15, 4000));
        }
        both.pass(600, 4014);
        both.attached.end();
    }
}

/// Queues are enabled as soon as they start, and there is one pair.
#[test]
fn a_back_end_without_protocol_features() {
    let nature = Nature { protocol: P::empty(), ..Nature::default() };
    let mut both = Both::new(nature, |options| options.queue_pairs = 3);
    both.until_connected(1);
    assert!(!both.back_end.features.contains(NetFeatures::MQ));
    both.pass(600, 1514);
}

#[test]
fn the_smaller_number_of_pairs_counts() {
    let mut both = Both::new(Nature { pairs: 2, ..Nature::default() }, |options| options.queue_pairs = 4);
    both.until_connected(2);
    assert!(both.attached.port.describe().contains("2 packed queue pairs"));
    assert_eq!(both.attached.port.queue_pairs(), 4);
    both.pass(600, 1514);
}

#[test]
fn frames_of_64_kib_go_through_both_ways() {
    for packed in [false, true] {
        let mut both = Both::new(Nature::default(), |options| options.packed = packed);
        both.until_connected(1);
        let mut sender = Sender::new(0);
        let mut checker = Checker::default();
        for _ in 0..40 {
            sender.send(both.attached.context.sinks.get_mut(&0).unwrap().as_mut(), &[60, 65550, 1514]);
            both.back_end.turn();
            while checker.drain(both.attached.context.sources.get_mut(&0).unwrap().as_mut()) > 0 {}
        }
        assert_eq!(checker.next[0], 120);
    }
}

/// Sleep, a frame, a call: the descriptor wakes the sleeper.
#[test]
fn a_sleeper_is_woken() {
    for bits in 0..4 {
        let mut both = Both::new(Nature::default(), |options| {
            options.packed = bits & 1 != 0;
            options.event_idx = bits & 2 != 0;
        });
        both.until_connected(1);
        let (mut sender, mut checker) = (Sender::new(0), Checker::default());
        for _ in 0..20 {
            let (sink, source) = (
                both.attached.context.sinks.get_mut(&0).unwrap().as_mut(),
                both.attached.context.sources.get_mut(&0).unwrap().as_mut(),
            );
            let readable = |source: &dyn frame::Source| {
                let fd = source.wake_fd().unwrap();
                let mut fds = [PollFd::new(&fd, PollFlags::IN)];
                poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
            };
            assert!(!source.sleep(), "nothing is there");
            assert!(!readable(source));
            sender.send(sink, &[60]);
            both.back_end.turn();
            assert!(readable(source), "a frame is there");
            source.wake();
            assert!(!readable(source), "the call is forgotten");
            assert_eq!(checker.drain(source), 1);
            sender.send(sink, &[60]);
            both.back_end.turn();
            assert!(!readable(source), "nobody sleeps");
            assert!(source.sleep(), "something is there");
            assert_eq!(checker.drain(source), 1);
        }
    }
}

/// Counters and port survive as many peers as there are.
#[test]
fn a_peer_that_comes_and_goes() {
    let mut both = Both::new(Nature::default(), |_| {});
    for round in 1..=5 {
        both.until_connected(1);
        both.pass(100, 1514);
        assert_eq!(both.attached.port.counters(0, Side::FromGuest).unwrap().counts().frames, 100 * round);
        both.back_end.hang_up();
        both.until_connected(0);
        assert!(both.attached.port.describe().contains("no back-end yet"));
        both.again();
    }
}

#[test]
fn a_peer_that_leaves_in_the_middle_of_the_handshake() {
    for protocol in [Nature::default().protocol, P::MQ] {
        let mut both = Both::new(Nature { protocol, ..Nature::default() }, |_| {});
        both.until_connected(1);
        let whole = both.back_end.messages;
        assert!(whole >= 15, "{whole} messages");
        for at in 0..whole {
            both.back_end.nature.closes_at = Some(at);
            both.back_end.hang_up();
            both.until_connected(0);
            let peers = both.back_end.peers;
            both.again();
            both.until("cut off", |both| both.back_end.peers > peers && !both.back_end.is_connected());
            both.turn();
            assert_eq!(both.pairs(), 0, "message {at} of {whole}");
        }
        let connected =
            both.attached.context.logged.iter().filter(|line| line.contains("connected,")).count();
        assert_eq!(connected, 1, "none was taken for connected before its last answer");
        both.back_end.nature.closes_at = None;
        both.again();
        both.until_connected(1);
        both.pass(100, 1514);
    }
}

#[test]
fn a_peer_that_refuses() {
    let events = ["FeaturesSet", "MemoryTableSet", "VringStarted", "VringEnabled", "StatusSet", "MtuSet"];
    let requests =
        ["SET_FEATURES", "SET_MEM_TABLE", "SET_VRING_KICK", "SET_VRING_ENABLE", "SET_STATUS", "MTU"];
    for (event, request) in events.into_iter().zip(requests) {
        let nature = Nature { refuses: Some(event), ..Nature::default() };
        let mut both = Both::new(nature, |options| options.mtu_bytes = Some(1500));
        both.until("a refusal", |both| both.logged("refused"));
        assert!(both.logged(request), "{request}: {:?}", both.attached.context.logged);
        assert_eq!(both.pairs(), 0);
        both.back_end.nature.refuses = None;
        both.again();
        both.until_connected(1);
        both.pass(100, 1514);
    }
}

#[test]
fn features_that_the_peer_takes_back() {
    let nature = Nature { refuses: Some("StatusRead"), ..Nature::default() };
    let mut both = Both::new(nature, |_| {});
    both.until("a refusal", |both| both.logged("does not accept the features"));
    assert_eq!(both.pairs(), 0);
}

#[test]
fn a_peer_of_before_virtio_1() {
    let features = Nature::default().features.difference(Features::VERSION_1);
    let mut both = Both::new(Nature { features, ..Nature::default() }, |_| {});
    both.until("told", |both| both.logged("VIRTIO_F_VERSION_1"));
    assert_eq!(both.pairs(), 0);
}

#[test]
fn a_peer_without_queues() {
    let mut both = Both::new(Nature { pairs: 0, ..Nature::default() }, |_| {});
    both.until("told", |both| both.logged("no queues"));
    assert_eq!(both.pairs(), 0);
}

#[test]
fn all_feature_bits_at_once() {
    let nature = Nature { features: Features::from_bits_retain(u64::MAX), ..Nature::default() };
    let mut both = Both::new(nature, |_| {});
    both.until_connected(1);
    let accepted = both.back_end.features;
    for surprise in
        [NetFeatures::CTRL_VQ, Features::ACCESS_PLATFORM, NetFeatures::MQ, Features::VHOST_LOG_ALL]
    {
        assert!(!accepted.contains(surprise), "{accepted}");
    }
    both.pass(100, 1514);
}

#[test]
fn a_silent_peer_is_given_up() {
    let mut both = Both::new(Nature { silent: true, ..Nature::default() }, |_| {});
    both.until("connected", |both| both.back_end.is_connected());
    assert!(both.attached.port.describe().contains("not yet agreed"));
    both.again();
    assert!(both.logged("did not answer"), "{:?}", both.attached.context.logged);
    both.back_end.nature.silent = false;
    both.again();
    both.until_connected(1);
}

#[test]
fn a_peer_that_chatters_while_queues_run() {
    let mut both = Both::new(Nature::default(), |_| {});
    both.until_connected(1);
    both.back_end.chatter();
    both.until_connected(0);
    assert!(both.logged("unasked"), "{:?}", both.attached.context.logged);
    both.again();
    both.until_connected(1);
    both.pass(100, 1514);
}

/// A queue that stands still for good would be worse than a new beginning.
#[test]
fn a_peer_that_finds_a_ring_malformed() {
    for ring in 0..4 {
        let mut both = Both::new(Nature::default(), |options| options.queue_pairs = 2);
        both.until_connected(2);
        both.back_end.warn(ring);
        both.until_connected(0);
        assert!(both.logged("finds a queue malformed"), "{:?}", both.attached.context.logged);
        both.again();
        both.until_connected(2);
        both.pass(100, 1514);
    }
}

/// A lie in a ring stops the queue, ends the connection, and harms nothing else.
#[test]
fn a_lie_in_a_ring() {
    for (ring, side) in [(0, Side::FromGuest), (1, Side::ToGuest)] {
        let mut both = Both::new(Nature::default(), |options| options.packed = false);
        both.until_connected(1);
        both.pass(100, 1514);
        // A used index far ahead of what was made available (VIRTIO 1.3 §2.7.8).
        both.back_end.scribble(ring, 2, &30_000u16.to_le_bytes());
        let context = &mut both.attached.context;
        let (mut sender, why): (_, QueueError) = (
            Sender::new(0),
            match side {
                Side::FromGuest => {
                    let mut source = context.sources.remove(&0).unwrap();
                    source.rx_burst(32).map(|_| ()).unwrap_err()
                }
                Side::ToGuest => {
                    let mut sink = context.sinks.remove(&0).unwrap();
                    let mut sender = Sender::new(0);
                    let batch = sender.lend(virtio::net::NetHeader::default(), &[60]);
                    sink.accept(batch, &[0]).unwrap_err()
                }
            },
        );
        assert!(matches!(why, QueueError::Ring(_)), "{why}");
        both.attached.port.stopped(0, side, why, context);
        assert!(context.sources.is_empty() && context.sinks.is_empty());
        assert!(both.logged("of pair 0 stopped"), "{:?}", both.attached.context.logged);
        both.until("gone", |both| !both.back_end.is_connected());
        both.again();
        both.until_connected(1);
        both.pass(100, 1514);
        sender.send(both.attached.context.sinks.get_mut(&0).unwrap().as_mut(), &[60]);
        let counts = both.attached.port.counters(0, Side::ToGuest).unwrap().counts();
        let lost = counts.drops.iter().filter(|(reason, _)| *reason == DropReason::MalformedRing).count();
        assert_eq!(lost, usize::from(side == Side::ToGuest), "{counts:?}");
    }
}
