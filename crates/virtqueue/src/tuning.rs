//! The optimizations, each as a constant, so that the ablation benchmark can build the crate with one of them
//! switched off (`make ablation`). Normal builds use all of them.

/// Acquire and release are used instead of full fences.
pub(crate) const ONE_WAY_BARRIERS: bool = !cfg!(feature = "ablate-barriers");
/// Descriptors are processed four at a time, which is one cache line.
pub(crate) const UNROLL: bool = !cfg!(feature = "ablate-unroll");
/// Descriptors are prefetched.
pub(crate) const PREFETCH: bool = !cfg!(feature = "ablate-prefetch");
