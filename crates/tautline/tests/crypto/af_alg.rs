//! Ciphers of a guest's kernel, as programs use them (AF_ALG): our device, the kernel's own cipher and libcrypto agree.
//!
//! This test program runs in the guest too, where [`in_the_guest`] makes the requests.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read, Write as _, pipe};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use nix::fcntl::{SpliceFFlags, splice, vmsplice};
use nix::sys::socket::sockopt::AlgSetKey;
use nix::sys::socket::{
    AddressFamily, AlgAddr, ControlMessage, MsgFlags, SockFlag, SockType, bind, sendmsg, setsockopt, socket,
};
use peers::guest::Settings;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::guest::{Device, run_test, self_test};

const BLOCK: usize = 16;
const PAGE: usize = 4096;
/// The longest request in bytes. A pipe of 16 pages holds its pieces, wherever they begin.
const LONGEST: usize = 3 * PAGE;
const MOST_PIECES: usize = 5;
/// ALG_OP_DECRYPT and ALG_OP_ENCRYPT of Linux' `if_alg.h`.
const DECRYPT: i32 = 0;
pub const ENCRYPT: i32 = 1;
/// MSG_MORE, which `nix` does not have.
const MORE: MsgFlags = MsgFlags::from_bits_retain(0x8000);
const KEYS: u32 = 25;
const REQUESTS_OF_A_KEY: u32 = 40;
/// What no result is to overwrite.
const UNTOUCHED: u8 = 0xee;

/// A cipher of the kernel with a key.
pub struct Cipher(File);

impl Cipher {
    pub fn new(driver: &str, key: &[u8]) -> Self {
        let parent = socket(AddressFamily::Alg, SockType::SeqPacket, SockFlag::empty(), None).unwrap();
        bind(parent.as_raw_fd(), &AlgAddr::new("skcipher", driver)).unwrap();
        setsockopt(&parent, AlgSetKey::default(), &key).unwrap();
        Cipher(rustix::net::accept(&parent).unwrap().into())
    }

    fn begin(&self, (operation, iv): (i32, &[u8]), source: &[IoSlice<'_>], flags: MsgFlags) {
        let control = [ControlMessage::AlgSetOp(&operation), ControlMessage::AlgSetIv(iv)];
        let sent = sendmsg::<()>(self.0.as_raw_fd(), source, &control, flags, None).unwrap();
        assert_eq!(sent, source.iter().map(|piece| piece.len()).sum::<usize>());
    }

    /// A whole request in one piece.
    pub fn request(&self, what: (i32, &[u8]), source: &[u8], result: &mut [u8]) {
        self.begin(what, &[IoSlice::new(source)], MsgFlags::empty());
        assert_eq!((&self.0).read(result).unwrap(), result.len());
    }

    /// The kernel copies the source.
    fn copied(&self, what: (i32, &[u8]), source: &Scattered) -> &Self {
        self.begin(what, &source.pieces(), MsgFlags::empty());
        self
    }

    /// The kernel uses the pages of the source as they lie in memory.
    fn spliced(&self, what: (i32, &[u8]), source: &Scattered) -> &Self {
        self.begin(what, &[], MORE);
        let (from, into) = pipe().unwrap();
        let len = source.len();
        assert_eq!(vmsplice(&into, &source.pieces(), SpliceFFlags::empty()).unwrap(), len);
        assert_eq!(splice(&from, None, &self.0, None, len, SpliceFFlags::empty()).unwrap(), len);
        self
    }

    fn result(&self, places: Scattered) -> Vec<u8> {
        let mut places = places;
        let len = places.len();
        let read = (&self.0).read_vectored(&mut places.pieces_mut()).unwrap();
        assert_eq!(read, len);
        places.gathered()
    }
}

/// Bytes in pieces that begin anywhere in a page.
struct Scattered {
    memory: Vec<u8>,
    pieces: Vec<Range<usize>>,
}

impl Scattered {
    fn new(random: &mut StdRng, bytes: &[u8]) -> Self {
        let mut cuts: Vec<usize> =
            (1..random.random_range(1..=MOST_PIECES)).map(|_| random.random_range(0..=bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        cuts.dedup();
        let (mut memory, mut pieces) = (Vec::new(), Vec::new());
        for cut in cuts.windows(2) {
            memory.resize(memory.len() + random.random_range(0..PAGE), UNTOUCHED);
            pieces.push(memory.len()..memory.len() + cut[1] - cut[0]);
            memory.extend_from_slice(&bytes[cut[0]..cut[1]]);
        }
        memory.resize(memory.len() + BLOCK, UNTOUCHED);
        Self { memory, pieces }
    }

    fn len(&self) -> usize {
        self.pieces.iter().map(Range::len).sum()
    }

    fn pieces(&self) -> Vec<IoSlice<'_>> {
        self.pieces.iter().map(|piece| IoSlice::new(&self.memory[piece.clone()])).collect()
    }

    fn pieces_mut(&mut self) -> Vec<IoSliceMut<'_>> {
        let (mut rest, mut at, mut slices) = (&mut self.memory[..], 0, Vec::new());
        for piece in &self.pieces {
            let (slice, behind) = rest[piece.start - at..].split_at_mut(piece.len());
            slices.push(IoSliceMut::new(slice));
            (rest, at) = (behind, piece.end);
        }
        slices
    }

    /// The bytes of the pieces, between which nothing may have changed.
    fn gathered(mut self) -> Vec<u8> {
        let bytes = self.pieces.iter().flat_map(|piece| self.memory[piece.clone()].to_vec()).collect();
        for piece in self.pieces {
            self.memory[piece].fill(UNTOUCHED);
        }
        assert!(self.memory.iter().all(|byte| *byte == UNTOUCHED), "bytes beside the result have changed");
        bytes
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Makes random requests and prints some: key, IV, source and result of an encryption.
#[test]
#[ignore = "runs in a guest, which the tests beside it boot"]
fn in_the_guest() {
    let seed = std::env::var("SEED").unwrap().parse().unwrap();
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..KEYS {
        let mut key = vec![0; [16, 24, 32][random.random_range(0..3)]];
        random.fill(&mut key[..]);
        let device = Cipher::new("virtio_crypto_aes_cbc", &key);
        let own = Cipher::new("cbc(aes-generic)", &key);
        for number in 0..REQUESTS_OF_A_KEY {
            let mut iv = [0; BLOCK];
            random.fill(&mut iv);
            let most = if number % 5 == 0 { LONGEST } else { 24 * BLOCK };
            let mut source = vec![0; BLOCK * random.random_range(1..=most / BLOCK)];
            random.fill(&mut source[..]);
            let mut scattered = |bytes: &[u8]| Scattered::new(&mut random, bytes);
            let empty = vec![UNTOUCHED; source.len()];
            let what = (ENCRYPT, &iv[..]);
            let result = device.spliced(what, &scattered(&source)).result(scattered(&empty));
            assert_eq!(device.copied(what, &scattered(&source)).result(scattered(&empty)), result);
            assert_eq!(own.copied(what, &scattered(&source)).result(scattered(&empty)), result);
            let what = (DECRYPT, &iv[..]);
            assert_eq!(device.spliced(what, &scattered(&result)).result(scattered(&empty)), source);
            if number == 1 {
                println!("sample {} {} {} {}", hex(&key), hex(&iv), hex(&source), hex(&result));
            }
        }
    }
    println!("{} requests agree", 3 * KEYS * REQUESTS_OF_A_KEY);
}

/// What libcrypto makes of these bytes.
fn libcrypto(key: &str, iv: &str, source: &[u8]) -> Vec<u8> {
    let mut command = Command::new("openssl");
    command.args(["enc", &format!("-aes-{}-cbc", 4 * key.len()), "-nopad", "-K", key, "-iv", iv]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(source).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    output.stdout
}

fn bytes_of(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|digits| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap())
        .collect()
}

/// Keys of each length, any number of blocks, source and result in pieces that begin anywhere.
#[test]
fn requests_of_a_guests_programs_agree_with_its_kernel_and_with_libcrypto() {
    let device = Device::start();
    let program = std::env::current_exe().unwrap();
    let guest = Settings::default().size(1, 512).crypto(&device.socket()).program(&program).start().unwrap();
    self_test(&guest);
    let said = run_test(&guest, "SEED=1", "af_alg::in_the_guest");
    drop(guest);
    // The first stands behind the test's name.
    let samples: Vec<_> = said.split("sample ").skip(1).map(str::split_whitespace).collect();
    assert_eq!(samples.len() as u32, KEYS, "{said}");
    for sample in samples {
        let [key, iv, source, result] = sample.take(4).collect::<Vec<_>>()[..] else { panic!("{said}") };
        assert_eq!(libcrypto(key, iv, &bytes_of(source)), bytes_of(result), "{key} {iv}");
    }
    let asked = u64::from(3 * KEYS * REQUESTS_OF_A_KEY);
    assert!(said.contains(&format!("{asked} requests agree")), "{said}");
    let (served, failed) = device.counts();
    println!("{served} requests served");
    assert!(served >= asked && failed == 0, "{served} requests served, {failed} failed");
}
