//! The sensor: a reading of each axis at each tick.

use super::axis;
use crate::description::Load;
use crate::work::{First, Out};

pub(crate) struct Sensor {
    axes: u32,
    reading: Vec<u8>,
}

impl Sensor {
    pub fn new(load: &Load) -> Self {
        Sensor { axes: load.all_users(), reading: vec![0; load.bytes as usize] }
    }
}

impl First for Sensor {
    fn prepare(&mut self, tick: u64, out: &mut Out<'_>) {
        for axis in 0..self.axes {
            self.reading[..8].copy_from_slice(&tick.to_be_bytes());
            self.reading[8..16].copy_from_slice(&axis::reading(axis, tick).to_be_bytes());
            out(axis, &self.reading);
        }
    }
}
