//! CRC-32 (polynomial 0x04C11DB7, reflected, as IEEE 802.3 clause 3.2.9), driven by a table of 256 entries.

use std::hint::black_box;

use super::kernel::Kernel;
use super::mix::Generator;

const BYTES: usize = 2048;
const SEED: u32 = 0x0c7c_0c7c;
const POLYNOMIAL_REFLECTED: u32 = 0xedb8_8320;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = eight_steps(byte as u32);
        byte += 1;
    }
    table
};

const MESSAGE: [u8; BYTES] = {
    let mut random = Generator::new(SEED);
    let mut message = [0; BYTES];
    let mut at = 0;
    while at < BYTES {
        message[at] = (random.next() >> 24) as u8;
        at += 1;
    }
    message
};

const fn eight_steps(mut register: u32) -> u32 {
    let mut step = 0;
    while step < 8 {
        register = (register >> 1) ^ (POLYNOMIAL_REFLECTED * (register & 1));
        step += 1;
    }
    register
}

/// The same CRC bit by bit: what the table must agree with.
const fn bit_by_bit(message: &[u8]) -> u32 {
    let mut register = u32::MAX;
    let mut at = 0;
    while at < message.len() {
        register = eight_steps(register ^ message[at] as u32);
        at += 1;
    }
    !register
}

fn by_table(message: &[u8]) -> u32 {
    !message
        .iter()
        .fold(u32::MAX, |register, byte| (register >> 8) ^ TABLE[usize::from(register as u8 ^ byte)])
}

pub(crate) struct Crc {
    message: Vec<u8>,
}

impl Default for Crc {
    fn default() -> Self {
        Crc { message: MESSAGE.to_vec() }
    }
}

impl Kernel for Crc {
    const EXPECTED: u32 = bit_by_bit(&MESSAGE);

    fn run(&mut self) -> u32 {
        by_table(black_box(&self.message))
    }

    #[cfg(test)]
    fn corrupt(&mut self) {
        self.message[BYTES / 2] ^= 0x10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_check_value_comes_out() {
        assert_eq!(by_table(b"123456789"), 0xcbf4_3926);
        assert_eq!(bit_by_bit(b"123456789"), 0xcbf4_3926);
    }
}
