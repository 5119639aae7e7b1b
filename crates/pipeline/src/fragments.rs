//! Fragments under the action `ct`.
//!
//! A fragment that meets `ct` is held until its datagram is complete. Until then its flows have no effect and do not count
//! it. Then all fragments go through the tables from the beginning, in the order of their offsets: the first one is
//! tracked as the whole datagram, and the others get what it got. They leave as they came.
use std::collections::VecDeque;
use std::time::Duration;

use ::flow::Field;
use conntrack::{FragmentFrame, Held, Packet, Translation, Untracked, Verdict, Whole};
use flow_tables::{Connection, HeaderWindow, Track};
use frame::{Frame, OwnFrames};

use crate::connections::{connection, translate};
use crate::{Connections, PortId};

/// Actions `ct` whose outcome is kept for later fragments.
const MAX_TRACKED: usize = 64;

/// Whether a frame is a fragment that cannot be tracked by itself.
pub(crate) fn is_fragment(window: &HeaderWindow) -> bool {
    let at = usize::from(window.layers().network);
    window.held().get(Field::IpFrag) != 0
        && Packet::read(&window.bytes()[at..]).err() == Some(Untracked::Fragment)
}

/// The request of an action `ct`, as far as it decides about the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    zone: u16,
    commit: bool,
    force: bool,
    translate: bool,
}

/// What became of the first fragment of a datagram at an action `ct`.
#[derive(Debug)]
struct Tracked {
    asked: Asked,
    connection: Connection,
    translation: Option<Translation>,
}

/// A complete datagram whose fragments are executed.
#[derive(Debug, Default)]
pub(crate) struct Datagram {
    /// The bytes of the whole: see [`Whole::payload`].
    payload: usize,
    tracked: Vec<Tracked>,
    /// How much of `tracked` the present fragment has had.
    at: usize,
}

impl Datagram {
    fn begin(&mut self, payload: usize) {
        self.payload = payload;
        self.tracked.clear();
    }

    /// The next fragment is executed.
    pub fn begin_fragment(&mut self) {
        self.at = 0;
    }

    /// Tracks the first fragment as the whole datagram; repeats the outcome for later ones.
    pub fn track(
        &mut self,
        connections: &Connections,
        port: PortId,
        track: &Track,
        window: &mut HeaderWindow,
        now: Duration,
    ) -> Connection {
        let asked = Asked {
            zone: track.zone,
            commit: track.commit,
            force: track.force,
            translate: track.nat.is_some(),
        };
        let at = usize::from(window.layers().network);
        let packet = match Packet::read_whole(&window.bytes()[at..], self.payload) {
            Err(Untracked::Fragment) => return self.repeat(asked, window),
            packet => packet.ok(),
        };
        let later = packet.as_ref().map_or(0, |packet| packet.later);
        let verdict = connections.verdict(Some(port), track, packet, now);
        window.set_later_bytes(later);
        if let Some(translation) = &verdict.translation {
            translate(window, translation);
        }
        let connection = connection(&verdict);
        if self.tracked.len() < MAX_TRACKED {
            let translation = verdict.translation;
            self.tracked.push(Tracked { asked, connection: connection.clone(), translation });
        }
        connection
    }

    /// A later fragment that comes to another action `ct` than the first one is invalid there.
    fn repeat(&mut self, asked: Asked, window: &mut HeaderWindow) -> Connection {
        let left = self.tracked.get(self.at..).unwrap_or_default();
        let Some(found) = left.iter().position(|tracked| tracked.asked == asked) else {
            return connection(&Verdict::untracked());
        };
        self.at += found + 1;
        let Tracked { connection, translation, .. } = &left[found];
        if let Some(translation) = translation {
            translate(window, translation);
        }
        connection.clone()
    }
}

/// What became of a fragment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holding {
    /// Whether the fragment is held; otherwise it is no part of any datagram, or there was no room for it.
    pub is_held: bool,
    /// Whether its datagram is complete.
    pub is_complete: bool,
    /// Frames of the port that were held before and have been given up.
    pub dropped: u64,
}

/// The complete datagrams of one worker.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    /// Datagrams whose fragments go on after this burst.
    complete: VecDeque<Whole>,
    /// The one at hand, and what is known of it.
    whole: Option<Whole>,
    present: Datagram,
}

impl Datagrams {
    /// Holds a fragment that came by a port.
    pub fn hold(
        &mut self,
        connections: &Connections,
        port: PortId,
        frame: &Frame<'_>,
        window: &HeaderWindow,
        now: Duration,
    ) -> Holding {
        // What is left to be summed or segmented is no fragment yet.
        if !frame.is_simple() {
            return Holding { is_held: false, is_complete: false, dropped: 0 };
        }
        let tag = |field| window.held().get(field) as u64; // 16 bits each
        let fragment = FragmentFrame {
            port: port.0,
            tags: tag(Field::VlanTci) << 16 | tag(Field::InnerTci),
            head: window.bytes(),
            network: window.layers().network.into(),
            frame_bytes: frame.len_bytes(),
            rest: &|at, into| frame.read(at, into),
        };
        let mut fragments = connections.fragments();
        let held = fragments.hold(&fragment, now);
        let dropped = fragments.dropped(port.0);
        drop(fragments);
        if let Held::Complete(whole) = held {
            self.complete.push_back(whole);
        }
        let is_complete = matches!(held, Held::Complete(_));
        Holding { is_held: held != Held::Refused, is_complete, dropped }
    }

    /// Takes fragments of one complete datagram, as many as there is room for.
    pub fn take(&mut self, connections: &Connections, into: &mut OwnFrames) -> bool {
        into.clear();
        let mut fragments = connections.fragments();
        loop {
            let Some(whole) = self.whole.or_else(|| self.complete.pop_front()) else { return false };
            if self.whole.replace(whole).is_none() {
                self.present.begin(whole.payload);
            }
            while let Some(bytes) = fragments.next_bytes(whole) {
                if !into.begin(bytes) {
                    break;
                }
                fragments.take(whole, |part| into.write(part));
                into.end();
            }
            if !into.batch().is_empty() {
                return true;
            }
            self.whole = None;
        }
    }

    /// What is known of the datagram at hand.
    pub fn present(&mut self) -> Datagram {
        std::mem::take(&mut self.present)
    }

    /// Gives [`Datagrams::present`] back.
    pub fn put_back(&mut self, datagram: Datagram) {
        self.present = datagram;
    }
}
