//! A guest without ports: boot, commands, limits.

use std::time::{Duration, Instant};

use peers::guest::Settings;

#[test]
fn a_guest_takes_commands_side_by_side_and_ends_those_that_do_not() {
    let start = Instant::now();
    let guest = Settings::default().start().unwrap();
    println!("booted in {:?}\n{}", start.elapsed(), guest.console());
    let output = guest.run("echo out; echo 'it'\"'s\" >&2; exit 3").unwrap();
    assert_eq!((output.status, output.stdout.as_str(), output.stderr.as_str()), (3, "out\n", "it's\n"));
    // More than any buffer on the way holds.
    assert_eq!(guest.must("seq 1 100000").lines().count(), 100_000);
    for program in ["ip -V", "ping -V", "iperf3 --version", "ethtool --version"] {
        let said = guest.must(program);
        assert!(!said.contains("BusyBox"), "{said}");
    }
    let slow = guest
        .begin("while [ ! -e /tmp/go ]; do sleep 0.05; done; echo went", Duration::from_secs(60))
        .unwrap();
    guest.must("touch /tmp/go");
    assert_eq!(slow.wait().unwrap().expect_success(), "went\n");
    let error = guest.run_within("echo begun; sleep 1000", Duration::from_secs(1)).unwrap_err();
    assert!(matches!(&error, peers::Error::TimedOut { said, .. } if said.contains("begun")), "{error}");
    let id = guest.id();
    let folder = guest.folder().to_owned();
    drop(guest);
    assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
    assert!(!folder.exists());
}
