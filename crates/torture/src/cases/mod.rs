//! One case of each family.

mod crypto;
mod done;
mod messages;
mod rings;
mod sharing;

use std::io;
use std::path::Path;

use rand::rngs::StdRng;
use virtio::Features;

use crate::family::Family;
pub use done::Done;

/// Runs one case of a family.
///
/// # Errors
/// The back-end cannot be connected to or does not answer a correct session within 2 s; or this system has no memory
/// or descriptors left.
pub fn make(family: Family, path: &Path, random: &mut StdRng) -> io::Result<Done> {
    match family {
        Family::Order => messages::order(path, random),
        Family::Bytes => messages::bytes(path, random),
        Family::Descriptors => messages::descriptors(path, random),
        Family::Memory => messages::memory(path, random),
        Family::SplitRing => rings::rings(path, Features::empty(), random),
        Family::PackedRing => rings::rings(path, Features::RING_PACKED, random),
        Family::Shrink => sharing::shrink(path, random),
        Family::Withdraw => sharing::withdraw(path, random),
        Family::Eventfd => sharing::full_eventfd(path, random),
        Family::Slow => sharing::slow(path, random),
        Family::CryptoSession => crypto::sessions(path, random),
        Family::CryptoRequest => crypto::requests(path, random),
    }
}
