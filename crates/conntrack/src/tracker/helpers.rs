//! Connections that control channels announce: see [`crate::Helper`].
use std::net::IpAddr;
use std::time::Duration;

use super::{Found, Hashed, Tracker};
use crate::controls::{ControlPlace, Expected};
use crate::helper::{Announced, Form, Text};
use crate::packet::Packet;
use crate::shift::{ControlChange, Replaced};
use crate::{Mark, Request, Translate, Tuple};

/// The longest datagram whose text is translated, in bytes: it stays shorter than the part of a frame that can change.
const MAX_TRANSLATED_BYTES: usize = 200;
/// Ports that are tried for an announced one that is taken.
const TRIES: u16 = 64;

/// What is known of a first frame that was announced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announcement {
    control: ControlPlace,
    /// The mark and label of its control channel.
    pub mark: Mark,
    /// The tuple with which the frame leaves, if its control channel is translated.
    pub leaving: Option<Tuple>,
}

impl Tracker {
    /// The announcement of a frame that begins a connection.
    #[cold]
    pub(super) fn announcement(&self, tuple: &Tuple, zone: u16, now: u64) -> Option<Announcement> {
        let (control, expected) = self.controls.find(zone, tuple, now)?;
        let master = self.places[self.controls.get(control)?.master as usize].as_ref()?;
        let mut leaving = expected.leaving;
        leaving.source.port = tuple.source.port;
        let is_translated = master.sides.source || master.sides.destination;
        Some(Announcement { control, mark: master.mark, leaving: is_translated.then_some(leaving) })
    }

    /// The announced connection is kept: its control channel expects no other one.
    pub(super) fn fulfil(&mut self, announcement: &Announcement) {
        self.controls.forget(announcement.control);
    }

    /// Reads a frame of a control channel, which [`Tracker::track`] has accepted ([`crate::Verdict::is_control`]).
    /// `datagram` begins with the network header, and `packet` was read from it. Both are as the frame arrived.
    ///
    /// The result is what else changes in the frame if it is translated.
    #[cold]
    pub fn read_control(
        &mut self,
        datagram: &[u8],
        packet: &Packet<'_>,
        request: &Request<'_>,
        now: Duration,
    ) -> ControlChange {
        let now = now.as_millis() as u64;
        let mut change = ControlChange::default();
        let hash = self.settings.seed.hash(request.zone, &packet.tuple);
        let of = Hashed { tuple: &packet.tuple, hash };
        let Some(Found { place, direction }) = self.find(request.zone, of, now) else {
            return change;
        };
        let Some(connection) = &self.places[place as usize] else { return change };
        let (is_answered, sides) = (connection.is_answered, connection.sides);
        let tuples = connection.tuples;
        let Some(at) = connection.control else { return change };
        let Some(channel) = self.controls.get_mut(at) else { return change };
        let Some(text) = Text::read(datagram, packet) else { return change };
        let is_translated = sides.source || sides.destination;
        let announced = channel.control.read(channel.helper, &text, packet, direction, is_answered);
        if let Some(announced) = announced
            && (!is_translated || request.translate != Translate::No)
        {
            let ends = Ends { own: tuples[direction as usize], other: tuples[direction.other() as usize] };
            change.payload = self.expect(at, request.zone, &announced, ends, datagram.len(), now);
            if let Some(replaced) = &mut change.payload {
                replaced.at += text.at;
                if let Some(channel) = self.controls.get_mut(at) {
                    channel.shifts.add(direction, text.sequence, replaced);
                }
            }
        }
        if let Some(channel) = self.controls.get(at).filter(|_| request.translate != Translate::No) {
            channel.shifts.write(datagram, packet, direction, &mut change);
        }
        change
    }

    /// Expects an announced connection. The result is the announcement as the other end must read it, with its place in the
    /// text, if the connection is translated.
    fn expect(
        &mut self,
        at: ControlPlace,
        zone: u16,
        announced: &Announced,
        ends: Ends,
        datagram_bytes: usize,
        now: u64,
    ) -> Option<Replaced> {
        // The announcing host, and the other one as both see it.
        let (mut arriving, mut leaving) = (ends.other, ends.own);
        std::mem::swap(&mut leaving.source, &mut leaving.destination);
        let is_translated = arriving.source != leaving.source || arriving.destination != leaving.destination;
        (arriving.source.port, leaving.source.port) = (0, 0);
        if announced.form == Form::Datagram {
            if self.controls.is_free(at, zone, &arriving, now) {
                self.controls.expect(at, Expected::new(arriving, leaving, now));
            }
            return None;
        }
        leaving.destination.port = announced.port;
        if is_translated && datagram_bytes > MAX_TRANSLATED_BYTES {
            return None;
        }
        // A port that is taken is replaced, if the other end reads a translated text anyway.
        let tries = if is_translated { TRIES } else { 1 };
        let port =
            (0..tries).map(|step| announced.port.checked_add(step)).map_while(|port| port).find(|port| {
                arriving.destination.port = *port;
                self.controls.is_free(at, zone, &arriving, now)
            })?;
        self.controls.expect(at, Expected::new(arriving, leaving, now));
        let address = arriving.destination.address;
        is_translated.then(|| translated(announced, address, port)).flatten()
    }
}

/// The tuples of a control channel by its announcing end.
#[derive(Clone, Copy, Debug)]
struct Ends {
    /// The tuple with which frames of the announcing host arrive.
    own: Tuple,
    other: Tuple,
}

/// An announcement with another address and port. Open vSwitch and Linux write an IPv6 address in full.
fn translated(announced: &Announced, address: IpAddr, port: u16) -> Option<Replaced> {
    let (at, removed) = (announced.place.start, announced.place.len());
    let new = |text| Replaced::new(at, removed, text);
    match (announced.form, address) {
        (Form::Numbers, IpAddr::V4(address)) => {
            let ([a, b, c, d], [high, low]) = (address.octets(), port.to_be_bytes());
            new(format_args!("{a},{b},{c},{d},{high},{low}"))
        }
        (Form::Extended, IpAddr::V4(address)) => new(format_args!("|1|{address}|{port}|")),
        (Form::Extended, IpAddr::V6(address)) => {
            let [a, b, c, d, e, f, g, h] = address.segments();
            new(format_args!("|2|{a:04x}:{b:04x}:{c:04x}:{d:04x}:{e:04x}:{f:04x}:{g:04x}:{h:04x}|{port}|"))
        }
        (Form::PortAlone, _) => new(format_args!("|||{port}|")),
        (Form::Numbers, IpAddr::V6(_)) | (Form::Datagram, _) => None,
    }
}
