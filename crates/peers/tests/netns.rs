//! Two network namespaces joined by a virtual Ethernet pair, as root and as an ordinary user.

use std::time::Duration;

use peers::Netns;
use peers::netns::TapQueues;

const SOON: Duration = Duration::from_secs(30);

fn talk(a: &Netns, b: &Netns) {
    a.join("va", b, "vb").unwrap();
    a.configure("va", "10.1.0.1/24").unwrap();
    b.configure("vb", "10.1.0.2/24").unwrap();
    a.run("ping -c 2 -i 0.2 -W 5 10.1.0.2").unwrap().expect_success();
    let server = b.start("iperf3 --server --one-off --forceflush").unwrap();
    server.wait_for("Server listening", SOON).unwrap();
    let report = a.run("iperf3 --client 10.1.0.2 --time 1 --json").unwrap().expect_success();
    assert!(peers::bytes_received(&report).unwrap() > 1_000_000, "{report}");
}

/// The peers of a test end with it.
fn gone(process: u32) -> bool {
    !std::path::Path::new(&format!("/proc/{process}")).exists()
}

#[test]
fn roots_namespaces_talk_and_go() {
    let (a, b) = (Netns::new().unwrap(), Netns::new().unwrap());
    talk(&a, &b);
    let holders = [a.holder(), b.holder()];
    drop((a, b));
    assert!(holders.into_iter().all(gone));
}

#[test]
fn an_ordinary_users_namespaces_talk() {
    let a = Netns::unprivileged().unwrap();
    let user = a.run("sed -n 's/^ *[0-9]* *//p' /proc/self/uid_map").unwrap().expect_success();
    assert!(!user.trim_start().starts_with("0 "), "this is the machine's root: {user}");
    let b = a.sibling().unwrap();
    talk(&a, &b);
    a.tap("tap0", TapQueues::Many).unwrap();
    a.run("ip link show tap0").unwrap().expect_success();
}

#[test]
fn a_namespace_goes_with_a_panic() {
    let (send, receive) = std::sync::mpsc::channel();
    let died = std::thread::spawn(move || {
        let namespace = Netns::new().unwrap();
        send.send(namespace.holder()).unwrap();
        panic!("on purpose");
    });
    assert!(died.join().is_err());
    assert!(gone(receive.recv().unwrap()));
}

#[test]
fn a_command_that_never_ends_is_ended() {
    let namespace = Netns::new().unwrap();
    let error = namespace.run_within("sleep 1000", Duration::from_millis(100)).unwrap_err();
    assert!(matches!(error, peers::Error::TimedOut { .. }), "{error}");
}
