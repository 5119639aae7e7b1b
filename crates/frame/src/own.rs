//! Memory of this process that holds frames until they are sent.
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

/// Builds frames from parts of an [`OwnMemory`]. Each thread that builds frames has its own.
#[derive(Debug)]
pub struct OwnSgBuilder(Translator);

impl OwnMemory {
    /// Makes a memory of `bytes` zeros. `name` appears in `/proc/PID/maps`.
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

    /// The part from `offset` on, cut off at the memory's end.
    #[inline(always)]
    pub fn slice(&self, offset: usize, bytes: usize) -> SharedSlice<'_> {
        SharedSlice::of_mapping(&self.mapping).slice(offset, bytes)
    }

    /// A builder of frames from parts of this memory.
    pub fn sg_builder(&self) -> OwnSgBuilder {
        OwnSgBuilder(Translator::new(Arc::clone(&self.space)))
    }
}

impl OwnSgBuilder {
    /// Appends the part from `offset` on. Appends nothing if the part reaches beyond the end.
    #[inline(always)]
    pub fn push(&mut self, arena: &mut SgArena, offset: u64, bytes: u32) {
        let pushed = self.0.builder(arena).push(offset, bytes, Access::Read);
        debug_assert!(pushed.is_ok(), "{pushed:?}");
    }
}
