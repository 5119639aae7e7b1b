//! `compare` with guests of two profiles side by side.

use serde_json::Value;

use super::threads::two_cpus;
use crate::common::{Run, nothing_left};

#[test]
fn a_plain_and_a_real_time_guest_do_the_same_work() {
    let (_, last) = two_cpus();
    let run = Run::new(&["compare", "--quick", "--blocks", "1", "--only", "os.syscall", "--cpus", &last])
        .args(&["--environments", "vm:profile=plain,accel=tcg,vm:profile=realtime-guest,accel=tcg"])
        .args(&["--format", "json", "--quiet"])
        .finish();
    assert_eq!(run.code, Some(0), "{run}");
    let results: Value = serde_json::from_str(&run.stdout).unwrap();
    let environments = results["environments"].as_array().unwrap();
    let facts: Vec<String> =
        environments.iter().map(|environment| environment["facts"].to_string()).collect();
    assert_eq!(facts.len(), 2, "{environments:#?}");
    assert!(facts[0].contains(r#"["profile","plain"]"#), "{}", facts[0]);
    assert!(facts[1].contains(r#"["profile","realtime-guest"]"#), "{}", facts[1]);
    assert!(environments.iter().all(|environment| environment["failure"].is_null()), "{environments:#?}");
    // A CPU is left for QEMU's own threads: all of the profile is had.
    assert!(!facts[1].contains("not as in the profile"), "{}", facts[1]);
    nothing_left(run.pid);

    let unknown = Run::new(&["compare", "--environments", "vm:profile=quick"]).finish();
    assert_eq!(unknown.code, Some(2), "{unknown}");
    assert!(unknown.stderr.contains("realtime-guest"), "{unknown}");
}
