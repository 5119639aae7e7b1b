//! How many VLAN tags of a frame are read.
use crate::Tables;
use crate::tables::generation;

impl Tables {
    /// The largest number of VLAN tags that are read.
    pub fn max_tags(&self) -> u8 {
        self.max_tags
    }

    /// Reads at most this number of VLAN tags of each frame. Flows stay.
    pub fn set_max_tags(&mut self, max_tags: u8) {
        if self.max_tags != max_tags {
            (self.max_tags, self.generation) = (max_tags, generation());
        }
    }
}
