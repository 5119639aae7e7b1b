use super::*;

#[test]
fn cpu_lists() {
    assert!(read("--cpus", Some("0")).is_ok_and(|list| list == [0]));
    for bad in ["", ",", "x", "3-1", "0-99999999", "2-N"] {
        let error = read("--cpus", Some(bad)).unwrap_err();
        assert!(error.is::<Usage>() && !error.to_string().contains("or 2-N"), "{error}");
    }
}
