//! Whether the group `net` is to be believed, for `make check-net`: paths that are alike are found alike, and one that
//! is slowed by a tenth is found slower by as much. Figures of a live machine, hence not part of `make test`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::Run;
use measure::Results;
use measure::compare::{Comparison, Finding, analyse};

/// The interval over eight starts is from the lowest to the highest: it leaves 1 out by chance in 2 of 256 cases, so
/// that two of twenty metrics do in about one run of a hundred.
const BLOCKS: &str = "8";
/// The second host's name.
const OTHER: &str = "host-2";

/// The host beside itself over some paths.
fn host_beside_host(only: &str, more: &[&str], adapt: impl FnOnce(Run) -> Run) -> Vec<Comparison> {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("r.json");
    let words = ["compare", "--quick", "--blocks", BLOCKS, "--environments", "host,host", "--only", only];
    let ended = adapt(Run::new(&words).args(more).arg("--output").arg(&json)).finish();
    assert_eq!(ended.code, Some(0), "{ended}");
    let results = Results::load(&json).unwrap();
    assert!(results.absences.is_empty(), "{ended}");
    analyse(&results).comparisons.into_iter().filter(|one| one.environment == OTHER).collect()
}

fn print(comparison: &Comparison) {
    let Comparison { metric, slowdown, interval, finding, .. } = comparison;
    let (low, high) = interval.unwrap_or((f64::NAN, f64::NAN));
    println!("{metric:<40} ×{slowdown:.3} [{low:.3}, {high:.3}] {finding:?}");
}

#[test]
#[ignore = "make check-net runs it"]
fn the_host_is_like_itself() {
    let paths = ["loopback", "veth", "veth_bridge", "veth_macvlan", "switch"];
    let only: Vec<String> = paths
        .iter()
        .flat_map(|path| ["udp_stream.64", "udp_rr.64"].map(|work| format!("net.{path}.{work}")))
        .collect();
    let found = host_beside_host(&only.join(","), &[], |run| run);
    found.iter().for_each(print);
    let differ = found.iter().filter(|one| one.differs()).count();
    println!("no difference shown in {} of {} metrics", found.len() - differ, found.len());
    assert_eq!(found.len(), 20);
    assert!(differ <= 1, "{differ} of {} metrics differ", found.len());
}

/// Mb/s of the shaper on the first host's paths and on the second's.
const RATES: [u32; 2] = [40, 36];

#[test]
#[ignore = "make check-net runs it"]
fn a_path_that_is_slowed_by_a_tenth_is_found_slower_by_as_much() {
    let folder = tempfile::tempdir().unwrap();
    put_shapers(folder.path());
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let metric = "net.veth.tcp_stream.1472";
    let found = host_beside_host(metric, &["--trial", "500ms"], |run| run.env("PATH", &path));
    found.iter().for_each(print);
    let rate = found.iter().find(|one| one.metric.as_str() == metric).unwrap();
    let wanted = f64::from(RATES[0]) / f64::from(RATES[1]);
    println!("slowed by {wanted:.3}, found {:.3}", rate.slowdown);
    assert_eq!(rate.finding, Finding::Slower, "{rate:?}");
    let (low, high) = rate.interval.unwrap();
    assert!(low <= 1.02 * wanted && high >= 0.98 * wanted, "{rate:?}");
    assert!((rate.slowdown / wanted - 1.0).abs() < 0.02, "{rate:?}");
}

/// An `ip` that puts a shaper (tc-tbf(8)) on a pair's device when it takes it up: two for each path, and the paths of both
/// hosts in turn, which are built the other way round in every second block.
fn put_shapers(folder: &Path) {
    let real = ["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"];
    let real = real.into_iter().find(|path| Path::new(path).is_file()).expect("iproute2 is installed");
    let count = folder.join("count").display().to_string();
    let script = format!(
        "#!/bin/sh
         {real} \"$@\" || exit
         [ \"$*\" = 'link set eth0 up' ] || exit 0
         echo >>{count}
         ends=$(wc -l <{count})
         case $(((ends - 1) / 2 % 4)) in 0|3) rate={};; *) rate={};; esac
         exec tc qdisc add dev eth0 root tbf rate ${{rate}}mbit burst 32kb latency 50ms
",
        RATES[0], RATES[1]
    );
    let file = folder.join("ip");
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
}
