//! Translations of I/O virtual addresses that the front-end has sent (vhost-user, "IOMMU support").

use crate::Access;

/// One translation: `iova .. iova + size` is `user .. user + size` in the front-end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IotlbEntry {
    /// First I/O virtual address.
    pub iova: u64,
    /// Bytes; at least one.
    pub size: u64,
    /// Front-end virtual address of the first byte.
    pub user: u64,
    /// Whether the device may read.
    pub readable: bool,
    /// Whether the device may write.
    pub writable: bool,
}

impl IotlbEntry {
    /// Whether the entry permits the access.
    pub fn permits(&self, access: Access) -> bool {
        match access {
            Access::Read => self.readable,
            Access::Write => self.writable,
        }
    }
}

/// Why an update was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IotlbError {
    /// The range is empty or passes the end of an address space.
    #[error("IOTLB range of {size:#x} bytes at iova {iova:#x} is empty or wraps around")]
    Range {
        /// First I/O virtual address.
        iova: u64,
        /// Bytes.
        size: u64,
    },
    /// The table has reached its limit. The limit keeps a hostile front-end from using up the host's memory.
    #[error("the IOTLB holds {0} entries already; invalidate some first")]
    Full(usize),
}

/// The table: sorted by I/O virtual address, without overlaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Iotlb {
    entries: Vec<IotlbEntry>,
}

impl Iotlb {
    /// The most entries of a table.
    pub const MAX_ENTRIES: usize = 65536;

    /// An empty table: every access misses.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of translations.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no translation.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a translation. It replaces the parts of older translations that it overlaps.
    ///
    /// # Errors
    /// The range is empty, `iova + size - 1` or `user + size` overflows 64 bits, or the table might exceed
    /// [`Iotlb::MAX_ENTRIES`].
    pub fn update(&mut self, entry: IotlbEntry) -> Result<(), IotlbError> {
        let (iova, size) = (entry.iova, entry.size);
        if size == 0 || iova.checked_add(size - 1).is_none() || entry.user.checked_add(size).is_none() {
            return Err(IotlbError::Range { iova, size });
        }
        // Replacing in the middle of an entry can leave two parts of it.
        if self.entries.len() + 2 > Self::MAX_ENTRIES {
            return Err(IotlbError::Full(self.entries.len()));
        }
        self.invalidate(iova, size);
        let at = self.entries.partition_point(|e| e.iova < iova);
        self.entries.insert(at, entry);
        Ok(())
    }

    /// Removes translations in `iova .. iova + size`. Entries that reach out of the range keep the part outside.
    pub fn invalidate(&mut self, iova: u64, size: u64) {
        if size == 0 {
            return;
        }
        let last = iova.saturating_add(size - 1);
        let from = self.entries.partition_point(|e| e.iova + (e.size - 1) < iova);
        let to = self.entries.partition_point(|e| e.iova <= last);
        let mut rest = Vec::with_capacity(2);
        if let Some(first) = self.entries.get(from).filter(|e| from < to && e.iova < iova) {
            rest.push(IotlbEntry { size: iova - first.iova, ..*first });
        }
        if let Some(end) = to.checked_sub(1).filter(|&i| i >= from).map(|i| self.entries[i]) {
            let end_last = end.iova + (end.size - 1);
            if end_last > last {
                let cut = last - end.iova + 1;
                rest.push(IotlbEntry { iova: last + 1, size: end.size - cut, user: end.user + cut, ..end });
            }
        }
        self.entries.splice(from..to, rest);
    }

    /// The translation that covers an address.
    pub fn find(&self, iova: u64) -> Option<&IotlbEntry> {
        let at = self.entries.partition_point(|e| e.iova <= iova).checked_sub(1)?;
        self.entries.get(at).filter(|e| iova - e.iova < e.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(iova: u64, size: u64, user: u64) -> IotlbEntry {
        IotlbEntry { iova, size, user, readable: true, writable: true }
    }

    #[test]
    fn the_last_byte_of_the_address_space_can_be_mapped_and_dropped() {
        let mut tlb = Iotlb::new();
        tlb.update(entry(u64::MAX - 9, 10, 0)).unwrap();
        assert!(tlb.find(u64::MAX).is_some() && tlb.find(0).is_none());
        tlb.invalidate(u64::MAX - 4, u64::MAX);
        assert!(tlb.find(u64::MAX).is_none() && tlb.find(u64::MAX - 9).is_some());
        assert!(tlb.update(entry(5, u64::MAX, 0)).is_err());
        assert!(tlb.update(entry(5, 0, 0)).is_err());
        tlb.invalidate(0, u64::MAX);
        assert!(tlb.find(u64::MAX - 9).is_none());
    }

    proptest! {
        /// Against the plainest model there is: one cell per address.
        #[test]
        fn agrees_with_an_array(ops in prop::collection::vec((any::<bool>(), 0u64..64, 1u64..20), 1..60)) {
            let mut tlb = Iotlb::new();
            let mut model = [None::<u64>; 128];
            for (i, (add, iova, size)) in ops.into_iter().enumerate() {
                let user = 1000 * (i as u64 + 1);
                if add {
                    tlb.update(entry(iova, size, user)).unwrap();
                } else {
                    tlb.invalidate(iova, size);
                }
                for at in iova..iova + size {
                    model[at as usize] = add.then_some(user + at - iova);
                }
                for at in 0..128 {
                    prop_assert_eq!(tlb.find(at).map(|e| e.user + at - e.iova), model[at as usize]);
                }
            }
        }
    }
}
