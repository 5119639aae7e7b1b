//! Demotion of a split ring's descriptors.

use memory::Demotion;

use super::SplitDescriptor;
use super::ring::LINE;
use crate::atomics::Atomics;
use crate::chain::Chain;

/// Demotes the cache lines of these chains' descriptors, because the driver writes them next. The last line is not
/// demoted if it has descriptors behind the last chain's, which come with the next burst.
#[inline(never)]
pub(super) fn demote_descriptors<A: Atomics>(
    demotion: Demotion,
    table: &[SplitDescriptor<A>],
    chains: &[Chain],
) {
    let line = |chain: &Chain| chain.id / LINE;
    for (at, chain) in chains.iter().enumerate() {
        let leaves = match chains.get(at + 1) {
            Some(next) => line(next) != line(chain),
            None => chain.id % LINE == LINE - 1,
        };
        if leaves && let Some(head) = table.get(usize::from(chain.id)) {
            demotion.value(head);
        }
    }
}
