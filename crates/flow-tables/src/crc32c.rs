//! Changes of a CRC32c: the checksum is linear.
/// A polynomial of CRC32c times x. The highest bit is that of x^0.
fn times_x(one: u32) -> u32 {
    one >> 1 ^ if one & 1 != 0 { 0x82f6_3b78 } else { 0 }
}

fn product(one: u32, mut other: u32) -> u32 {
    (0..32).fold(0, |sum, bit| {
        let term = if one << bit & 1 << 31 != 0 { other } else { 0 };
        other = times_x(other);
        sum ^ term
    })
}

/// The CRC32c after one more byte.
fn step(crc: u32, byte: u8) -> u32 {
    (0..8).fold(crc ^ u32::from(byte), |crc, _| times_x(crc))
}

/// The CRC32c after `bytes` more zero bytes. The cost grows with the digits of their number: frames have up to 64 KiB.
pub(crate) fn zeros(mut crc: u32, mut bytes: usize) -> u32 {
    let mut power = 1 << 23; // x^8
    while bytes > 0 {
        if bytes & 1 != 0 {
            crc = product(crc, power);
        }
        power = product(power, power);
        bytes >>= 1;
    }
    crc
}

/// The change of the CRC32c of bytes that end with these differences.
pub(crate) fn change_of(differences: impl Iterator<Item = u8>) -> u32 {
    differences.fold(0, step)
}
