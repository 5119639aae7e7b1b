//! Interfaces that are there already, descriptors that are handed over, and clear words where it fails.
use std::fs::Permissions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use port::Port;

use crate::frames::{open, start, tap};
use crate::namespace::Namespace;

fn refusal(namespace: &Namespace, text: &str) -> String {
    let mut tap = tap(text);
    let refused = move || start(&mut tap).err().map(|error| error.to_string());
    namespace.run(refused).unwrap_or_else(|| panic!("tap:{text} was opened"))
}

#[test]
fn a_tap_of_the_users_stays_and_is_used_as_it_is() {
    let namespace = Namespace::new();
    for (name, queues, pairs) in [("solo", "", 1), ("many", "multi_queue", 2), ("few", "multi_queue", 1)] {
        namespace.sh(&format!("ip tuntap add {name} mode tap {queues}; ip link set {name} mtu 1400"));
        let (mut tap, mut context) = open(&namespace, &format!("{name},queue-pairs={pairs}"));
        tap.end(&mut context);
        drop(context);
        let link = namespace.sh(&format!("ip link show {name}"));
        assert!(link.contains("mtu 1400") && !link.contains(",UP"), "{link}");
    }
}

#[test]
fn a_tap_of_ours_goes_with_us() {
    let namespace = Namespace::new();
    let (mut tap, mut context) = open(&namespace, "t0,mtu=1400,mac=02:00:00:00:00:07,address=fd00::7/64");
    let link = namespace.sh("ip address show t0");
    for said in ["mtu 1400", "02:00:00:00:00:07", "fd00::7/64", ",UP"] {
        assert!(link.contains(said), "no {said}: {link}");
    }
    tap.end(&mut context);
    assert!(!namespace.try_sh("ip link show t0").status.success(), "it is still there");
    assert!(tap.describe().contains("not open"));
}

#[test]
fn what_cannot_be_opened_says_why_and_what_to_do() {
    let namespace = Namespace::new();
    namespace.sh("ip tuntap add single mode tap; ip tuntap add tun0 mode tun");
    let (_tap, _board) = open(&namespace, "taken");
    for (text, said) in [
        ("single,queue-pairs=2", "multi_queue"),
        ("tun0", "no TAP"),
        ("lo", "no TAP"),
        ("a-name-that-is-too-long", "1 to 15 characters"),
        ("a/b", "no slash"),
        ("t1,fd=999", "descriptor 999"),
        ("t1,mac=01:00:00:00:00:00", "ip link set t1 address"),
    ] {
        let error = refusal(&namespace, text);
        assert!(error.contains(said), "tap:{text}: {error}");
    }
    assert!(!namespace.try_sh("ip link show t1").status.success(), "a failed start leaves nothing behind");
}

#[test]
fn a_tap_of_one_queue_that_is_in_use_is_busy() {
    let namespace = Namespace::new();
    namespace.sh("ip tuntap add single mode tap");
    let (_tap, _board) = open(&namespace, "single");
    let error = refusal(&namespace, "single");
    assert!(error.contains("another program"), "{error}");
}

#[test]
fn a_descriptor_is_taken_over() {
    let namespace = Namespace::new();
    let (mut first, mut context) = open(&namespace, "t0");
    // Any other descriptor of the same interface would do; this is the one at hand.
    let fd = context.sources[&0].wake_fd().unwrap().as_raw_fd();
    assert!(refusal(&namespace, &format!("t9,fd={fd}")).contains("it is t0"));
    let (second, second_board) = open(&namespace, &format!("t0,fd={fd}"));
    first.end(&mut context);
    namespace.sh("ip link show t0");
    drop((second, second_board));
    assert!(!namespace.try_sh("ip link show t0").status.success(), "it is still there");
}

/// Set when a test runs again, as an ordinary user.
const AGAIN: &str = "TAUTLINE_TEST_AGAIN";

/// Whether this is root of the machine, and not of a user namespace alone.
fn is_root_of_the_machine() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    rustix::process::geteuid().is_root() && map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Words before a command that take its rights away.
fn without_rights() -> Vec<&'static str> {
    match is_root_of_the_machine() {
        true => vec!["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"],
        // No other user is there to become.
        false => vec!["setpriv", "--inh-caps=-all", "--bounding-set=-all", "--"],
    }
}

/// Runs one of these tests again, started through these words.
fn again(test: &str, through: &[&str]) {
    // An ordinary user may perhaps not read the folder of this test: makes a copy that the user may read.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let copy = folder.path().join("tap");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let mut command = Command::new(through[0]);
    command.args(&through[1..]).arg(&copy).args(["--exact", &format!("whose::{test}")]);
    let output = command.env(AGAIN, "yes").stdin(Stdio::null()).current_dir("/").output().unwrap();
    let printed = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success() && printed[0].contains("1 passed"), "{}", printed.concat());
}

#[test]
fn an_ordinary_user_needs_no_root() {
    if std::env::var_os(AGAIN).is_some() {
        let namespace = Namespace::new();
        open(&namespace, "t0,queue-pairs=2,mtu=9000,address=10.0.0.1/24");
        return;
    }
    let mut through = if is_root_of_the_machine() { without_rights() } else { Vec::new() };
    through.extend(["unshare", "--user", "--map-root-user", "--net", "--"]);
    again("an_ordinary_user_needs_no_root", &through);
}

#[test]
fn without_rights_the_remedy_is_named() {
    if std::env::var_os(AGAIN).is_some() {
        let error = start(&mut tap("t0")).err().expect("opened without rights").to_string();
        assert!(error.contains("unshare --user --map-root-user --net"), "{error}");
        return;
    }
    again("without_rights_the_remedy_is_named", &without_rights());
}

#[test]
fn a_tap_that_root_made_for_a_user_needs_no_rights() {
    if std::env::var_os(AGAIN).is_some() {
        start(&mut tap("t0,queue-pairs=2")).unwrap_or_else(|error| panic!("{error}"));
        let error = start(&mut tap("t0,queue-pairs=2,mtu=9000")).err().unwrap().to_string();
        assert!(error.contains("as root: ip link set t0 mtu 9000"), "{error}");
        return;
    }
    let namespace = Namespace::new();
    let user = if is_root_of_the_machine() { 65_534 } else { 0 };
    namespace.sh(&format!("ip tuntap add t0 mode tap multi_queue vnet_hdr user {user}"));
    namespace.run(|| again("a_tap_that_root_made_for_a_user_needs_no_rights", &without_rights()));
    namespace.sh("ip link show t0");
}
