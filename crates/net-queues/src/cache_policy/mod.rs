//! How the device halves use caches: which stores copy frames to a receiver, and which lines that were read are
//! demoted. By default both are measured and tuned for each queue; `--cache-policy` fixes them.
mod copy_tuner;
mod demotion_tuner;
mod stores;
mod votes;

use std::str::FromStr;

use memory::{Demotion, NonTemporal};
use virtqueue::DeviceQueue;

pub(crate) use copy_tuner::CopyTuner;
use demotion_tuner::DemotionPolicy;
pub(crate) use demotion_tuner::DemotionTuner;
pub(crate) use stores::CopyPolicy;
pub use stores::{Stores, Temporal};

/// How queues use the caches. Every policy except `Auto` is fixed for all queues, and nothing is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CachePolicy {
    /// The policy that measurement finds best for each queue.
    #[default]
    Auto,
    /// Temporal copies, no line is demoted.
    None,
    /// Non-temporal copies, no line is demoted.
    NonTemporal,
    /// Temporal copies; lines where frames begin are written back after they were read while the device is idle.
    WriteBack,
    /// Temporal copies. While the device is idle, the lines where frames begin and the descriptors of split rings are
    /// evicted after they were read.
    Evict,
    /// Temporal copies; descriptors of split rings are evicted in all bursts.
    EvictDescriptors,
}

impl CachePolicy {
    /// All policies with their names on the command line.
    pub const ALL: [(&str, CachePolicy); 6] = [
        ("auto", CachePolicy::Auto),
        ("none", CachePolicy::None),
        ("non-temporal", CachePolicy::NonTemporal),
        ("write-back", CachePolicy::WriteBack),
        ("evict", CachePolicy::Evict),
        ("evict-descriptors", CachePolicy::EvictDescriptors),
    ];

    /// The policy's name on the command line.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, policy)| *policy == self).map_or("", |(name, _)| name)
    }

    /// Whether this processor has the instructions for the policy.
    pub fn is_supported(self) -> bool {
        match self {
            CachePolicy::Auto | CachePolicy::None => true,
            CachePolicy::NonTemporal => NonTemporal::detect().is_some(),
            CachePolicy::WriteBack => Demotion::write_back().is_some(),
            CachePolicy::Evict | CachePolicy::EvictDescriptors => Demotion::evict().is_some(),
        }
    }

    pub(crate) fn copy_tuner(self) -> CopyTuner {
        match self {
            CachePolicy::Auto => CopyTuner::new(),
            CachePolicy::NonTemporal => CopyTuner::pinned(CopyPolicy::of(NonTemporal::detect())),
            _ => CopyTuner::pinned(CopyPolicy::Temporal),
        }
    }

    pub(crate) fn demotion_tuner(self, queue: &dyn DeviceQueue) -> DemotionTuner {
        let policy = match self {
            CachePolicy::Auto => return DemotionTuner::new(queue.size(), queue.demotes_descriptors()),
            CachePolicy::None | CachePolicy::NonTemporal => None,
            CachePolicy::WriteBack => Demotion::write_back().map(DemotionPolicy::Frames),
            CachePolicy::Evict => Demotion::evict().map(DemotionPolicy::Frames),
            CachePolicy::EvictDescriptors => Demotion::evict().map(DemotionPolicy::Descriptors),
        };
        DemotionTuner::pinned(queue.size(), policy)
    }
}

/// No cache policy has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no cache policy; there are auto, none, non-temporal, write-back, evict and evict-descriptors"
)]
pub struct UnknownCachePolicy(String);

impl FromStr for CachePolicy {
    type Err = UnknownCachePolicy;

    fn from_str(text: &str) -> Result<Self, UnknownCachePolicy> {
        let known = Self::ALL.into_iter().find(|(name, _)| *name == text);
        known.map(|(_, policy)| policy).ok_or_else(|| UnknownCachePolicy(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_lists_all_there_are() {
        assert_eq!("auto".parse(), Ok(CachePolicy::default()));
        let error = "fast".parse::<CachePolicy>().unwrap_err().to_string();
        for (name, policy) in CachePolicy::ALL {
            assert_eq!((name.parse(), policy.name()), (Ok(policy), name));
            assert!(error.contains(name), "{name}: {error}");
        }
    }
}
