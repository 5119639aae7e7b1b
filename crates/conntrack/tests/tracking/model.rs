//! The table agrees with a list of connections that is searched from end to end.
use std::time::Duration;

use conntrack::{Direction, Limits, Request, State, Written};

use crate::common::{Ends, Random, below, of, udp};
use crate::{EST, NEW, RPL, TRK, invalid, track_at, tracker};

/// A connection as the model knows it.
#[derive(Clone, Debug)]
struct Known {
    ends: Ends,
    zone: u16,
    port: u16,
    is_answered: bool,
    deadline: u64,
}

/// UDP connections in a list that is searched from end to end.
#[derive(Default)]
struct Model {
    connections: Vec<Known>,
}

impl Model {
    fn track(&mut self, ends: Ends, request: &Request<'_>, now: u64) -> State {
        self.connections.retain(|known| known.deadline > now);
        let found = self.connections.iter_mut().find_map(|known| match known.zone == request.zone {
            true if known.ends == ends => Some((known, Direction::Original)),
            true if known.ends == ends.back() => Some((known, Direction::Reply)),
            _ => None,
        });
        if let Some((known, direction)) = found {
            known.is_answered |= direction == Direction::Reply;
            known.deadline = now + if known.is_answered { 120 } else { 30 };
            return TRK
                | match (direction, known.is_answered) {
                    (Direction::Reply, _) => EST | RPL,
                    (_, true) => EST,
                    (_, false) => NEW,
                };
        }
        if request.commit.is_none() {
            return TRK | NEW;
        }
        let own = self.connections.iter().filter(|known| known.port == request.port).count();
        if own >= 5 {
            let weak =
                self.connections.iter().position(|known| known.port == request.port && !known.is_answered);
            let Some(weak) = weak else { return invalid() };
            self.connections.remove(weak);
        }
        let (zone, port) = (request.zone, request.port);
        self.connections.push(Known { ends, zone, port, is_answered: false, deadline: now + 30 });
        TRK | NEW
    }
}

/// Random frames of few ends: the table agrees with the list.
fn agree(seed: u64, frames: usize) {
    let mut random = Random(seed);
    let mut tracker = tracker(Limits { connections: 100, ports: 3, per_port: 5, per_zone: u32::MAX });
    let mut model = Model::default();
    let mut now = 0;
    for frame in 0..frames {
        let client = 1 + below(&mut random, 6);
        let ends = Ends::new(&format!("10.0.0.{client}"), "10.0.1.1", [of(&mut random, &[1, 2, 3]), 80]);
        let ends = if below(&mut random, 3) == 0 { ends.back() } else { ends };
        let is_committed = below(&mut random, 3) > 0;
        let request = Request {
            port: below(&mut random, 3) as u16,
            zone: below(&mut random, 2) as u16,
            commit: is_committed.then(Written::default),
            ..Request::default()
        };
        now += of(&mut random, &[0, 0, 0, 1, 7, 31, 700]) * u64::from(below(&mut random, 4) == 0);
        tracker.expire(Duration::from_secs(now), 1000);
        let expected = model.track(ends, &request, now);
        let state = track_at(&mut tracker, &udp(ends, b""), &request, now).state;
        assert_eq!(state, expected, "seed {seed}, frame {frame}: {ends:?} {request:?} at {now}");
    }
    tracker.expire(Duration::from_secs(now), 1000);
    assert_eq!(
        tracker.counters().kept,
        model.connections.iter().filter(|known| known.deadline > now).count() as u64
    );
    let counters = tracker.counters();
    assert!(counters.expired > 0 && counters.evicted > 0, "{counters:?}");
}

#[test]
fn the_table_agrees_with_a_list() {
    (0..40).for_each(|seed| agree(seed, 2000));
}
