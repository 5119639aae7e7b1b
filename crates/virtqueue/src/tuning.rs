//! The techniques behind the speed, each a constant, so that the ablation benchmark can build the crate
//! with one of them switched off (`make ablation`). Normal builds have them all.

/// Acquire and release instead of full fences.
pub(crate) const ONE_WAY_BARRIERS: bool = !cfg!(feature = "ablate-barriers");
/// Four descriptors, one cache line, at a time.
pub(crate) const UNROLL: bool = !cfg!(feature = "ablate-unroll");
/// Descriptors are fetched ahead.
pub(crate) const PREFETCH: bool = !cfg!(feature = "ablate-prefetch");
