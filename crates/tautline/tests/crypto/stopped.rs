//! A guest that is stopped and goes on (`virsh suspend` and `resume`): QEMU stops the device's rings, and starts them
//! again where they stood. The guest knows nothing of it and goes on with its sessions.

use std::path::Path;
use std::time::Duration;

use peers::guest::Settings;
use vm::Qmp;

use crate::af_alg::{Cipher, ENCRYPT};
use crate::guest::{Device, SOON, self_test, test_line};

const BEGUN: &str = "/begun";
const OVER: &str = "/over";
const STOPS: u32 = 10;

/// Requests of one session, until it is told to end.
#[test]
#[ignore = "runs in a guest, which the test beside it boots"]
fn in_the_guest() {
    let [device, own] =
        ["virtio_crypto_aes_cbc", "cbc(aes-generic)"].map(|driver| Cipher::new(driver, &[0x4b; 16]));
    let mut requests = 0u32;
    while !Path::new(OVER).exists() {
        let (iv, source) = ([requests as u8; 16], vec![requests as u8; 1024]);
        let mut results = [vec![0; 1024], vec![0; 1024]];
        for (cipher, result) in [&device, &own].into_iter().zip(&mut results) {
            cipher.request((ENCRYPT, &iv), &source, result);
        }
        assert!(results[0] == results[1], "request {requests}");
        requests += 1;
        std::fs::write(BEGUN, "").unwrap();
    }
    println!("{requests} requests of one session");
}

#[test]
fn sessions_outlive_a_stop_of_the_guest() {
    let device = Device::start();
    let monitor = device.socket().with_file_name("monitor");
    let listen = format!("unix:{},server=on,wait=off", monitor.display());
    let settings = Settings::default().size(1, 512).crypto(&device.socket()).arguments(["-qmp", &listen]);
    let guest = settings.program(&std::env::current_exe().unwrap()).start().unwrap();
    self_test(&guest);
    let requests = guest.begin(&test_line("", "stopped::in_the_guest"), Duration::from_secs(200)).unwrap();
    let wait = |path: &str| format!("for i in $(seq 300); do [ -e {path} ] && exit; sleep 0.1; done; exit 1");
    guest.must(&wait(BEGUN));
    let mut monitor = Qmp::connect(&monitor, SOON).unwrap();
    for _ in 0..STOPS {
        monitor.execute("stop").unwrap();
        monitor.execute("cont").unwrap();
        // Requests go on before the next stop.
        guest.must(&format!("rm {BEGUN}; {}", wait(BEGUN)));
    }
    guest.must(&format!("touch {OVER}"));
    let output = requests.wait().unwrap();
    assert!(output.success() && output.stdout.contains("requests of one session"), "{}", output.stdout);
    drop(guest);
    let (served, failed) = device.counts();
    println!("{served} requests served over {STOPS} stops");
    assert_eq!(failed, 0);
}
