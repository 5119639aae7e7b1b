//! 128-EEA2 and 128-EIA2 (3GPP TS 33.401 §B.1.3, §B.2.3): AES-128 in counter mode, and CMAC.

use aes::Aes128;
use aes::cipher::{KeyIvInit, StreamCipher};
use cmac::{Cmac, Mac};

/// A key of 128 bits.
pub type Key = [u8; 16];

/// The input of both algorithms besides key and text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// COUNT.
    pub count: u32,
    /// BEARER, 5 bits.
    pub bearer: u8,
    /// DIRECTION: 1 is downlink.
    pub is_downlink: bool,
}

impl Input {
    /// COUNT ‖ BEARER ‖ DIRECTION ‖ 26 zero bits.
    fn head(self) -> [u8; 8] {
        let mut head = [0; 8];
        head[..4].copy_from_slice(&self.count.to_be_bytes());
        head[4] = self.bearer << 3 | u8::from(self.is_downlink) << 2;
        head
    }
}

/// Ciphers or deciphers in place.
pub fn eea2(key: &Key, input: Input, text: &mut [u8]) {
    let mut counter = [0; 16];
    counter[..8].copy_from_slice(&input.head());
    ctr::Ctr128BE::<Aes128>::new(key.into(), (&counter).into()).apply_keystream(text);
}

/// The message authentication code: the first 32 bits of the CMAC over the input and the message.
pub fn eia2(key: &Key, input: Input, message: &[&[u8]]) -> [u8; 4] {
    let mut mac = <Cmac<Aes128> as Mac>::new(key.into());
    mac.update(&input.head());
    message.iter().for_each(|part| mac.update(part));
    let whole = mac.finalize().into_bytes();
    [whole[0], whole[1], whole[2], whole[3]]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().map(|digit| (digit as char).to_digit(16).unwrap() as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    fn key(hex: &str) -> Key {
        bytes(hex).try_into().unwrap()
    }

    /// Key, COUNT, BEARER, DIRECTION, length in bits, plain text, ciphered text: TS 33.401 §C.1.1 to §C.1.4.
    const EEA2: [(&str, u32, u8, bool, usize, &str, &str); 4] = [
        (
            "d3c5d592327fb11c4035c6680af8c6d1",
            0x398a_59b4,
            0x15,
            true,
            253,
            "981ba6824c1bfb1ab485472029b71d808ce33e2cc3c0b5fc1f3de8a6dc66b1f0",
            "e9fed8a63d155304d71df20bf3e82214b20ed7dad2f233dc3c22d7bdeeed8e78",
        ),
        (
            "2bd6459f82c440e0952c49104805ff48",
            0xc675_a64b,
            0x0c,
            true,
            798,
            "7ec61272743bf1614726446a6c38ced166f6ca76eb5430044286346cef130f92\
             922b03450d3a9975e5bd2ea0eb55ad8e1b199e3ec4316020e9a1b285e7627953\
             59b7bdfd39bef4b2484583d5afe082aee638bf5fd5a606193901a08f4ab41aab\
             9b134880",
            "5961605353c64bdca15b195e288553a910632506d6200aa790c4c806c99904cf\
             2445cc50bb1cf168a49673734e081b57e324ce5259c0e78d4cd97b870976503c\
             0943f2cb5ae8f052c7b7d392239587b8956086bcab18836042e2e6ce42432a17\
             105c53d0",
        ),
        (
            "0a8b6bd8d9b08b08d64e32d1817777fb",
            0x544d_49cd,
            0x04,
            false,
            310,
            "fd40a41d370a1f65745095687d47ba1d36d2349e23f644392c8ea9c49d40c13271aff264d0f24800",
            "75750d37b4bba2a4dedb34235bd68c6645acdaaca48138a3b0c471e2a7041a576423d2927287f000",
        ),
        (
            "aa1f95aea533bcb32eb63bf52d8f831a",
            0x72d8_c671,
            0x10,
            true,
            1022,
            "fb1b96c5c8badfb2e8e8edfde78e57f2ad81e74103fc430a534dcc37afcec70e\
             1517bb06f27219dae49022ddc47a068de4c9496a951a6b09edbdc864c7adbd74\
             0ac50c022f3082bafd22d78197c5d508b977bca13f32e652e74ba728576077ce\
             628c535e87dc6077ba07d29068590c8cb5f1088e082cfa0ec961302d69cf3d44",
            "dfb440acb3773549efc04628aeb8d8156275230bdc690d94b00d8d95f28c4b56\
             307f60f4ca55eba661ebba72ac808fa8c49e26788ed04a5d606cb418de74878b\
             9a22f8ef29590bc4eb57c9faf7c41524a885b8979c423f2f8f8e0592a9879201\
             be7ff9777a162ab810feb324ba74c4c156e04d39097209653ac33e5a5f2d8864",
        ),
    ];

    #[test]
    fn ciphering_meets_the_published_vectors() {
        for (hex, count, bearer, is_downlink, bits, plain, ciphered) in EEA2 {
            let mut text = bytes(plain);
            eea2(&key(hex), Input { count, bearer, is_downlink }, &mut text);
            // Lengths are in bits there: the bits behind them have no meaning.
            let behind = |at: usize| (8 * at + 8).saturating_sub(bits).min(8);
            text.iter_mut().enumerate().for_each(|(at, byte)| *byte &= (0xffu32 << behind(at)) as u8);
            assert_eq!(text, bytes(ciphered), "{count:x}");
        }
    }

    /// TS 33.401 §C.2.2, the one whose message is of whole bytes and short.
    #[test]
    fn integrity_meets_the_published_vector() {
        let input = Input { count: 0x398a_59b4, bearer: 0x1a, is_downlink: true };
        let key = key("d3c5d592327fb11c4035c6680af8c6d1");
        let message = bytes("484583d5afe082ae");
        let mac = bytes("b93787e6");
        assert_eq!(eia2(&key, input, &[&message]).as_slice(), mac);
        assert_eq!(eia2(&key, input, &[&message[..3], &message[3..]]).as_slice(), mac);
        assert_ne!(eia2(&key, Input { count: 1, ..input }, &[&message]).as_slice(), mac);
    }
}
