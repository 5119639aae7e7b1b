//! Whether the time of a request depends on what is secret: instructions, counted by valgrind, for other keys, data and
//! tags. A branch on a secret shows; that no table is read at a secret's place is the libraries' own promise.
mod common;

use std::process::Command;

use common::{Driver, bytes, sessions, setup};
use crypto_device::{Executor, Sessions};
use virtio::crypto::{Operation, Status};

const BYTES: u32 = 1040;
/// VIRTIO_CRYPTO_CIPHER_AES_XTS.
const XTS: u32 = 13;

/// Opcode of the session, algorithm, bytes of key and result, operation, IV.
type Case = (u64, u32, usize, u32, Operation, &'static [u8]);

/// A request of each kind, in a session of its own: with one session a look-up takes the same steps always.
fn requests(variant: &str, is_xts: bool) -> Vec<(Sessions, Driver, Status)> {
    let (pattern, step) = match variant {
        "zeros" => (0u8, 0u8),
        "ones" => (0xff, 0),
        _ => (0x35, 0x47),
    };
    let secret = |len: usize| -> Vec<u8> {
        // Halves differ, as XTS demands.
        (0..len)
            .map(|at| (pattern ^ u8::from(2 * at >= len)).wrapping_add(step.wrapping_mul(at as u8)))
            .collect()
    };
    let data = secret(BYTES as usize);
    let cipher =
        |encrypt| Operation::Cipher { encrypt, iv_len: 16, src_data_len: BYTES, dst_data_len: BYTES };
    let hash = |hash_result_len| Operation::Hash { src_data_len: BYTES, hash_result_len };
    let mac = |hash_result_len| Operation::Mac { src_data_len: BYTES, hash_result_len };
    let seal = Operation::Aead {
        encrypt: true,
        iv_len: 12,
        aad_len: 0,
        src_data_len: BYTES,
        dst_data_len: BYTES + 16,
        tag_len: 16,
    };
    let all: [Case; 11] = [
        (2, 3, 16, 0, cipher(true), &[1; 16]),
        (2, 3, 32, 0, cipher(false), &[1; 16]),
        (2, 4, 24, 0, cipher(true), &[1; 16]),
        (2, XTS, 64, 0, cipher(true), &[1; 16]),
        (2, XTS, 32, 0, cipher(false), &[1; 16]),
        (0x302, 1, 16, 16, seal, &[1; 12]),
        (0x302, 3, 32, 16, seal, &[1; 12]),
        (0x102, 4, 0, 32, hash(32), &[]),
        (0x102, 6, 0, 64, hash(64), &[]),
        (0x202, 4, 64, 32, mac(32), &[]),
        (0x202, 26, 16, 16, mac(16), &[]),
    ];
    let request = |(opcode, algorithm, key, result, operation, iv): Case| {
        let mut sessions = sessions();
        let session = sessions.create(&setup(opcode, algorithm, &secret(key), result)).unwrap();
        let room = match operation {
            Operation::Cipher { .. } => BYTES,
            Operation::Aead { .. } => BYTES + 16,
            _ => result,
        };
        (sessions, Driver::new(bytes(session, operation, &[iv, &data]), room as usize + 1), Status::Ok)
    };
    let is_wanted = |(_, algorithm, ..): &Case| (*algorithm == XTS) == is_xts;
    all.into_iter().filter(is_wanted).map(request).collect()
}

/// What AES-GCM and ChaCha20-Poly1305 are to decipher, with a tag that is wrong in this byte, or right.
fn opened(wrong: Option<usize>) -> Vec<(Sessions, Driver, Status)> {
    let request = |algorithm, key_bytes| {
        let mut sessions = sessions();
        let session = sessions.create(&setup(0x302, algorithm, &vec![7; key_bytes], 16)).unwrap();
        let aead = |encrypt, src_data_len, dst_data_len| Operation::Aead {
            encrypt,
            iv_len: 12,
            aad_len: 0,
            src_data_len,
            dst_data_len,
            tag_len: 16,
        };
        let (short, long) = (BYTES, BYTES + 16);
        let sealed = bytes(session, aead(true, short, long), &[&[1; 12], &[2; BYTES as usize]]);
        let mut sealed = common::run(&sessions, sealed, long as usize).1;
        let status = if wrong.is_some() { Status::BadMessage } else { Status::Ok };
        if let Some(at) = wrong {
            sealed[short as usize + at] ^= 1;
        }
        let request = bytes(session, aead(false, long, short), &[&[1; 12], &sealed]);
        (sessions, Driver::new(request, short as usize + 1), status)
    };
    vec![request(1, 16), request(3, 32)]
}

/// The only function whose instructions are counted.
#[inline(never)]
fn counted(executor: &mut Executor, requests: &[(Sessions, Driver, Status)]) {
    for (sessions, driver, status) in requests {
        assert_eq!(executor.execute(sessions, driver).status, Some(*status));
    }
}

#[test]
#[ignore = "runs in valgrind, which the test beside it starts"]
fn in_valgrind() {
    let variant = std::env::var("VARIANT").unwrap();
    let requests = match variant.split_once(' ') {
        Some(("wrong", at)) => opened(Some(at.parse().unwrap())),
        Some(_) => opened(None),
        None => requests(variant.trim_start_matches("xts-"), variant.starts_with("xts-")),
    };
    let mut executor = Executor::new();
    // Its memory is there then.
    executor.execute(&requests[0].0, &Driver::new(vec![0; 4096], 1));
    counted(&mut executor, &requests);
}

fn instructions(variant: &str) -> u64 {
    let mut command = Command::new("valgrind");
    command.args([
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--toggle-collect=*constant_time*counted*",
    ]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "in_valgrind", "--ignored", "--test-threads=1"]).env("VARIANT", variant);
    let output = command.output().expect("valgrind, which scripts/setup.sh test installs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{variant}: {text}{}", String::from_utf8_lossy(&output.stdout));
    let collected = text.lines().find_map(|line| line.split("Collected : ").nth(1)?.trim().parse().ok());
    collected.unwrap_or_else(|| panic!("{variant}: {text}"))
}

#[test]
fn instructions_do_not_depend_on_keys_data_or_where_a_tag_is_wrong() {
    let [zeros, ones, mixed] = ["zeros", "ones", "mixed"].map(instructions);
    println!("keys and data: {zeros}, {ones}, {mixed} instructions");
    assert_eq!((ones, mixed), (zeros, zeros));
    let xts = ["xts-zeros", "xts-ones", "xts-mixed"].map(instructions);
    println!("keys and data of XTS: {xts:?} instructions");
    // The library doubles a tweak with a condition on its highest bit: a jump where nothing is optimized, one jump a
    // block at most.
    let most = if cfg!(debug_assertions) { 2 * u64::from(BYTES) / 16 } else { 0 };
    assert!(xts.iter().max().unwrap() - xts.iter().min().unwrap() <= most, "{xts:?}");
    let [first, middle, last, right] = ["wrong 0", "wrong 8", "wrong 15", "right tag"].map(instructions);
    println!("tags: {first}, {middle}, {last} instructions; {right} with the right one");
    assert_eq!((middle, last), (first, first));
    // What is different counts.
    assert!(right > first && zeros > first, "{zeros} {first} {right}");
}
