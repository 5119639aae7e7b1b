//! The actuator. It knows the expected forces, because the readings follow from axis and tick.

use super::axis::{self, Estimate};
use super::controller::read;
use crate::description::Load;
use crate::work::Last;

/// The last correct reading, and the filter that predicts the next one.
#[derive(Clone, Copy)]
struct Axis {
    estimate: Estimate,
    tick: u64,
}

pub(crate) struct Actuator {
    axes: Vec<Axis>,
    refused: u64,
}

impl Actuator {
    pub fn new(load: &Load) -> Self {
        let axis = Axis { estimate: Estimate::default(), tick: 0 };
        Actuator { axes: vec![axis; load.all_users() as usize], refused: 0 }
    }
}

impl Last for Actuator {
    fn take(&mut self, user: u32, bytes: &[u8]) {
        let (Some(axis), Some((tick, force))) = (self.axes.get_mut(user as usize), read(bytes)) else {
            self.refused += 1;
            return;
        };
        let expected = axis.estimate.update(axis::reading(user, tick));
        if expected.to_bits() == force.to_bits() {
            axis.tick = tick;
        } else {
            self.refused += 1;
        }
    }

    fn finish(&mut self, tick: u64) -> u32 {
        self.axes.iter().filter(|axis| axis.tick == tick).count() as u32
    }

    fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Controller, Sensor};
    use super::*;
    use crate::work::{First, Middle};

    #[test]
    fn every_axis_moves_as_it_is_told() {
        let load = Load { cells: 1, users: 6, bytes: 64, workers: 1 };
        let (mut sensor, mut controller) = (Sensor::new(&load), Controller::new(&load));
        let mut actuator = Actuator::new(&load);
        for tick in 1..500 {
            let (mut readings, mut forces) = (Vec::new(), Vec::new());
            sensor.prepare(tick, &mut |axis, bytes| readings.push((axis, bytes.to_vec())));
            for (axis, reading) in readings {
                controller.take(axis, &reading, &mut |axis, bytes| forces.push((axis, bytes.to_vec())));
            }
            forces.iter().for_each(|(axis, force)| actuator.take(*axis, force));
            assert_eq!(actuator.finish(tick), 6);
        }
        actuator.take(0, &[0; 16]);
        actuator.take(9, &[0; 16]);
        actuator.take(0, &[0; 3]);
        assert_eq!(actuator.refused() + controller.refused(), 3);
    }
}
