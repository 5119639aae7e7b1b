//! The atomics of a ring, as a type parameter: the processor's own, the platform's for devices that are not
//! processors, and those of a model checker.
//!
//! Everything in this crate that touches a ring is generic over [`Atomics`], so that the models explore the code that
//! runs.

use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, fence};

use crate::tuning;

/// One word of a ring.
pub trait Word<T> {
    /// Reads it.
    fn load(&self, order: Ordering) -> T;
    /// Writes it.
    fn store(&self, value: T, order: Ordering);
}

/// A family of atomics, with its way to publish.
pub trait Atomics: 'static {
    /// 16 bits.
    type U16: Word<u16>;
    /// 32 bits.
    type U32: Word<u32>;
    /// 64 bits.
    type U64: Word<u64>;

    /// Writes the index or flags that hand over everything written before.
    ///
    /// Pairs with [`Atomics::observe`] of the peer (or `virtio_load_acquire` and the like elsewhere).
    #[inline(always)]
    fn publish(word: &Self::U16, value: u16) {
        if tuning::ONE_WAY_BARRIERS {
            word.store(value, Release);
        } else {
            fence(SeqCst);
            word.store(value, Relaxed);
        }
    }

    /// Reads the index or flags that the peer publishes; later reads see what it had written before.
    #[inline(always)]
    fn observe(word: &Self::U16) -> u16 {
        if tuning::ONE_WAY_BARRIERS {
            word.load(Acquire)
        } else {
            let value = word.load(Relaxed);
            fence(SeqCst);
            value
        }
    }

    /// Orders an earlier write before a later read, as notification suppression needs: "I published, do
    /// you want to know?" on one side against "I want to know, have you published?" on the other. Without
    /// it both can read the old value and a wake-up is lost (VIRTIO 1.3 §2.7.7.1, §2.8.10.1.1).
    #[inline(always)]
    fn full_barrier() {
        fence(SeqCst);
    }
}

macro_rules! machine_word {
    ($($atomic:ty: $int:ty),*) => {$(
        impl Word<$int> for $atomic {
            #[inline(always)]
            fn load(&self, order: Ordering) -> $int {
                <$atomic>::load(self, order)
            }
            #[inline(always)]
            fn store(&self, value: $int, order: Ordering) {
                <$atomic>::store(self, value, order)
            }
        }
    )*};
}
machine_word!(AtomicU16: u16, AtomicU32: u32, AtomicU64: u64);

/// Atomics built from the processor's own, as all except models are.
pub(crate) trait ProcessorAtomics:
    Atomics<U16 = AtomicU16, U32 = AtomicU32, U64 = AtomicU64> + 'static
{
}

impl<A: Atomics<U16 = AtomicU16, U32 = AtomicU32, U64 = AtomicU64> + 'static> ProcessorAtomics for A {}

/// The processor's atomics: the peer is a processor of the same machine, as every guest, vhost back-end
/// and vhost front-end is.
#[derive(Debug)]
pub struct Smp;

impl Atomics for Smp {
    type U16 = AtomicU16;
    type U32 = AtomicU32;
    type U64 = AtomicU64;
}

/// Atomics for a driver whose device is behind a bus (`VIRTIO_F_ORDER_PLATFORM`, VIRTIO 1.3 §6): on
/// aarch64 such a device is in the outer shareable domain, where acquire and release do not reach.
#[derive(Debug)]
pub struct Platform;

impl Atomics for Platform {
    type U16 = AtomicU16;
    type U32 = AtomicU32;
    type U64 = AtomicU64;

    #[inline(always)]
    fn publish(word: &AtomicU16, value: u16) {
        crate::platform::store_barrier();
        word.store(value, Release);
    }

    #[inline(always)]
    fn observe(word: &AtomicU16) -> u16 {
        let value = word.load(Acquire);
        crate::platform::load_barrier();
        value
    }

    #[inline(always)]
    fn full_barrier() {
        crate::platform::full_barrier();
    }
}
