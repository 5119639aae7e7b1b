//! A session beside a real ovsdb-server: `ovs-vsctl` makes rows, the session sees them and writes back.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use ovsdb::{
    Cache, Datum, DifferenceKind, Event, Follow, Limits, Row, Session, Transaction, TransactionId, Uuid,
};
use peers::OvsDatabase;

/// Long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
const LOCK: &str = "ovs_vswitchd";

/// A session and its socket.
struct Client {
    session: Session,
    socket: UnixStream,
    began: Instant,
}

impl Client {
    fn connect(path: &Path, cache: Cache) -> Self {
        let socket = UnixStream::connect(path).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let follow = Follow {
            database: "Open_vSwitch".to_owned(),
            tables: [
                (
                    "Open_vSwitch".to_owned(),
                    columns(&["bridges", "next_cfg", "cur_cfg", "of_another_release"]),
                ),
                ("Bridge".to_owned(), columns(&["name", "ports"])),
                ("Port".to_owned(), columns(&["name", "interfaces"])),
                ("Interface".to_owned(), columns(&["name", "type", "options", "ofport", "error"])),
                ("Of_Another_Release".to_owned(), columns(&["name"])),
            ]
            .into(),
            lock: Some(LOCK.to_owned()),
            steals: false,
            probe_interval: Duration::from_secs(5),
        };
        let session = Session::new(follow, Limits::default(), cache, Duration::ZERO);
        Client { session, socket, began: Instant::now() }
    }

    /// Sends and receives until an event is the one; returns what is made of it.
    fn until<T>(&mut self, doing: &str, mut is_it: impl FnMut(&Event, &Cache) -> Option<T>) -> T {
        let deadline = Instant::now() + LIMIT;
        loop {
            while let Some(event) = self.session.next_event() {
                if let Some(found) = is_it(&event, self.session.cache()) {
                    return found;
                }
            }
            assert!(Instant::now() < deadline, "{doing}");
            self.socket.write_all(&std::mem::take(self.session.to_send())).unwrap();
            let mut bytes = [0; 4096];
            let count = match self.socket.read(&mut bytes) {
                Ok(0) => panic!("{doing}: the server has closed the connection"),
                Ok(count) => count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 0,
                Err(error) => panic!("{doing}: {error}"),
            };
            self.session.receive(&bytes[..count], self.began.elapsed()).unwrap();
            self.session.tick(self.began.elapsed()).unwrap();
        }
    }

    fn answer(&mut self, transaction: Transaction) -> Result<(), String> {
        let id: TransactionId = self.session.transact(transaction);
        self.until("waiting for the answer to a transaction", |event, _| match event {
            Event::Answered(answered, result) if *answered == id => Some(result.clone().map(drop)),
            _ => None,
        })
    }
}

/// The interface of this name, and its row.
fn interface(cache: &Cache, name: &str) -> Option<(Uuid, Row)> {
    let mut rows = cache.rows("Interface");
    rows.find(|(_, row)| row["name"].text() == Some(name)).map(|(id, row)| (id, row.clone()))
}

#[test]
fn ovs_vsctl_drives_a_client_of_a_real_server() {
    let mut database = OvsDatabase::new().unwrap();
    let mut client = Client::connect(&database.socket(), Cache::default());
    let lock = |event: &Event, _: &Cache| match event {
        Event::LockGained => Some(true),
        Event::LockLost => Some(false),
        _ => None,
    };
    assert!(client.until("taking the lock", lock));
    let followed = |event: &Event, _: &Cache| match event {
        Event::Followed(rows) => Some(rows.clone()),
        _ => None,
    };
    let rows = client.until("following", followed);
    assert!(matches!(&rows[..], [row] if row.table == "Open_vSwitch" && row.kind == DifferenceKind::Insert));

    let mut second = Client::connect(&database.socket(), Cache::default());
    assert!(!second.until("asking for a lock that is taken", lock));
    let mut steal = Transaction::new();
    steal.assert_lock(LOCK);
    let refused = second.answer(steal).unwrap_err();
    assert!(refused.contains("not owner"), "{refused}");

    let path = "options:vhost-server-path=/run/v0";
    database
        .vsctl(&[
            "--no-wait",
            "add-br",
            "br0",
            "--",
            "add-port",
            "br0",
            "v0",
            "--",
            "set",
            "Interface",
            "v0",
            "type=dpdkvhostuserclient",
            path,
        ])
        .unwrap();
    let seen = |_: &Event, cache: &Cache| interface(cache, "v0");
    let (id, row) = client.until("waiting for the port", seen);
    assert_eq!(row["type"].text(), Some("dpdkvhostuserclient"));
    assert_eq!(row["options"].get("vhost-server-path"), Some("/run/v0"));
    assert!(row["ofport"].is_empty());

    // What `ovs-vsctl` waits for, and what it reads.
    let (top, _) = client.session.cache().rows("Open_vSwitch").next().unwrap();
    let mut transaction = Transaction::new();
    transaction.assert_lock(LOCK);
    transaction.update("Interface", id, &[("ofport".to_owned(), Datum::from(7))].into());
    transaction.update("Interface", id, &[("error".to_owned(), Datum::from("in words"))].into());
    transaction.comment("ofport set");
    client.answer(transaction).unwrap();
    assert_eq!(database.vsctl(&["get", "Interface", "v0", "ofport", "error"]).unwrap(), "7\n\"in words\"\n");
    database.vsctl(&["--no-wait", "set", "Open_vSwitch", ".", "next_cfg=5"]).unwrap();
    let next = |_: &Event, cache: &Cache| {
        cache.row("Open_vSwitch", top)?["next_cfg"].integer().filter(|next| *next == 5)
    };
    client.until("waiting for next_cfg", next);
    let mut transaction = Transaction::new();
    transaction.update("Open_vSwitch", top, &[("cur_cfg".to_owned(), Datum::from(5))].into());
    client.answer(transaction).unwrap();
    let wrong: Row = [("ofport".to_owned(), Datum::from("seven"))].into();
    let mut transaction = Transaction::new();
    transaction.update("Interface", id, &wrong);
    assert!(client.answer(transaction).is_err());

    // The database goes away and comes back: no bridge and no port is different.
    database
        .vsctl(&["--no-wait", "add-port", "br0", "v1", "--", "set", "Interface", "v1", "type=tap"])
        .unwrap();
    client.until("waiting for the second port", |_, cache| interface(cache, "v1"));
    database.stop();
    database.start().unwrap();
    let cache = client.session.into_cache();
    let mut client = Client::connect(&database.socket(), cache);
    let rows = client.until("following again", followed);
    // `ofport` and `error` are ephemeral: the server forgets them.
    let modified = |row: &ovsdb::Difference| matches!(&row.kind, DifferenceKind::Modify(_));
    assert!(rows.iter().all(|row| modified(row) && row.table != "Bridge" && row.table != "Port"), "{rows:?}");
    database.vsctl(&["--no-wait", "del-port", "v0"]).unwrap();
    let deleted = |event: &Event, _: &Cache| match event {
        Event::Changed(rows) => rows
            .iter()
            .any(|row| row.row == id && matches!(row.kind, DifferenceKind::Delete(_)))
            .then_some(()),
        _ => None,
    };
    client.until("waiting until the port is gone", deleted);
    assert!(
        interface(client.session.cache(), "v0").is_none()
            && interface(client.session.cache(), "v1").is_some()
    );
}
