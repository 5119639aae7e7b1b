//! How plain frames with one outcome leave, so that they leave without being read into fields.
use crate::Effect;
use crate::outcome::{Outcome, Step};
use crate::plain::{HEAD_BYTES, HeadChange, NewHead, PlainFrame};

/// The most ports.
const MOST_PORTS: usize = 8;

/// What becomes of plain frames with one outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Way {
    /// Such frames have to be read into fields.
    #[default]
    Read,
    /// A switch that learns addresses forwards them as they are.
    Normal,
    /// Such frames leave as they are.
    Unchanged,
    /// Such frames leave with the change.
    Changed,
}

/// The ports by which plain frames with one outcome leave, and the change of their first bytes. Or such frames are forwarded
/// by a switch that learns addresses, as they are.
#[derive(Debug, Default)]
pub struct Departure {
    way: Way,
    count: u8,
    ports: [u16; MOST_PORTS],
    /// Kept for later outcomes: no frame makes a place allocate memory again.
    change: Option<Box<HeadChange>>,
}

impl Departure {
    /// The frame has to be read into fields.
    pub(super) fn forget(&mut self) {
        self.way = Way::Read;
    }

    /// Finds out how all plain frames with the outcome of this one leave, if they are equal to it under the mask. They have to
    /// be read if the outcome has steps that read or write more than such a frame's first bytes, or does not change all
    /// copies in the same way.
    pub(super) fn set(&mut self, mask: &[u8; HEAD_BYTES], frame: &PlainFrame<'_>, outcome: &Outcome) {
        self.count = 0;
        self.way = self.way_of(mask, frame, outcome).unwrap_or(Way::Read);
    }

    fn way_of(&mut self, mask: &[u8; HEAD_BYTES], frame: &PlainFrame<'_>, outcome: &Outcome) -> Option<Way> {
        let is_simple =
            |step: &Step| matches!(step, Step::Write(_) | Step::Copy | Step::Return | Step::Deliver { .. });
        if outcome.overrun.is_some() {
            return None;
        }
        if let ([Step::Normal], [Effect::Normal(header)]) = (&outcome.steps[..], &outcome.effects[..]) {
            return (!header.is_changed).then_some(Way::Normal);
        }
        if !outcome.steps.iter().all(is_simple) {
            return None;
        }
        let mut way = Way::Unchanged;
        for (index, delivery) in outcome.deliveries.iter().enumerate() {
            *self.ports.get_mut(index)? = delivery.port;
            let after = outcome.header(&delivery.header);
            if index > 0 && after != outcome.header(&outcome.deliveries[0].header) || delivery.cut.is_some() {
                return None;
            }
            if index == 0 && delivery.header.is_changed {
                let change = HeadChange::new(mask, frame, after)?;
                match &mut self.change {
                    Some(memory) => **memory = change,
                    None => self.change = Some(Box::new(change)),
                }
                way = Way::Changed;
            }
        }
        self.count = outcome.deliveries.len() as u8; // at most `MOST_PORTS`
        Some(way)
    }

    fn change(&self) -> Option<&HeadChange> {
        self.change.as_deref().filter(|_| self.way == Way::Changed)
    }

    /// Whether the frames are forwarded by a switch that learns addresses.
    #[inline(always)]
    pub fn is_normal(&self) -> bool {
        self.way == Way::Normal
    }

    /// The ports in the order of the actions.
    #[inline(always)]
    pub fn ports(&self) -> &[u16] {
        &self.ports[..usize::from(self.count)]
    }

    /// Whether a frame may leave so: a checksum that its sender left to others changes in another way.
    #[inline(always)]
    pub(super) fn is_for(&self, frame: &PlainFrame<'_>) -> bool {
        self.way != Way::Read && self.change().is_none_or(|change| !frame.is_partial() || !change.is_summed())
    }

    /// The frame's first bytes when it leaves; `None` if it leaves as it is.
    #[inline(always)]
    pub fn head(&self, frame: &PlainFrame<'_>) -> Option<NewHead> {
        self.change().map(|change| change.of(frame))
    }
}
