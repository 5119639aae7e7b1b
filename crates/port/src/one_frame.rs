//! A frame of our own, to be sent like any other.
use std::io;

use virtio::net::{HeaderLayout, NetHeader};

use crate::Lending;
use crate::own::OwnMemory;

impl Lending {
    /// A lending of one frame, without offloads, that nobody but this process writes.
    pub fn of_frame(frame: &[u8]) -> io::Result<Lending> {
        let bytes = NetHeader::BYTES + frame.len();
        let memory = OwnMemory::new(c"tautline-frame", bytes as u64)?;
        memory.slice(NetHeader::BYTES, frame.len()).write(frame);
        let mut lending = Lending::of_memory(1);
        if let Some(lent) = lending.lent_mut() {
            memory.lender().push(lent, 0, bytes as u32);
        }
        lending.push(0, HeaderLayout::Full).map_err(|reason| io::Error::other(reason.text()))?;
        Ok(lending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_our_own_is_lent_as_it_is() {
        let bytes: Vec<u8> = (0..100).collect();
        let lending = Lending::of_frame(&bytes).unwrap();
        let frame = lending.frame(0);
        assert_eq!((lending.len(), frame.len_bytes(), frame.head()), (1, 100, &bytes[..64]));
        let (pieces, skip) = frame.pieces();
        let mut rest = vec![0; 36];
        memory::SgList::new(pieces).skip(skip + 64).read(&mut rest);
        assert_eq!(rest, bytes[64..]);
        assert!(Lending::of_frame(&bytes[..13]).is_err(), "less than an Ethernet header is no frame");
    }
}
