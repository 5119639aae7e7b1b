//! The classifier finds the rules that DPDK's classifier finds.
#[path = "../examples/acl/dpdk.rs"]
mod dpdk;
#[path = "../examples/acl/rules.rs"]
mod rules;

use rules::{PACKETS, Set};

#[test]
fn the_rules_of_dpdks_classifier_are_found() {
    let folder = tempfile::tempdir().unwrap();
    for (count, seed) in [(100, 2), (1000, 3)] {
        let set = Set::new(count, seed);
        let run = dpdk::run(&set, folder.path(), 1);
        assert!(run.found.iter().flatten().count() > PACKETS / 2 && run.ns > 0.0);
        dpdk::assert_same(&run.found, &set.tables(), &set.keys());
    }
}
