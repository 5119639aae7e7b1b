//! The device's process is killed with requests under way, and started again.

use std::time::{Duration, Instant};

use crypto_device::Library;
use crypto_driver::{Completed, Driver, Options, request};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use virtio::crypto::{Cipher, Status};

use crate::guest::{Device, SOON};

const SLOTS: u16 = 16;
const BYTES: usize = 2048;

/// A driver of the process that is starting.
fn connect(device: &Device) -> Driver {
    let options = Options { slots: SLOTS, ..Options::new(device.socket()) };
    let deadline = Instant::now() + SOON;
    loop {
        match Driver::connect(&options) {
            Ok(driver) => return driver,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What has come back is right, whenever the device was killed; a session of an earlier process is none of the next.
#[test]
fn devices_that_are_killed_give_no_wrong_byte() {
    let rounds = std::env::var("TAUTLINE_CRYPTO_KILLS").map_or(100, |kills| kills.parse().expect("a number"));
    let mut random = StdRng::seed_from_u64(3);
    let mut device = Device::start();
    let (mut stale, mut whole) = (None, 0);
    for round in 0..rounds {
        let mut driver = connect(&device);
        let mut key = [0; 16];
        random.fill(&mut key);
        let setup = request::cipher_session(Cipher::AesCbc, &key);
        let session = driver.create(&setup).unwrap();
        let library = Library::new(&setup).unwrap();
        if let Some(stale) = stale.replace(session) {
            let (status, _) = driver.run(&request::cipher(stale, true, &[0; 16], &[0; 16]), 16).unwrap();
            assert_eq!(status, Status::InvalidSession, "round {round}: a session of the process before");
        }
        let mut sources = Vec::new();
        for slot in 0..SLOTS {
            let (mut iv, mut source) = ([0; 16], vec![0; BYTES]);
            random.fill(&mut iv);
            random.fill(&mut source[..]);
            driver.prepare(slot, &request::cipher(session, true, &iv, &source), BYTES).unwrap();
            sources.push((iv, source));
        }
        driver.submit(0..SLOTS).unwrap();
        let mut completed = Vec::new();
        // Now and then all of them, or none.
        let first = random.random_range(0..=usize::from(SLOTS));
        while completed.len() < first {
            driver.wait(&mut completed).unwrap();
        }
        device.kill();
        driver.take(&mut completed).unwrap();
        whole += u32::from(completed.len() == usize::from(SLOTS));
        for Completed { slot, status, .. } in completed {
            let (iv, mut expected) = sources[usize::from(slot)].clone();
            library.cipher_in_place(true, &iv, &mut expected).unwrap();
            assert_eq!(status, Status::Ok);
            assert!(driver.result(slot) == expected, "round {round}: a wrong byte in slot {slot}");
        }
        device = device.again();
    }
    println!("killed with requests under way: {} times; after all of them: {whole} times", rounds - whole);
    assert!(0 < whole && whole < rounds);
}
