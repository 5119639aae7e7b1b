//! Frames through a program at the other end, and whatever became of them.
use std::time::Instant;

use frame::Side;
use port::Port;

use super::attached::Attached;
use super::frames::{Checker, PROBE, Sender};
use super::soon;

/// Lengths that go up from 60, by little, and begin anew at the longest.
fn lengths(longest: usize) -> impl Iterator<Item = usize> {
    (60..=longest).step_by(if longest > 2000 { 97 } else { 7 }).cycle()
}

/// Sends probes until one comes through each pair: testpmd opens its receiving queues before its sending
/// ones, after it has answered the last message, and drops what it gets in between.
fn probe(from: &mut Attached, mut to: Option<&mut Attached>) {
    let deadline = soon();
    for pair in 0..from.context.sinks.len() as u16 {
        let (mut sender, mut checker) = (Sender::new(PROBE), Checker::default());
        while checker.foreign == 0 {
            assert!(Instant::now() < deadline, "none of {} probes came", sender.next);
            sender.send(from.context.sinks.get_mut(&pair).unwrap().as_mut(), &[60]);
            from.context.turn(&mut from.port);
            let into = to.as_deref_mut().unwrap_or(from);
            checker.drain(into.context.sources.get_mut(&pair).unwrap().as_mut());
        }
    }
}

/// Sends so many frames through each pair of `from`, and checks that they come out of `to` (or of `from`
/// itself). Never more are under way than the queues hold, so none may be lost.
pub fn pass(from: &mut Attached, mut to: Option<&mut Attached>, frames: u64, longest: usize) {
    probe(from, to.as_deref_mut());
    let pairs = from.context.sinks.len();
    let mut senders: Vec<_> = (0..pairs as u8).map(Sender::new).collect();
    let mut lengths = lengths(longest);
    let mut checker = Checker::default();
    let window = if longest > 2000 { 24 } else { 64 };
    let before: Vec<_> = (0..pairs).map(|pair| sent(from, pair)).collect();
    let deadline = soon();
    while checker.next[..pairs].iter().any(|next| *next < frames) {
        for (pair, sender) in senders.iter_mut().enumerate() {
            if sender.next < frames && sender.next - checker.next[pair] + 8 <= window {
                let burst: Vec<_> = lengths.by_ref().take(8).collect();
                sender.send(from.context.sinks.get_mut(&(pair as u16)).unwrap().as_mut(), &burst);
            }
        }
        for side in [Some(&mut *from), to.as_deref_mut()].into_iter().flatten() {
            for source in side.context.sources.values_mut() {
                checker.drain(source.as_mut());
            }
            side.context.turn_now(&mut side.port);
        }
        let states: Vec<_> = (0..pairs).map(|pair| sent(from, pair)).collect();
        assert!(Instant::now() < deadline, "{:?} of {frames} came; {states:?}", checker.next);
    }
    for (pair, sender) in senders.iter().enumerate() {
        let (frames, dropped) = sent(from, pair);
        assert_eq!((frames - before[pair].0, dropped - before[pair].1), (sender.next, 0), "pair {pair}");
    }
}

/// Frames that the peer was given on this pair, and frames that it had no room for.
fn sent(attached: &Attached, pair: usize) -> (u64, u64) {
    let counts = attached.port.counters(pair as u16, Side::ToGuest).unwrap().counts();
    (counts.frames, counts.dropped())
}
