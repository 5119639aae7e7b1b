//! Database servers and rows that mean harm: an error in words, and frames go on.
use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};

use serde_json::{Value, json};

use super::resident_kib;
use crate::switch_process::bystanders::Bystanders;
use crate::switch_process::{Sockets, SwitchProcess, connect, wait_for};

const ROOT: &str = "00000000-0000-0000-0000-000000000001";

/// The tables that the switch follows, with these types of columns.
fn schema(name_type: &Value) -> Value {
    let table = |columns: Value| json!({"columns": columns});
    let set = json!({"type": {"key": "uuid", "min": 0, "max": "unlimited"}});
    let text = json!({"type": name_type});
    json!({"name": "Open_vSwitch", "version": "8.0.0", "tables": {
        "Open_vSwitch": table(json!({"bridges": set, "next_cfg": {"type": "integer"}, "cur_cfg": {"type": "integer"}})),
        "Bridge": table(json!({"name": text, "ports": set, "datapath_type": {"type": "string"}})),
        "Port": table(json!({"name": text, "interfaces": set})),
        "Interface": table(json!({"name": text, "type": {"type": "string"},
            "ofport": {"type": {"key": "integer", "min": 0, "max": 1}},
            "error": {"type": {"key": "string", "min": 0, "max": 1}}})),
    }})
}

fn id(number: usize) -> String {
    format!("00000000-0000-0000-0000-{number:012}")
}

/// A bridge with as many ports, their names as given.
fn rows(count: usize, name: impl Fn(usize) -> String) -> Value {
    let set = |from: usize| -> Value {
        let all: Vec<Value> = (from..from + count).map(|row| json!(["uuid", id(row)])).collect();
        json!(["set", all])
    };
    let mut ports = serde_json::Map::new();
    let mut interfaces = serde_json::Map::new();
    for at in 0..count {
        let interface = json!(["uuid", id(10_000_000 + at)]);
        ports.insert(id(10 + at), json!({"initial": {"name": name(at), "interfaces": interface}}));
        let columns = json!({"name": name(at), "type": "dpdkvhostuser"});
        interfaces.insert(id(10_000_000 + at), json!({"initial": columns}));
    }
    let bridge = json!({"name": "br0", "ports": set(10), "datapath_type": "netdev"});
    json!({
        "Open_vSwitch": {ROOT: {"initial": {"bridges": ["uuid", id(2)], "next_cfg": 1}}},
        "Bridge": {id(2): {"initial": bridge}}, "Port": ports, "Interface": interfaces,
    })
}

/// Answers as a server does: this schema, the lock, these rows. Returns the first transaction; refuses it.
fn serve(mut socket: &UnixStream, schema: &Value, rows: &Value) -> Option<Value> {
    let requests = serde_json::Deserializer::from_reader(socket).into_iter::<Value>();
    for request in requests.map_while(Result::ok) {
        let result = match request["method"].as_str()? {
            "get_schema" => schema.clone(),
            "lock" => json!({"locked": true}),
            "monitor_cond_since" => json!([false, ROOT, rows]),
            "transact" => return Some(request["params"].clone()),
            _ => json!({}),
        };
        let answer = json!({"id": request["id"], "result": result, "error": null}).to_string();
        // A client that has heard enough closes the connection.
        socket.write_all(answer.as_bytes()).ok()?;
    }
    None
}

/// Names that are no names: none of them makes a socket.
fn names() -> Vec<String> {
    let long = "x".repeat(200_000);
    let names = ["", ".", "..", "../up", "/etc/passwd", "a\0b", "db.sock", "a:b", "a=b", "\n", &long];
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn hostile_databases_end_in_an_error_in_words() {
    let sockets = Sockets::new();
    let path = sockets.path("db.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let mut arguments: Vec<String> =
        ["a", "b"].iter().flat_map(|name| sockets.port(name, "vhost-user", "")).collect();
    arguments.extend(connect("a", "b"));
    arguments.extend(["--control".to_owned(), sockets.path("control").display().to_string()]);
    arguments.extend(["--ovsdb".to_owned(), format!("unix:{}", path.display())]);
    let mut switch = SwitchProcess::start(&arguments);
    let bystanders = Bystanders::start([sockets.path("a"), sockets.path("b")]);
    let before = resident_kib(switch.id());
    let schema = schema(&json!("string"));
    let next = || listener.accept().unwrap().0;
    let says = |what: &str| {
        wait_for(what, || switch.logged().iter().any(|line| line.contains(what)).then_some(()));
        bystanders.assert_undisturbed(what);
    };

    next().write_all(b"HTTP/1.1 400 Bad Request").unwrap();
    says("is it an ovsdb-server?");
    let mut endless = next();
    endless.write_all(b"{\"a\":\"").unwrap();
    while endless.write_all(&[b'x'; 1 << 16]).is_ok() {}
    says("is longer than");
    serve(&next(), &json!({"tables": 7}), &json!({}));
    says("schema");
    let wrong = json!({"Interface": {id(1): {"initial": {"name": ["set", [1, 2]]}}}});
    assert!(serve(&next(), &schema, &wrong).is_none());
    says("column name of row");
    assert!(serve(&next(), &schema, &rows(20_000, |at| format!("p{at}"))).is_none());
    says("rows in the tables that are followed");

    // Each of these rows is refused for itself.
    let names = names();
    let socket = next();
    let transaction = serve(&socket, &schema, &rows(names.len(), |at| names[at].clone())).unwrap();
    let errors: Vec<&Value> = transaction
        .as_array()
        .unwrap()
        .iter()
        .filter(|operation| operation["row"]["error"].is_string())
        .collect();
    assert_eq!(errors.len(), names.len(), "{transaction}");
    assert!(errors.iter().all(|error| error.to_string().len() < 1000), "{errors:?}");
    assert!(UnixStream::connect(&path).is_ok(), "the socket of the database is as it was");
    assert_eq!(switch.snapshot()["ports"].as_array().unwrap().len(), 2);
    let grown = resident_kib(switch.id()).saturating_sub(before);
    println!("{grown} KiB more are resident after all of them");
    assert!(grown < 256 << 10, "{grown} KiB");
    // The last of them is silent: the switch ends all the same.
    assert!(switch.lives());
    bystanders.all_is_well();
    switch.end();
    drop(socket);
}
