//! The rig against DPDK's vhost library: frames out by one port of testpmd and back by the other.
use std::time::Duration;

use peers::Testpmd;
use peers::testpmd::Vdev;
use port::virtio_user::{VirtioUser, VirtioUserOptions};
use traffic::frames::{Access, Checker, Fields, SizeMix, Stream};
use traffic::rig::TestRig;
use traffic::trial::{Lane, Load, Plan, TrialOutcome, run, warm_up};

fn trial(packed: bool, mix: &str, load: Load) -> TrialOutcome {
    let folder = tempfile::tempdir().unwrap();
    let sockets = ["a", "b"].map(|name| folder.path().join(name));
    let mut testpmd = Testpmd::with_ports(sockets.iter().map(|path| Vdev::vhost(path))).unwrap();
    testpmd.start_forwarding().unwrap();
    let mut rig = TestRig::new();
    for path in &sockets {
        let options = VirtioUserOptions { packed, ..VirtioUserOptions::new(path) };
        rig.attach("testpmd", Box::new(VirtioUser::new(options).unwrap())).unwrap();
    }
    rig.wait_until_up(Duration::from_secs(20)).unwrap();
    let (fields, mix): (Fields, SizeMix) = (Fields::default(), mix.parse().unwrap());
    let mut lanes = [(0, 1), (1, 0)].map(|(from, to)| Lane {
        from,
        to,
        streams: vec![Stream::new(fields, &mix, 0..8).unwrap()],
        checker: Checker::new(&fields, &mix, 8, Access::Payload),
    });
    assert!(warm_up(&mut rig, &mut lanes, Duration::from_secs(20)).unwrap());
    let plan =
        Plan { load, duration: Duration::from_millis(500), residual: Duration::from_secs(2), latency: true };
    run(&mut rig, &mut lanes, &plan).unwrap()
}

#[test]
fn every_frame_comes_back_whole_and_in_order() {
    for packed in [false, true] {
        let outcome = trial(packed, "64x7+570x4+1518x1", Load::FramesPerSecond(20_000.0));
        for lane in &outcome.lanes {
            let tally = lane.tally;
            assert!(lane.sent > 1000 && tally.distinct > 0, "{lane:?}");
            // A busy machine may make testpmd lose frames; nothing else happens to them.
            assert_eq!((tally.altered, tally.doubled, tally.reordered), (0, 0, 0), "{tally:?}");
            assert!(tally.distinct <= lane.sent);
            assert_eq!(lane.latency.count(), tally.distinct);
        }
    }
}

#[test]
fn at_most_as_much_is_offered_as_the_device_has_room_for() {
    let outcome = trial(true, "64", Load::Maximum);
    for lane in &outcome.lanes {
        assert_eq!((lane.refused, lane.missed), (0, 0));
        assert!(lane.tally.distinct > 1000, "{lane:?}");
    }
    let rate = outcome.lanes.iter().map(|lane| lane.tally.distinct).sum::<u64>() as f64;
    println!(
        "{:.2} Mpps, {} idle of {} polls",
        rate * 1e3 / outcome.sending_ns as f64,
        outcome.idle_polls,
        outcome.busy_polls + outcome.idle_polls
    );
}
