//! A guest with two crypto devices, ours and QEMU's built-in back-end: how long a request takes on each, in turns.
//!
//! Linux' driver registers a cipher once for all devices and gives a key to the device that has the fewest, to the
//! first of several. So the first of two keys is on the first device, and the second on the other.
//!
//! The guest's CPU is emulated, which slows both alike. What is measured with an unoptimized build shows that the
//! comparison works; `make bench-crypto` builds for figures.

use std::time::Instant;

use measure::bootstrap::{self, Block};
use measure::statistics::median;
use peers::guest::Settings;

use crate::af_alg::{Cipher, ENCRYPT};
use crate::guest::{Device, run_test, self_test};

const KEY: [u8; 16] = [0x4b; 16];
const IV: [u8; 16] = [0x49; 16];
const SIZES: [usize; 3] = [16, 4096, 16384];
/// Requests of a block on each device.
const REQUESTS: usize = 20;
/// Requests of the first key before the blocks: more than the kernel's self-test makes. They tell which device has it.
const FIRST: usize = 1500;

/// How long a request takes, µs.
fn request(cipher: &Cipher, source: &[u8], result: &mut [u8]) -> f64 {
    let begin = Instant::now();
    cipher.request((ENCRYPT, &IV), source, result);
    begin.elapsed().as_secs_f64() * 1e6
}

/// Prints of each block the median on both devices.
#[test]
#[ignore = "runs in a guest, which the tests beside it boot"]
fn in_the_guest() {
    let blocks: usize = std::env::var("BLOCKS").unwrap().parse().unwrap();
    let [first, second] = [(); 2].map(|()| Cipher::new("virtio_crypto_aes_cbc", &KEY));
    for _ in 0..FIRST {
        request(&first, &[7; 16], &mut [0; 16]);
    }
    for size in SIZES {
        let source: Vec<u8> = (0..size).map(|at| at as u8).collect();
        let mut expected = vec![0; size];
        request(&Cipher::new("cbc(aes-generic)", &KEY), &source, &mut expected);
        for number in 0..blocks {
            let mut medians = [0.0; 2];
            // Every other block runs backwards: a drift of the machine within a block then cancels out.
            for device in [number % 2, 1 - number % 2] {
                let mut result = vec![0; size];
                let mut trial = || request([&first, &second][device], &source, &mut result);
                medians[device] = median(&(0..REQUESTS).map(|_| trial()).collect::<Vec<_>>()).unwrap();
                assert!(result == expected, "a wrong result of {size} bytes");
            }
            println!("block {size} {} {}", medians[0], medians[1]);
        }
    }
}

fn beside(settings: Settings, qemu: &str) {
    let blocks = std::env::var("BLOCKS").map_or(bootstrap::MIN_BLOCKS, |blocks| blocks.parse().unwrap());
    let device = Device::start();
    let built_in = "virtio-crypto-pci,cryptodev=built-in,vectors=0";
    let settings = settings.crypto(&device.socket());
    let settings =
        settings.arguments(["-object", "cryptodev-backend-builtin,id=built-in", "-device", built_in]);
    let guest = settings.size(1, 512).program(&std::env::current_exe().unwrap()).start().unwrap();
    self_test(&guest);
    let said = run_test(&guest, &format!("BLOCKS={blocks}"), "beside_qemu::in_the_guest");
    drop(guest);
    for size in SIZES {
        let of_size = format!("block {size} ");
        // The first stands behind the test's name.
        let lines = said.split(&of_size).skip(1).map(|line| line.lines().next().unwrap());
        let levels: Vec<[f64; 2]> = lines
            .map(|line| {
                let (ours, theirs) = line.split_once(' ').unwrap();
                [ours, theirs].map(|level| level.parse().unwrap())
            })
            .collect();
        assert_eq!(levels.len(), blocks, "{said}");
        let level = |device: usize| median(&levels.iter().map(|level| level[device]).collect::<Vec<_>>());
        let pairs = levels.iter().map(|[ours, theirs]| Block { base: vec![*theirs], other: vec![*ours] });
        let ratio = bootstrap::ratio(&pairs.collect::<Vec<_>>()).unwrap();
        let (low, high) = ratio.interval.unwrap();
        println!(
            "{qemu}, emulated CPU{}, {size} bytes a request: {:.0} µs on our device, {:.0} µs on QEMU's built-in \
             back-end, ratio {:.3} [{low:.3}, {high:.3}] over {blocks} blocks",
            if cfg!(debug_assertions) { ", unoptimized build" } else { "" },
            level(0).unwrap(),
            level(1).unwrap(),
            ratio.ratio
        );
    }
    let (served, failed) = device.counts();
    let first = (FIRST + SIZES.len() * blocks * REQUESTS) as u64;
    println!("{served} requests served, {first} of them of the first key");
    assert!(
        (first..first + FIRST as u64).contains(&served) && failed == 0,
        "{served} served, {failed} failed"
    );
}

#[test]
fn a_request_takes_on_our_device_and_on_qemus_own() {
    beside(Settings::default(), "QEMU 7.2");
}

#[test]
#[ignore = "make bench-crypto runs it"]
fn a_request_takes_on_our_device_and_on_that_of_qemu_10() {
    beside(Settings::default().newer_qemu(), "QEMU 10");
}
