use super::*;

#[test]
fn a_port_has_a_name_a_socket_and_perhaps_a_limit() {
    let read = port("a=vhost-user:/run/a,sessions=7").unwrap();
    assert_eq!((read.name.as_str(), read.path.to_str(), read.limits.sessions), ("a", Some("/run/a"), 7));
    assert_eq!(port("a=vhost-user:/run/a").unwrap().limits, Limits::default());
    for wrong in [
        "vhost-user:/run/a",
        "=vhost-user:/run/a",
        "a=vhost-user:",
        "a=tap:b",
        "a=vhost-user:/run/a,sessions=0",
        "a=vhost-user:/run/a,sessions=65537",
        "a=vhost-user:/run/a,packed=off",
    ] {
        assert!(port(wrong).is_err(), "{wrong}");
    }
}
