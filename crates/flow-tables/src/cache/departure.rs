//! How plain frames with one outcome leave, so that they leave without being read into fields.
use crate::Effect;
use crate::outcome::{Outcome, Step};
use crate::plain::{HEAD_BYTES, HeadChange, NewHead, PlainFrame};

/// The most ports.
const MOST_PORTS: usize = 8;

/// The ports by which plain frames with one outcome leave, and the change of their first bytes. Or such frames are forwarded
/// by a switch that learns addresses, as they are.
#[derive(Debug)]
pub struct Departure {
    ports: [u16; MOST_PORTS],
    count: u8,
    is_normal: bool,
    change: Option<Box<HeadChange>>,
}

impl Departure {
    /// How all plain frames with the outcome of this one leave, if they are equal to it under the mask. `None` if the outcome
    /// has steps that read or write more than such a frame's first bytes, or does not change all copies in the same way.
    pub(super) fn new(mask: &[u8; HEAD_BYTES], frame: &PlainFrame<'_>, outcome: &Outcome) -> Option<Self> {
        let is_simple =
            |step: &Step| matches!(step, Step::Write(_) | Step::Copy | Step::Return | Step::Deliver { .. });
        if outcome.overrun.is_some() {
            return None;
        }
        let mut ports = [0; MOST_PORTS];
        if let ([Step::Normal], [Effect::Normal(header)]) = (&outcome.steps[..], &outcome.effects[..]) {
            return (!header.is_changed).then_some(Self { ports, count: 0, is_normal: true, change: None });
        }
        if !outcome.steps.iter().all(is_simple) {
            return None;
        }
        let mut change = None;
        for (index, delivery) in outcome.deliveries.iter().enumerate() {
            *ports.get_mut(index)? = delivery.port;
            let after = outcome.header(&delivery.header);
            if index > 0 && after != outcome.header(&outcome.deliveries[0].header) || delivery.cut.is_some() {
                return None;
            }
            if index == 0 && delivery.header.is_changed {
                change = Some(Box::new(HeadChange::new(mask, frame, after)?));
            }
        }
        let count = outcome.deliveries.len() as u8; // at most `MOST_PORTS`
        Some(Self { ports, count, is_normal: false, change })
    }

    /// Whether the frames are forwarded by a switch that learns addresses.
    #[inline(always)]
    pub fn is_normal(&self) -> bool {
        self.is_normal
    }

    /// The ports in the order of the actions.
    #[inline(always)]
    pub fn ports(&self) -> &[u16] {
        &self.ports[..usize::from(self.count)]
    }

    /// Whether a frame may leave so: a checksum that its sender left to others changes in another way.
    #[inline(always)]
    pub(super) fn is_for(&self, frame: &PlainFrame<'_>) -> bool {
        self.change.as_ref().is_none_or(|change| !frame.is_partial() || !change.is_summed())
    }

    /// The frame's first bytes when it leaves; `None` if it leaves as it is.
    #[inline(always)]
    pub fn head(&self, frame: &PlainFrame<'_>) -> Option<NewHead> {
        self.change.as_ref().map(|change| change.of(frame))
    }
}
