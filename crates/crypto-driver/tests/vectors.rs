//! Test vectors of NIST and Wycheproof through a driver, a socket and a ring, for every algorithm of the device and every
//! way to lay out a ring and a request.
mod common;

use common::Device;
use crypto_driver::{Driver, DriverError, Options, request};
use vhost_user::codec::crypto::CryptoSetup;
use virtio::Features;
use virtio::crypto::{Aead, Cipher, Hash, Mac, Status};
use wycheproof::{TestResult, aead, cipher, mac};

/// Calls a function with a driver for each layout of the ring, and with requests in one piece and in several.
fn each_way(test: impl Fn(&mut Driver)) {
    let device = Device::start();
    let both = Features::RING_EVENT_IDX.union(Features::RING_INDIRECT_DESC);
    for layout in [Features::empty(), Features::RING_PACKED] {
        for (used, pieces) in [(Features::empty(), 3), (both, 1), (both, 5)] {
            let ring = layout.union(used);
            test(&mut device.driver(&Options { ring, pieces, ..device.options() }));
        }
    }
}

/// The number of a session, or none if the device refuses the set-up.
fn session(driver: &mut Driver, setup: &CryptoSetup) -> Option<u64> {
    match driver.create(setup) {
        Ok(number) => Some(number),
        Err(DriverError::NoSession) => None,
        Err(error) => panic!("{error}"),
    }
}

fn run(driver: &mut Driver, request: &[u8], result_bytes: usize) -> (Status, Vec<u8>) {
    driver.run(request, result_bytes).unwrap()
}

fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<_> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

/// Runs the valid vectors of a cipher, both ways. Returns how many there were.
fn ciphers(driver: &mut Driver, name: cipher::TestName, algorithm: Cipher, padded: bool) -> usize {
    let set = cipher::TestSet::load(name).unwrap();
    let mut count = 0;
    for (group, test) in
        set.test_groups.iter().flat_map(|group| group.tests.iter().map(move |test| (group, test)))
    {
        if test.result != TestResult::Valid {
            continue;
        }
        let mut plain = test.pt.to_vec();
        // The number of a sector in XTS: little endian, zeros behind it.
        let mut iv = test.nonce.to_vec();
        iv.resize(16, 0);
        if padded {
            let pad = 16 - plain.len() % 16;
            plain.resize(plain.len() + pad, pad as u8);
        }
        let Some(session) = session(driver, &request::cipher_session(algorithm, &test.key)) else {
            let refused = (algorithm, group.key_size);
            assert_eq!(refused, (Cipher::AesXts, 384), "AES-XTS with AES-192 is in no standard");
            continue;
        };
        let case = format!("{name:?} {}", test.tc_id);
        let sealed = run(driver, &request::cipher(session, true, &iv, &plain), plain.len());
        assert_eq!(sealed, (Status::Ok, test.ct.to_vec()), "{case}");
        let opened = run(driver, &request::cipher(session, false, &iv, &test.ct), plain.len());
        assert_eq!(opened, (Status::Ok, plain), "{case}");
        driver.close(session).unwrap();
        count += 1;
    }
    count
}

#[test]
fn cbc_and_xts_agree_with_wycheproof() {
    each_way(|driver| {
        assert!(ciphers(driver, cipher::TestName::AesCbcPkcs5, Cipher::AesCbc, true) > 60);
        assert!(ciphers(driver, cipher::TestName::AesXts, Cipher::AesXts, false) > 60);
    });
}

fn aeads(driver: &mut Driver, name: aead::TestName, algorithm: Aead) -> usize {
    let set = aead::TestSet::load(name).unwrap();
    let mut count = 0;
    for (group, test) in
        set.test_groups.iter().flat_map(|group| group.tests.iter().map(move |test| (group, test)))
    {
        if group.tag_size != 128 {
            continue;
        }
        let session = session(driver, &request::aead_session(algorithm, &test.key)).unwrap();
        let mut request = |encrypt, source: &[u8], result: usize| {
            run(driver, &request::aead(session, encrypt, &test.nonce, &test.aad, source, result), result)
        };
        let whole = [&test.ct[..], &test.tag].concat();
        let opened = request(false, &whole, test.ct.len());
        let case = format!("{name:?} {}", test.tc_id);
        if test.result == TestResult::Invalid || group.nonce_size != 96 {
            assert_eq!(opened.0, Status::BadMessage, "{case}");
        } else {
            assert_eq!(opened, (Status::Ok, test.pt.to_vec()), "{case}");
            assert_eq!(request(true, &test.pt, whole.len()), (Status::Ok, whole), "{case}");
        }
        driver.close(session).unwrap();
        count += 1;
    }
    count
}

#[test]
fn gcm_and_chacha20_poly1305_agree_with_wycheproof() {
    each_way(|driver| {
        assert!(aeads(driver, aead::TestName::AesGcm, Aead::AesGcm) > 200);
        assert!(aeads(driver, aead::TestName::ChaCha20Poly1305, Aead::ChaCha20Poly1305) > 200);
    });
}

fn macs(driver: &mut Driver, name: mac::TestName, algorithm: Mac, result: usize) -> usize {
    let set = mac::TestSet::load(name).unwrap();
    let mut count = 0;
    for (group, test) in
        set.test_groups.iter().flat_map(|group| group.tests.iter().map(move |test| (group, test)))
    {
        if group.tag_size != 8 * result {
            continue;
        }
        let setup = request::mac_session(algorithm, &test.key, result as u32);
        let Some(session) = session(driver, &setup) else {
            assert_eq!(test.result, TestResult::Invalid);
            continue;
        };
        let (status, mac) = run(driver, &request::mac(session, &test.msg, result as u32), result);
        assert_eq!(status, Status::Ok);
        assert_eq!(mac == test.tag.to_vec(), test.result == TestResult::Valid, "{name:?} {}", test.tc_id);
        driver.close(session).unwrap();
        count += 1;
    }
    count
}

#[test]
fn macs_agree_with_wycheproof() {
    each_way(|driver| {
        for (name, algorithm, result) in [
            (mac::TestName::HmacSha224, Mac::HmacSha224, 28),
            (mac::TestName::HmacSha256, Mac::HmacSha256, 32),
            (mac::TestName::HmacSha384, Mac::HmacSha384, 48),
            (mac::TestName::HmacSha512, Mac::HmacSha512, 64),
            (mac::TestName::AesCmac, Mac::CmacAes, 16),
        ] {
            assert!(macs(driver, name, algorithm, result) > 60, "{name:?}");
        }
    });
}

/// NIST SP 800-38A, F.5: the four blocks of counter mode, by key length.
#[test]
fn ctr_agrees_with_nist() {
    let plain = hex("6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51
         30c81c46a35ce411e5fbc1191a0a52ef f69f2445df4f9b17ad2b417be66c3710");
    let iv = hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
    let cases = [
        (
            "2b7e151628aed2a6abf7158809cf4f3c",
            "874d6191b620e3261bef6864990db6ce 9806f66b7970fdff8617187bb9fffdff
             5ae4df3edbd5d35e5b4f09020db03eab 1e031dda2fbe03d1792170a0f3009cee",
        ),
        (
            "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
            "1abc932417521ca24f2b0459fe7e6e0b 090339ec0aa6faefd5ccc2c6f4ce8e94
             1e36b26bd1ebc670d1bd1d665620abf7 4f78a7f6d29809585a97daec58c6b050",
        ),
        (
            "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
            "601ec313775789a5b7a7f504bbf3d228 f443e3ca4d62b59aca84e990cacaf5c5
             2b0930daa23de94ce87017ba2d84988d dfc9c58db67aada613c2dd08457941a6",
        ),
    ];
    each_way(|driver| {
        for (key, sealed) in cases {
            let sealed = hex(sealed);
            let session = session(driver, &request::cipher_session(Cipher::AesCtr, &hex(key))).unwrap();
            // Counter mode takes any length.
            for len in [0, 1, 15, 16, 17, 33, 64] {
                let got = run(driver, &request::cipher(session, true, &iv, &plain[..len]), len);
                assert_eq!(got, (Status::Ok, sealed[..len].to_vec()), "{len}");
                let got = run(driver, &request::cipher(session, false, &iv, &sealed[..len]), len);
                assert_eq!(got, (Status::Ok, plain[..len].to_vec()), "{len}");
            }
        }
    });
}

/// FIPS 180-4's examples: the hash of "abc".
#[test]
fn sha_2_agrees_with_nist() {
    let cases = [
        (Hash::Sha224, "23097d22 3405d822 8642a477 bda255b3 2aadbce4 bda0b3f7 e36c9da7"),
        (Hash::Sha256, "ba7816bf 8f01cfea 414140de 5dae2223 b00361a3 96177a9c b410ff61 f20015ad"),
        (
            Hash::Sha384,
            "cb00753f45a35e8b b5a03d699ac65007 272c32ab0eded163 1a8b605a43ff5bed
             8086072ba1e7cc23 58baeca134c825a7",
        ),
        (
            Hash::Sha512,
            "ddaf35a193617aba cc417349ae204131 12e6fa4e89a97ea2 0a9eeee64b55d39a
             2192992a274fc1a8 36ba3c23a3feebbd 454d4423643ce80e 2a9ac94fa54ca49f",
        ),
    ];
    each_way(|driver| {
        for (algorithm, digest) in cases {
            let digest = hex(digest);
            let len = digest.len() as u32;
            let session = session(driver, &request::hash_session(algorithm, len)).unwrap();
            assert_eq!(run(driver, &request::hash(session, b"abc", len), digest.len()), (Status::Ok, digest));
        }
    });
}
