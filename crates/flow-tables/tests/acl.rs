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
        let dpdk = dpdk::TestAcl::new(&set, folder.path());
        let found = dpdk.found();
        assert!(found.iter().flatten().count() > PACKETS / 2);
        dpdk::assert_same(&found, &set.tables(), &set.keys());
        assert!(dpdk.ns(1) > 0.0);
    }
}
