//! Messages of a database server.

use std::time::Duration;

use ovsdb::{Atom, Cache, Event, Follow, Limits, Session};

use crate::script::Script;

const LIMITS: Limits =
    Limits { message_bytes: 4096, message_values: 512, nesting: 16, rows: 32, cache_bytes: 1 << 16 };

/// A server's end of a connection. The first byte gives the size of the parts in which the bytes arrive. The result
/// of the session must not depend on it.
pub fn ovsdb_server(bytes: &[u8]) {
    let mut script = Script(bytes);
    let part = usize::from(script.byte()) + 1;
    let whole = taken(script.0, script.0.len().max(1));
    assert_eq!(whole, taken(script.0, part), "parts of {part} bytes");
}

/// The rows and events after these bytes; whether the server was given up.
fn taken(bytes: &[u8], part: usize) -> (Cache, Vec<Event>, bool) {
    let columns = ["name", "options", "ofport", "error"].map(str::to_owned);
    let follow = Follow {
        database: "Open_vSwitch".to_owned(),
        tables: [("Interface".to_owned(), columns.into())].into(),
        lock: Some("ovs_vswitchd".to_owned()),
        steals: false,
        probe_interval: Duration::from_secs(5),
    };
    let mut session = Session::new(follow, LIMITS, Cache::default(), Duration::ZERO);
    let result = bytes.chunks(part).try_for_each(|part| session.receive(part, Duration::ZERO));
    let events: Vec<Event> = std::iter::from_fn(|| session.next_event()).collect();
    let cache = session.into_cache();
    if result.is_ok() {
        assert!(cache.count() <= LIMITS.rows && cache.bytes() <= LIMITS.cache_bytes);
    }
    for (_, row) in cache.rows("Interface") {
        for value in row.values() {
            let again = ovsdb::Datum::from_json(&value.to_json());
            let has_real = || matches!(value.atom(), Some(Atom::Real(_)));
            assert!(again.as_ref() == Ok(value) || has_real(), "{value:?}: {again:?}");
        }
    }
    (cache, events, result.is_err())
}
