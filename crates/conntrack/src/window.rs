//! The windows of both ends of a TCP connection.
//!
//! | value of an end | meaning |
//! |---|---|
//! | `end` | the sequence number behind the last byte that it has sent |
//! | `limit` | the sequence number up to which its peer accepts bytes |
//! | `largest` | the largest window that it has offered |
//! | `acknowledged` | the highest sequence number that it has acknowledged |
use crate::Direction;
use crate::segment::{Options, Segment, before};

/// The least amount by which an acknowledgement may be older than the bytes sent since.
const OLDEST_ACKNOWLEDGEMENT: u32 = 66_000;

/// The known state of one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    end: u32,
    limit: u32,
    /// Zero before the end has sent.
    largest: u32,
    scale: u8,
    offers_scale: bool,
    offers_sack: bool,
    /// The connection was found after its beginning: nothing is known of its window.
    is_unknown: bool,
    pub acknowledged: Option<u32>,
    has_unacknowledged: bool,
    pub has_closed_first: bool,
}

impl End {
    /// Begins with a SYN that ends here.
    pub fn restart(&mut self, end: u32, window: u32) {
        (self.end, self.limit, self.largest) = (end, end, window.max(1));
    }

    /// Forgets all but whether its windows are checked.
    pub fn forget(&mut self) {
        *self = End { is_unknown: self.is_unknown, ..End::default() };
    }

    /// The window scale that the end has offered in its SYN.
    pub fn offered_scale(&self) -> Option<u8> {
        self.offers_scale.then_some(self.scale)
    }

    /// Follows the options of a SYN.
    pub fn take_options(&mut self, options: &Options) {
        if options.exist {
            let offered = (options.window_scale.unwrap_or(0), options.window_scale.is_some());
            (self.scale, self.offers_scale) = offered;
            self.offers_sack = options.sack_permitted;
            (self.acknowledged, self.has_unacknowledged, self.has_closed_first) = (None, false, false);
        }
    }
}

/// The values of a segment that fits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values {
    pub sequence: u32,
    pub acknowledged: u32,
    pub end: u32,
    /// In bytes.
    pub window: u32,
}

/// Whether a segment lies in the windows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fit {
    Accepted(Values),
    /// Passes unchecked: a first SYN of the other end, or a segment whose windows are not known.
    Unknown,
    /// Passes and changes nothing: an old segment, or one that is little beyond the window.
    Ignored,
    Invalid,
}

/// Both ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Windows {
    ends: [End; 2],
}

fn after(one: u32, other: u32) -> bool {
    before(other, one)
}

impl Windows {
    /// The windows after a first SYN.
    pub fn of_syn(segment: &Segment) -> Windows {
        let mut windows = Windows::default();
        windows.ends[0].restart(segment.end, segment.window.into());
        windows.ends[0].take_options(&segment.options);
        windows
    }

    /// The windows of a connection that is found after its beginning.
    pub fn of_found(segment: &Segment) -> Windows {
        let unknown = End { is_unknown: true, offers_sack: true, ..End::default() };
        let mut windows = Windows { ends: [unknown; 2] };
        let sender = &mut windows.ends[0];
        sender.restart(segment.end, segment.window.into());
        sender.limit = segment.end.wrapping_add(sender.largest);
        windows
    }

    /// Windows of which nothing is known but the scales that the ends have offered.
    pub fn of_scales(scales: [Option<u8>; 2]) -> Windows {
        let is_scaled = scales.iter().all(Option::is_some);
        let end = |scale: Option<u8>| End {
            scale: scale.filter(|_| is_scaled).unwrap_or(0),
            offers_scale: scale.is_some(),
            offers_sack: true,
            is_unknown: true,
            ..End::default()
        };
        Windows { ends: scales.map(end) }
    }

    pub fn end(&self, direction: Direction) -> &End {
        &self.ends[direction as usize]
    }

    pub fn end_mut(&mut self, direction: Direction) -> &mut End {
        &mut self.ends[direction as usize]
    }

    pub fn has_closed(&self) -> bool {
        self.ends.iter().any(|end| end.has_closed_first)
    }

    pub fn has_unacknowledged(&self) -> bool {
        self.ends.iter().any(|end| end.has_unacknowledged)
    }

    /// Judges a segment. If it fits, both ends are updated. `opening` is true until a SYN was acknowledged by both;
    /// `unanswered` as long as one SYN was sent.
    pub fn fit(
        &mut self,
        segment: &Segment,
        direction: Direction,
        opening: bool,
        unanswered: bool,
        liberal: bool,
    ) -> Fit {
        let [first, second] = &mut self.ends;
        let (sender, receiver) = match direction {
            Direction::Original => (first, second),
            Direction::Reply => (second, first),
        };
        let sack = match receiver.offers_sack {
            true => highest(segment),
            false => segment.acknowledgement,
        };
        let begins = sender.largest == 0;
        if segment.is_syn && (begins || opening && after(segment.end, sender.end)) {
            sender.restart(segment.end, segment.window.into());
            sender.take_options(&segment.options);
            if direction == Direction::Reply && !(sender.offers_scale && receiver.offers_scale) {
                (sender.scale, receiver.scale) = (0, 0);
            }
            if !segment.is_ack && (begins || direction == Direction::Reply) {
                return Fit::Unknown;
            }
        } else if begins {
            join(segment, sack, sender, receiver);
        }
        let fit = judge(segment, sack, unanswered, sender, receiver);
        let is_tolerated = liberal || sender.is_unknown;
        if matches!(fit, Fit::Ignored | Fit::Invalid) && is_tolerated { Fit::Unknown } else { fit }
    }
}

/// The highest sequence number that a segment acknowledges, selectively or not.
fn highest(segment: &Segment) -> u32 {
    let all = segment.options.sack_ends.iter().flatten();
    let first = segment.acknowledgement;
    all.fold(first, |highest, end| if after(*end, highest) { *end } else { highest })
}

/// The first segment of an end that had sent before: its values are believed.
fn join(segment: &Segment, sack: u32, sender: &mut End, receiver: &mut End) {
    sender.end = segment.end;
    sender.largest = (u32::from(segment.window) << sender.scale).max(1);
    sender.limit = segment.end.wrapping_add(sender.largest);
    if receiver.largest == 0 {
        (receiver.end, receiver.limit) = (sack, sack);
    } else if sack == receiver.end.wrapping_add(1) {
        receiver.end = sack; // the answer to a keep-alive (RFC 9293 §3.8.4)
    }
}

fn judge(segment: &Segment, sack: u32, unanswered: bool, sender: &mut End, receiver: &mut End) -> Fit {
    let (mut sequence, mut end) = (segment.sequence, segment.end);
    // Some resets acknowledge zero.
    let counts = segment.is_ack && !(segment.is_rst && segment.acknowledgement == 0);
    let (number, sack) = if counts { (segment.acknowledgement, sack) } else { (receiver.end, receiver.end) };
    if segment.is_rst && sequence == 0 && unanswered {
        (sequence, end) = (sender.end, sender.end);
    }
    let oldest = receiver.end.wrapping_sub(sender.largest.max(OLDEST_ACKNOWLEDGEMENT)).wrapping_sub(1);
    let is_recent = after(end, sender.end.wrapping_sub(receiver.largest).wrapping_sub(1));
    let is_sent = before(sack, receiver.end.wrapping_add(1));
    let beyond = sender.limit.wrapping_add(1);
    if !before(sequence, beyond) {
        // Some senders send more than the window. Bytes that were already sent may be acknowledged later.
        let overshot = end.wrapping_sub(sender.limit).wrapping_add(1);
        let is_small = receiver.largest != 0 && is_recent && overshot <= receiver.largest;
        if is_small && is_sent && after(sack, oldest) {
            (sender.end, sender.has_unacknowledged) = (end, true);
            return Fit::Ignored;
        }
        return Fit::Invalid;
    }
    if !is_sent {
        return Fit::Invalid;
    }
    if !(receiver.largest == 0 || is_recent) || !after(sack, oldest) {
        return Fit::Ignored;
    }
    let window = u32::from(segment.window) << if segment.is_syn { 0 } else { sender.scale };
    sender.largest = sender.largest.max(window.wrapping_add(sack.wrapping_sub(number)));
    if after(end, sender.end) {
        (sender.end, sender.has_unacknowledged) = (end, true);
    }
    if segment.is_ack && sender.acknowledged.is_none_or(|last| after(number, last)) {
        sender.acknowledged = Some(number);
    }
    if receiver.largest != 0 && after(end, sender.limit) {
        receiver.largest = receiver.largest.wrapping_add(end.wrapping_sub(sender.limit));
    }
    let limit = sack.wrapping_add(window);
    if after(limit, receiver.limit.wrapping_sub(1)) {
        receiver.limit = limit.wrapping_add(u32::from(window == 0));
    }
    if number == receiver.end {
        receiver.has_unacknowledged = false;
    }
    Fit::Accepted(Values { sequence, acknowledged: number, end, window })
}
