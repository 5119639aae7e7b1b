//! The controller: for each reading, a step of the filter and a force.

use super::axis::Estimate;
use crate::description::Load;
use crate::work::{Middle, Out};

pub(crate) struct Controller {
    axes: Vec<Estimate>,
    refused: u64,
}

impl Controller {
    pub fn new(load: &Load) -> Self {
        Controller { axes: vec![Estimate::default(); load.all_users() as usize], refused: 0 }
    }
}

/// The tick and the value of a message.
pub(super) fn read(message: &[u8]) -> Option<(u64, f64)> {
    let (tick, rest) = message.split_first_chunk()?;
    Some((u64::from_be_bytes(*tick), f64::from_be_bytes(*rest.first_chunk()?)))
}

impl Middle for Controller {
    fn take(&mut self, user: u32, bytes: &[u8], out: &mut Out<'_>) {
        let (Some(axis), Some((tick, reading))) = (self.axes.get_mut(user as usize), read(bytes)) else {
            self.refused += 1;
            return;
        };
        let mut force = [0; 16];
        force[..8].copy_from_slice(&tick.to_be_bytes());
        force[8..].copy_from_slice(&axis.update(reading).to_be_bytes());
        out(user, &force);
    }

    fn finish(&mut self, _: &mut Out<'_>) {}

    fn refused(&self) -> u64 {
        self.refused
    }
}
