//! `compare` with a guest on the relay, whose device is a port of the switch (VDUSE), beside guests on a TAP and on the
//! switch. The machine's CPU is emulated: the counts of events say something, the times do not.

use std::path::Path;
use std::time::Duration;

use measure::Results;
use peers::guest::{KERNEL_WITHIN, Settings};

use super::lab::Lab;

const PATHS: [&str; 4] =
    ["guest_virtio_tap", "guest_virtio_vhost-net_tap", "guest_vhost-user_switch", "guest_vdpa_vduse"];

#[test]
#[ignore = "four guests, one after the other, in four minutes: make test-nested-long"]
fn a_guest_on_the_relay_beside_guests_on_a_tap_and_on_the_switch() {
    let programs = ["setpriv", "unshare", "nsenter", "cat"].map(|name| Path::new("/usr/bin").join(name));
    let settings = Settings::default().size(2, 2048).vdpa().guest_within("");
    let lab = Lab::boot(programs.iter().fold(settings, |settings, program| settings.program(program)));
    for path in PATHS {
        let only = ["udp_rr.64", "udp_stream.1472"].map(|work| format!("net.{path}.{work}")).join(",");
        let said = lab.must_within(
            &format!(
                "PATH=$PATH:/usr/bin; ulimit -l unlimited
                 tautline --verbose compare --quick --blocks 1 --trial 500ms --verify-payload --timeout 60s \
                     --environments host,vm:accel=kvm,kernel={KERNEL_WITHIN},memory=256 --only {only} \
                     --output /run/net.json --tables 2>&1 || failed compare"
            ),
            Duration::from_secs(400),
        );
        println!("{said}");
        let results: Results = serde_json::from_str(&lab.must("cat /run/net.json")).unwrap();
        assert!(results.absences.is_empty(), "{:?}", results.absences);
        let trials: Vec<_> = results.network.trials.iter().filter(|trial| trial.counts).collect();
        assert!(trials.len() >= 2, "{:?}", results.network);
        for trial in trials {
            assert_eq!(trial.sent, trial.received + trial.lost, "{trial:?}");
            assert!(trial.received > 0, "{trial:?}");
            let exits = trial.cost.guest.as_ref().and_then(|guest| guest.exits);
            assert!(exits.is_some_and(|exits| exits > 0) && trial.cost.calls > 0, "{trial:?}");
            println!("{path} {}: received {}, {:?}", trial.metric, trial.received, trial.cost);
        }
    }
}
