//! Memory of our own, in which frames lie until they are sent.
use std::ffi::CStr;
use std::io;
use std::sync::Arc;

use memory::{
    Access, AddressSpace, Mapping, Region, RegionRange, SgArena, SharedSlice, Translator, sealed_memfd,
};

/// A sealed memory file, mapped once. Pages that are never touched cost nothing.
#[derive(Debug)]
pub struct OwnMemory {
    space: Arc<AddressSpace>,
    mapping: Arc<Mapping>,
}

/// Builds frames of parts of an [`OwnMemory`]: one per thread that does.
#[derive(Debug)]
pub struct OwnSgBuilder(Translator);

impl OwnMemory {
    /// `bytes` bytes of zeros. `name` appears in `/proc/PID/maps`.
    ///
    /// # Errors
    /// `bytes` is 0, or the memory file cannot be made ([`sealed_memfd`]) or mapped ([`Mapping::shared`]).
    pub fn new(name: &CStr, bytes: u64) -> io::Result<Self> {
        let file = sealed_memfd(name, bytes)?;
        let region = Region::map(&file, RegionRange::at(0, bytes)).map_err(io::Error::other)?;
        let mapping = Arc::clone(region.mapping());
        let space = AddressSpace::from_regions([region]).map_err(io::Error::other)?;
        Ok(OwnMemory { space: Arc::new(space), mapping })
    }

    /// The part from `offset` on, cut to what there is.
    #[inline(always)]
    pub fn slice(&self, offset: usize, bytes: usize) -> SharedSlice<'_> {
        SharedSlice::of_mapping(&self.mapping).slice(offset, bytes)
    }

    /// For building frames of its parts.
    pub fn sg_builder(&self) -> OwnSgBuilder {
        OwnSgBuilder(Translator::new(Arc::clone(&self.space)))
    }
}

impl OwnSgBuilder {
    /// Appends the part from `offset` on; nothing if it reaches beyond the end.
    #[inline(always)]
    pub fn push(&mut self, arena: &mut SgArena, offset: u64, bytes: u32) {
        let pushed = self.0.builder(arena).push(offset, bytes, Access::Read);
        debug_assert!(pushed.is_ok(), "{pushed:?}");
    }
}
