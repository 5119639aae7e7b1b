//! A guest with one network card, under KVM in the arm64 machine.

use std::time::Duration;

use peers::guest::Job;
use peers::nested::ArmMachine;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(240);

/// A guest at 10.0.0.2, to which the machine has a TAP.
pub struct Guest<'a>(Job<'a>);

impl<'a> Guest<'a> {
    /// Boots a guest with this card, whose back-end is vhost-net or QEMU, and waits until it answers.
    pub fn start(machine: &'a ArmMachine, device: &str, vhost: &str) -> Self {
        let guest = format!(
            "echo $$ >/guest.pid; exec start-guest -serial file:/guest.console \
             -append 'console=ttyAMA0 quiet' -device {device},netdev=n,mac=52:54:00:00:00:02 \
             -netdev tap,id=n,ifname=tap0,script=no,downscript=no,vhost={vhost}"
        );
        machine.must("rm -f /guest.console /guest.pid");
        let guest = machine.begin(&guest, 2 * LIMIT).unwrap();
        machine
            .run_within("until grep -qs ^up /guest.console; do usleep 100000; done", LIMIT)
            .unwrap()
            .expect_success();
        machine.must(
            "set -e
             echo 1 >/proc/sys/net/ipv6/conf/tap0/disable_ipv6; ip link set tap0 up; ip address add 10.0.0.1/24 dev tap0
             arp -s 10.0.0.9 52:54:00:00:00:02; ping -c 1 -W 5 10.0.0.2; sleep 2",
        );
        Self(guest)
    }

    /// Makes the guest send a ping each 50 ms from now on.
    pub fn sends(&self, machine: &ArmMachine) {
        machine.must("nc 10.0.0.2 9 </dev/null");
    }

    /// The interrupt controller that the guest found.
    pub fn interrupt_controller(&self, machine: &ArmMachine) -> String {
        machine.must("grep -B 1 ^up /guest.console | head -n 1").trim().to_owned()
    }

    /// Ends the guest.
    pub fn end(self, machine: &ArmMachine) {
        machine.must("kill $(cat /guest.pid)");
        let _ = self.0.wait();
    }
}

/// The results of `tautline compare` have trials of the host and of a guest under KVM, which is marked as emulated.
pub fn is_measured_and_marked(results: &str) {
    let results: Value = serde_json::from_str(results).unwrap();
    let list = |name: &str| results[name].as_array().cloned().unwrap_or_default();
    let environments = list("environments");
    assert_eq!(environments.len(), 2, "{results:#}");
    for environment in &environments {
        let trials = list("trials").into_iter().filter(|trial| trial["environment"] == environment["name"]);
        assert!(trials.count() > 0, "no trial of {environment}");
    }
    let guest = &environments[1];
    assert_eq!((&guest["accelerator"], &guest["emulated"]), (&"kvm-arm".into(), &true.into()), "{guest:#}");
}
