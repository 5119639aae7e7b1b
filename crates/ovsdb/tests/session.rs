//! Sessions: a recorded conversation of ovs-vswitchd 3.1, and servers that do not follow the protocol.
//!
//! `conversations/ovs-vswitchd-3.1.jsonl` has what ovsdb-server sent while OVN made its bridges: five tables of the
//! recording, the ids of the answers renumbered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ovsdb::{
    Atom, Cache, Datum, DifferenceKind, Event, Follow, Limits, Message, Row, Schema, Session, SessionError,
    Transaction, Uuid,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const RECORDED: &str = include_str!("conversations/ovs-vswitchd-3.1.jsonl");
const START: Duration = Duration::from_secs(1000);
const PROBE: Duration = Duration::from_secs(5);

/// Everything that the recorded schema has.
fn follow() -> Follow {
    let schema: Value = serde_json::from_str(RECORDED.lines().next().unwrap()).unwrap();
    let schema = Schema::from_json(&schema["result"]).unwrap();
    let columns = |columns: BTreeMap<String, _>| columns.into_keys().collect();
    Follow {
        database: "Open_vSwitch".to_owned(),
        tables: schema.tables.into_iter().map(|(table, c)| (table, columns(c))).collect(),
        lock: Some("ovs_vswitchd".to_owned()),
        steals: false,
        probe_interval: PROBE,
    }
}

fn session(limits: Limits) -> Session {
    Session::new(follow(), limits, Cache::default(), START)
}

/// A session that has taken the first messages of the recording.
fn after(messages: usize) -> Session {
    let mut session = session(Limits::default());
    for line in RECORDED.lines().take(messages) {
        session.receive(line.as_bytes(), START).unwrap();
    }
    session
}

fn events(session: &mut Session) -> Vec<Event> {
    std::iter::from_fn(|| session.next_event()).collect()
}

/// The messages that the session has to send, which are sent.
fn sent(session: &mut Session) -> Vec<Value> {
    let bytes = std::mem::take(session.to_send());
    serde_json::Deserializer::from_slice(&bytes).into_iter().map(Result::unwrap).collect()
}

fn the_row<'a>(cache: &'a Cache, table: &str, name: &str) -> &'a Row {
    let mut rows = cache.rows(table).map(|(_, row)| row);
    rows.find(|row| row["name"].text() == Some(name)).expect(name)
}

fn update(json: &Value) -> Vec<u8> {
    let zeros = Uuid::default().to_string();
    json!({"id": null, "method": "update3", "params": [["monitor", "Open_vSwitch"], zeros, json]})
        .to_string()
        .into_bytes()
}

#[test]
fn a_recorded_conversation_fills_the_cache() {
    let mut session = after(usize::MAX);
    let cache = session.cache();
    let (_, top) = cache.rows("Open_vSwitch").next().unwrap();
    assert_eq!((top["next_cfg"].integer(), top["cur_cfg"].integer()), (Some(2), Some(2)));
    let bridges: BTreeSet<&str> = cache.rows("Bridge").filter_map(|(_, row)| row["name"].text()).collect();
    assert_eq!(bridges, ["br-ex", "br-int", "br-phys"].into());
    assert_eq!(top["bridges"].uuids().count(), 3);

    // A set whose changes are sent as elements that come and go.
    let bridge = the_row(cache, "Bridge", "br-int");
    for port in bridge["ports"].uuids() {
        assert!(cache.row("Port", port).is_some(), "{port}");
    }
    // A column that was modified, one that has its default, a map.
    let interface = the_row(cache, "Interface", "br-int");
    assert_eq!(interface["link_state"].text(), Some("down"));
    assert!(interface["error"].is_empty() && interface["ingress_policing_rate"].integer() == Some(0));
    assert_eq!(interface["status"].get("driver_name"), Some("tun"));
    assert_eq!(interface["ofport"].integer(), Some(65534));

    let asked: Vec<Value> = sent(&mut session).iter().map(|message| message["method"].clone()).collect();
    assert_eq!(asked, ["get_schema", "lock", "monitor_cond_since", "set_db_change_aware"]);
    let events = events(&mut session);
    assert_eq!(events[0], Event::LockGained);
    assert!(matches!(&events[1], Event::Followed(rows) if rows.len() == 1));
    let changed = |event: &Event| matches!(event, Event::Changed(rows) if !rows.is_empty());
    assert!(events.len() == 20 && events[2..].iter().all(changed), "{events:?}");
}

#[test]
fn updates_say_what_was_before() {
    let mut session = after(usize::MAX);
    events(&mut session);
    let (id, row) = session.cache().rows("QoS").next().map(|(id, row)| (id, row.clone())).unwrap();
    let change = json!({"QoS": {id.to_string(): {"modify": {"type": "linux-htb2"}}}});
    session.receive(&update(&change), START).unwrap();
    session.receive(&update(&json!({"QoS": {id.to_string(): {"delete": null}}})), START).unwrap();
    let [Event::Changed(modified), Event::Changed(deleted)] = &events(&mut session)[..] else { panic!() };
    assert_eq!(modified[0].kind, DifferenceKind::Modify([("type".to_owned(), row["type"].clone())].into()));
    let mut last = row;
    last.insert("type".to_owned(), Datum::from("linux-htb2"));
    assert_eq!((&deleted[0].kind, deleted[0].row), (&DifferenceKind::Delete(last), id));
    assert_eq!(session.cache().rows("QoS").count(), 0);
}

/// Sets and maps are sent as the elements that differ.
#[test]
fn a_map_loses_gains_and_replaces_pairs() {
    let mut session = after(usize::MAX);
    let mut cache = session.cache().rows("Open_vSwitch");
    let id = cache.next().unwrap().0.to_string();
    drop(cache);
    let mut modify = |pairs: Value| {
        let change = json!({"Open_vSwitch": {&id: {"modify": {"statistics": ["map", pairs]}}}});
        session.receive(&update(&change), START).unwrap();
        session.cache().rows("Open_vSwitch").next().unwrap().1["statistics"].clone()
    };
    let empty = modify(json!([]));
    assert_eq!(modify(json!([["a", "1"], ["b", "2"]])), Datum::texts([("a", "1"), ("b", "2")]));
    assert_eq!(modify(json!([["a", "1"], ["b", "3"], ["c", "4"]])), Datum::texts([("b", "3"), ("c", "4")]));
    assert_eq!(modify(json!([["b", "3"], ["c", "4"]])), empty);
}

#[test]
fn a_server_that_comes_back_with_the_same_rows_changes_nothing() {
    let mut session = after(7);
    let cache = session.cache().clone();
    assert!(cache.count() > 0 && cache.bytes() > 0);
    let initial: serde_json::Map<String, Value> = ["Open_vSwitch", "Bridge", "Port", "Interface", "QoS"]
        .into_iter()
        .map(|table| {
            let columns = |row: &Row| row.iter().map(|(c, v)| (c.clone(), v.to_json())).collect();
            let initial = |row: &Row| json!({"initial": Value::Object(columns(row))});
            let rows = cache.rows(table).map(|(id, row)| (id.to_string(), initial(row))).collect();
            (table.to_owned(), Value::Object(rows))
        })
        .collect();
    let again = |session: Session, initial: &Value| {
        let mut session = Session::new(follow(), Limits::default(), session.into_cache(), START);
        let schema = RECORDED.lines().next().unwrap();
        let zeros = Uuid::default().to_string();
        session.receive(schema.as_bytes(), START).unwrap();
        let answer = json!({"id": 2, "result": [false, zeros, initial], "error": null});
        session.receive(answer.to_string().as_bytes(), START).unwrap();
        let Some(Event::Followed(differences)) = session.next_event() else { panic!() };
        (session, differences)
    };
    events(&mut session);
    let (session, differences) = again(session, &Value::Object(initial.clone()));
    assert!(differences.is_empty(), "{differences:?}");
    assert_eq!(session.cache(), &cache);

    // A row less, and one that is different.
    let mut other = initial;
    other["Bridge"] = json!({});
    let id = other["Interface"].as_object().unwrap().keys().next().unwrap().clone();
    other["Interface"][&id]["initial"]["type"] = json!("tap");
    let (_, differences) = again(session, &Value::Object(other));
    let kinds: Vec<&DifferenceKind> = differences.iter().map(|difference| &difference.kind).collect();
    assert!(matches!(kinds[..], [DifferenceKind::Delete(_), DifferenceKind::Modify(_)]), "{kinds:?}");
}

#[test]
fn the_lock_comes_and_goes() {
    let mut session = after(1);
    let tell = |session: &mut Session, message: &str| session.receive(message.as_bytes(), START).unwrap();
    tell(&mut session, r#"{"id":1,"result":{"locked":false},"error":null}"#);
    tell(&mut session, r#"{"id":null,"method":"locked","params":["ovs_vswitchd"]}"#);
    tell(&mut session, r#"{"id":null,"method":"stolen","params":["another"]}"#);
    tell(&mut session, r#"{"id":null,"method":"stolen","params":["ovs_vswitchd"]}"#);
    assert_eq!(events(&mut session), [Event::LockLost, Event::LockGained, Event::LockLost]);
}

#[test]
fn a_transaction_is_answered_or_refused_in_the_servers_words() {
    let mut session = after(4);
    events(&mut session);
    sent(&mut session);
    let mut ask = || {
        let mut transaction = Transaction::new();
        transaction.assert_lock("ovs_vswitchd");
        transaction.update("Interface", Uuid(1), &[("ofport".to_owned(), Datum::from(7))].into());
        let id = session.transact(transaction);
        let request = sent(&mut session).remove(0);
        assert_eq!(
            (&request["method"], &request["params"][2]["row"]["ofport"]),
            (&json!("transact"), &json!(7))
        );
        (id, request["id"].clone())
    };
    let (first, number) = ask();
    let (second, other) = ask();
    let (third, last) = ask();
    for (id, result, error) in [
        (other, json!([{}, {"error": "not owner", "details": "no"}, null]), json!(null)),
        (number, json!([{}, {"count": 1}]), json!(null)),
        (last, json!(null), json!("canceled")),
    ] {
        let answer = json!({"id": id, "result": result, "error": error}).to_string();
        session.receive(answer.as_bytes(), START).unwrap();
    }
    let answers = events(&mut session);
    assert_eq!(answers[0], Event::Answered(second, Err("not owner: no".to_owned())));
    assert!(matches!(&answers[1], Event::Answered(id, Ok(done)) if *id == first && done[1].count == Some(1)));
    assert!(matches!(&answers[2], Event::Answered(id, Err(why)) if *id == third && why.contains("canceled")));
}

#[test]
fn a_silent_server_is_asked_and_then_given_up() {
    let mut session = after(4);
    sent(&mut session);
    assert_eq!(session.deadline(), START + PROBE);
    session.tick(START + PROBE / 2).unwrap();
    assert!(session.to_send().is_empty());
    session.tick(START + PROBE).unwrap();
    assert_eq!(sent(&mut session), [json!({"id": "echo", "method": "echo", "params": []})]);
    session.tick(START + PROBE * 3 / 2).unwrap();
    assert!(session.to_send().is_empty());
    session.receive(br#"{"id":"echo","result":[],"error":null}"#, START + PROBE * 2).unwrap();
    assert_eq!(session.deadline(), START + PROBE * 3);
    session.tick(START + PROBE * 3).unwrap();
    let error = session.tick(START + PROBE * 4).unwrap_err();
    assert!(error.to_string().contains("silent for 10 s"), "{error}");
}

#[test]
fn requests_of_the_server_are_answered() {
    let mut session = after(4);
    sent(&mut session);
    session
        .receive(br#"{"id":"x","method":"echo","params":[1]}{"id":9,"method":"dance","params":[]}"#, START)
        .unwrap();
    let answers = sent(&mut session);
    assert_eq!(answers[0], json!({"id": "x", "result": [1], "error": null}));
    assert_eq!(answers[1]["error"], json!("unknown method"));
}

#[test]
fn a_server_that_breaks_the_protocol_ends_the_session_in_words() {
    let zeros = Uuid::default().to_string();
    let port = json!({"Port": {&zeros: {"insert": {"name": "a"}}}});
    let insert = |row: Value| update(&json!({"Interface": {&zeros: {"insert": row}}}));
    let cases: Vec<(usize, Vec<u8>, &str)> = vec![
        (4, b"HTTP/1.1 400".to_vec(), "not with '{'"),
        (4, "[".repeat(9).into_bytes(), "not with '{'"),
        (4, b"{]".to_vec(), ""),
        (4, format!("{{\"a\":{}", "[".repeat(1 << 20)).into_bytes(), "within each other"),
        (4, br#"{"id":77,"result":[]}"#.to_vec(), "what was not asked"),
        (4, br#"{"id":-1,"result":[]}"#.to_vec(), "what was not asked"),
        (4, br#"{"id":0,"result":[]}"#.to_vec(), "what was not asked"),
        (0, br#"{"id":0,"result":[],"error":null}"#.to_vec(), "no tables"),
        (
            0,
            br#"{"id":0,"result":null,"error":"unknown database"}"#.to_vec(),
            "refuses get_schema: unknown database",
        ),
        (1, br#"{"id":1,"result":{},"error":null}"#.to_vec(), "no 'locked'"),
        (1, br#"{"id":2,"result":null,"error":"unknown method"}"#.to_vec(), "2.12"),
        (1, br#"{"id":2,"result":[false],"error":null}"#.to_vec(), "three parts"),
        (1, update(&port), "before the initial rows"),
        (4, br#"{"id":null,"method":"update3","params":7}"#.to_vec(), "three arguments"),
        (4, br#"{"id":null,"method":"monitor_canceled","params":[1]}"#.to_vec(), "no longer serves"),
        (4, update(&json!({"Gate": {}})), "names Gate"),
        (4, update(&json!({"Interface": 7})), "no object"),
        (4, update(&json!({"Interface": {"x": {"insert": {}}}})), "uuid"),
        (4, update(&json!({"Interface": {&zeros: {}}})), "exactly one change"),
        (4, update(&json!({"Interface": {&zeros: {"insert": {}, "delete": null}}})), "exactly one change"),
        (4, update(&json!({"Interface": {&zeros: {"paint": {}}}})), "paint"),
        (4, update(&json!({"Interface": {&zeros: {"modify": {}}}})), "does not exist"),
        (4, update(&json!({"Interface": {&zeros: {"delete": null}}})), "does not exist"),
        (4, insert(json!({"color": 1})), "column color"),
        (4, insert(json!({"ofport": "one"})), "\"one\" is not an integer"),
        (4, insert(json!({"ofport": 1e300})), "is not an integer"),
        (4, insert(json!({"ofport": 18446744073709551615u64})), "is not an integer"),
        (4, insert(json!({"name": ["set", ["a", "b"]]})), "2 elements"),
        (4, insert(json!({"options": ["map", [["a", "1"], ["a", "2"]]]})), "occurs twice"),
    ];
    for (messages, bytes, said) in cases {
        let error = after(messages).receive(&bytes, START).unwrap_err().to_string();
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        assert!(error.contains(said) && error.len() < 400, "{text}: {error}");
    }
}

/// What a server makes the client keep has an end: rows, their bytes, and answers that it does not read.
#[test]
fn what_a_server_makes_the_client_keep_is_limited() {
    let limits = Limits { rows: 100, cache_bytes: 100_000, message_bytes: 20_000, ..Limits::default() };
    let flood = |message: &dyn Fn(u128) -> Vec<u8>| {
        let mut session = session(limits);
        for line in RECORDED.lines().take(4) {
            session.receive(line.as_bytes(), START).unwrap();
        }
        sent(&mut session);
        (1..=10_000).find_map(|at| session.receive(&message(at), START).err()).expect("a limit").to_string()
    };
    let row = |at: u128| update(&json!({"QoS": {Uuid(at).to_string(): {"insert": {}}}}));
    assert!(flood(&row).contains("more than 100 rows"));
    let id = RECORDED.lines().nth(2).map(|line| serde_json::from_str::<Value>(line).unwrap()).unwrap();
    let id = id["result"][2]["Open_vSwitch"].as_object().unwrap().keys().next().unwrap().clone();
    let pair = |at: u128| {
        let pairs = json!(["map", [[at.to_string(), "x".repeat(1000)]]]);
        update(&json!({"Open_vSwitch": {&id: {"modify": {"other_config": pairs}}}}))
    };
    assert!(flood(&pair).contains("more than 100000 bytes"));
    let echo = |_| br#"{"id":1,"method":"echo","params":["xxxxxxxxxxxxxxxxxxxxxxxxx"]}"#.to_vec();
    assert!(flood(&echo).contains("does not read the answers"));
}

/// Wherever the bytes are split, the session has the same rows.
#[test]
fn the_recording_split_anywhere_means_the_same() {
    let whole = after(usize::MAX);
    let lines = RECORDED.lines().skip(1);
    let bytes = RECORDED.split_once('\n').unwrap().1.as_bytes();
    for at in 0..bytes.len() {
        let mut framer = ovsdb::Framer::new(Limits::default());
        let mut messages = Vec::new();
        for mut part in [&bytes[..at], &bytes[at..]] {
            while let Some(message) = framer.next(&mut part).unwrap() {
                messages.push(message);
            }
        }
        let expected = lines.clone().map(str::as_bytes);
        assert!(messages.iter().map(Vec::as_slice).eq(expected), "split at {at}");
    }
    let mut by_bytes = session(Limits::default());
    for byte in RECORDED.as_bytes() {
        by_bytes.receive(&[*byte], START).unwrap();
    }
    assert_eq!(by_bytes.cache(), whole.cache());
}

proptest! {
    #[test]
    fn damaged_recordings_never_panic(
        damage in prop::collection::vec((0..RECORDED.len(), any::<u8>()), 1..4),
        part in 1..4000usize,
    ) {
        let mut bytes = RECORDED.as_bytes().to_vec();
        for (at, byte) in damage {
            bytes[at] = byte;
        }
        let mut session = session(Limits::default());
        let taken: Result<(), SessionError> =
            bytes.chunks(part).try_for_each(|part| session.receive(part, START));
        if let Err(error) = taken {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn any_atom_reads_back(text in ".*", integer in any::<i64>(), real in any::<f64>(), id in any::<u128>()) {
        let reals = if real.is_finite() { Atom::Real(ovsdb::Real(real)) } else { Atom::Integer(0) };
        for atom in [Atom::String(text), Atom::Integer(integer), reals, Atom::Uuid(Uuid(id))] {
            let written = Message::Notification { method: "m".into(), params: atom.to_json() }.to_bytes();
            let Message::Notification { params, .. } = Message::from_bytes(&written).unwrap() else { panic!() };
            prop_assert_eq!(Atom::from_json(&params).unwrap(), atom);
        }
    }
}
