//! Transport blocks: CRC24A after the data (3GPP TS 38.212 §5.1), and scrambling by a Gold sequence of length 31 (TS
//! 38.211 §5.2.1).

use crc::{CRC_24_LTE_A, Crc, Table};

/// Bytes of the CRC.
pub const CRC_BYTES: usize = 3;
/// Steps that both registers are ahead (§5.2.1: N_C).
const AHEAD: u32 = 1600;

static CRC24A: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_24_LTE_A);

/// Why a block is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the CRC of a transport block of {0} bytes is wrong")]
pub struct BlockError(usize);

/// The scrambling sequence of one user, as long as its blocks.
#[derive(Clone, Debug)]
pub struct Scrambler(Vec<u8>);

impl Scrambler {
    /// The sequence for blocks of at most `bytes` bytes; `seed` is c_init.
    pub fn new(seed: u32, bytes: usize) -> Self {
        let (mut one, mut other) = (1u32, seed & 0x7fff_ffff);
        let mut step = || {
            let bit = (one ^ other) & 1;
            one = one >> 1 | ((one ^ one >> 3) & 1) << 30;
            other = other >> 1 | ((other ^ other >> 1 ^ other >> 2 ^ other >> 3) & 1) << 30;
            bit as u8
        };
        (0..AHEAD).for_each(|_| _ = step());
        Scrambler((0..bytes).map(|_| (0..8).fold(0, |byte, _| byte << 1 | step())).collect())
    }

    /// Scrambles or descrambles in place. Bytes beyond the sequence stay unchanged.
    pub fn apply(&self, block: &mut [u8]) {
        block.iter_mut().zip(&self.0).for_each(|(byte, sequence)| *byte ^= sequence);
    }
}

/// Appends the CRC of a block.
pub fn attach(block: &mut Vec<u8>) {
    let sum = CRC24A.checksum(block).to_be_bytes();
    block.extend_from_slice(&sum[1..]);
}

/// Checks and removes the CRC.
///
/// # Errors
/// The CRC is wrong, or the block is shorter than a CRC.
pub fn check(block: &[u8]) -> Result<&[u8], BlockError> {
    let data = block.len().checked_sub(CRC_BYTES).map(|bytes| block.split_at(bytes));
    match data {
        Some((data, sum)) if CRC24A.checksum(data).to_be_bytes()[1..] == *sum => Ok(data),
        _ => Err(BlockError(block.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_whole_or_refused() {
        let scrambler = Scrambler::new(0x1234, 64);
        let mut block: Vec<u8> = (0..50).collect();
        attach(&mut block);
        scrambler.apply(&mut block);
        assert_eq!(check(&block), Err(BlockError(53)));
        scrambler.apply(&mut block);
        assert_eq!(check(&block).unwrap(), (0..50).collect::<Vec<u8>>());
        block[7] ^= 0x10;
        assert_eq!(check(&block), Err(BlockError(53)));
        assert_eq!(check(&[1, 2]), Err(BlockError(2)));
    }

    /// The sequence by its definition, bit by bit, from registers of 31 values that are written out.
    #[test]
    fn the_sequence_is_the_specified_one() {
        let seed = 0x5a5a_1234u32 & 0x7fff_ffff;
        let length = AHEAD as usize + 8 * 40 + 31;
        let (mut one, mut other) = (vec![0u8; length + 31], vec![0u8; length + 31]);
        one[0] = 1;
        (0..31).for_each(|bit| other[bit] = (seed >> bit & 1) as u8);
        for n in 0..length {
            one[n + 31] = (one[n + 3] + one[n]) % 2;
            other[n + 31] = (other[n + 3] + other[n + 2] + other[n + 1] + other[n]) % 2;
        }
        let bit = |n: usize| (one[n + AHEAD as usize] + other[n + AHEAD as usize]) % 2;
        let bytes: Vec<u8> =
            (0..40).map(|at| (0..8).fold(0, |byte, n| byte << 1 | bit(at * 8 + n))).collect();
        assert_eq!(Scrambler::new(seed, 40).0, bytes);
    }
}
