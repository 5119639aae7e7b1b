//! A look-up by the classifier alone beside DPDK's: `dpdk-test-acl` with AVX2, the same rules and packets, in turns in one
//! run. `make bench-acl` runs it with 100, 1,000 and 10,000 rules.
//!
//! DPDK's rules have ranges of ports, and a flow has a value and a mask: a rule is as many flows as its ranges need. DPDK
//! builds a trie of all rules, which no rule can be added to; the flows are those of a table, which changes while
//! frames pass. The rules that both find are compared.
mod dpdk;
mod rules;

use std::hint::black_box;
use std::time::Instant;

use flow_tables::Cost;
use rules::{PACKETS, Set};

const ROUNDS: usize = 6;
/// Look-ups of all packets in a round.
const TIMES: usize = 20;

fn main() {
    let folder = tempfile::tempdir().expect("a folder for rules and packets");
    println!(
        "| rules | flows | tuples | tuples a look-up | ns a look-up | DPDK, ns a look-up | ratio [96.9 %] |"
    );
    println!("|--:|--:|--:|--:|--:|--:|---|");
    for count in [100, 1000, 10_000] {
        let set = Set::new(count, 1);
        let (tables, keys) = (set.tables(), set.keys());
        let dpdk = dpdk::TestAcl::new(&set, folder.path());
        dpdk::assert_same(&dpdk.found(), &tables, &keys);
        let (mut own, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let since = Instant::now();
            for _ in 0..TIMES {
                for key in &keys {
                    black_box(tables.lookup(0, black_box(key)));
                }
            }
            own.push(since.elapsed().as_nanos() as f64 / (TIMES * PACKETS) as f64);
            theirs.push(dpdk.ns(TIMES));
            ratios.push(own[own.len() - 1] / theirs[theirs.len() - 1]);
        }
        let mut cost = Cost::default();
        keys.iter().for_each(|key| drop(tables.lookup_costing(0, key, &mut cost)));
        let [own, theirs, ratio] = [&own, &theirs, &ratios].map(|values| median(values));
        let (least, most) = ratios.iter().fold((f64::MAX, 0.0_f64), |(a, b), r| (a.min(*r), b.max(*r)));
        println!(
            "| {count} | {} | {} | {:.1} | {own:.0} | {theirs:.0} | {ratio:.2} [{least:.2}, {most:.2}] |",
            tables.flows(),
            tables.tuples(0),
            cost.tuples as f64 / PACKETS as f64,
        );
    }
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}
