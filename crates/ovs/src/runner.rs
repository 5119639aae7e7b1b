//! Connects a database and a switch, on the calling thread.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use control::{BridgeDescription, Client, ClientError, PortDescription, Request};
use ovsdb::{Cache, Event, Limits, Session, SessionError, TransactionId};

use crate::appctl::{Served, ServedPort, SharedBridges};
use crate::columns::ControllerStates;
use crate::follow::{PROBE, follow};
use crate::mirrors::mirror_of;
use crate::server::{Server, Stream};
use crate::zones::{Change, ZoneLimits};
use crate::{Interface, Mirror, Mirrors, Numbers, Observed, Wanted, report, wanted};

/// Whose ports they are, for the switch.
const OWNER: &str = "the database of Open vSwitch";
/// The time between two checks whether to continue.
const TICK: Duration = Duration::from_millis(100);
/// The time between two readings of the ports' counters (ovs-vswitchd's `stats-update-interval`).
const LOOK: Duration = Duration::from_secs(5);
/// The first pause between two connections; each connection that ends soon doubles it.
const SHORTEST_PAUSE: Duration = TICK;
/// See [`SHORTEST_PAUSE`].
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The most memory that the database can make this process use. A switch has at most 1024 ports: two rows for each, and
/// as many again for bridges of others.
const LIMITS: Limits = Limits {
    message_bytes: 16 << 20,
    message_values: 512 << 10,
    nesting: 32,
    rows: 16 << 10,
    cache_bytes: 64 << 20,
};

/// The database and switch to connect.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The database server.
    pub database: Server,
    /// The control socket of the switch.
    pub control: PathBuf,
    /// The folder in which sockets are made.
    pub folder: PathBuf,
    /// The list of bridges for `ovs-appctl`.
    pub bridges: SharedBridges,
}

/// Why a connection ended. A new connection is made afterwards.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The connection to the database server failed.
    #[error("{action} the database at {server}: {source}")]
    Socket {
        /// What was tried.
        action: &'static str,
        /// The server, as the user names it.
        server: String,
        /// What the system answered.
        source: io::Error,
    },
    /// The server sent something invalid.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The server rejected a transaction.
    #[error(
        "the database does not take what the switch writes: {0}; is another program writing the same columns?"
    )]
    NotWritten(String),
    /// The switch did not answer a request.
    #[error(transparent)]
    Switch(#[from] ClientError),
}

/// Connects database and switch as long as `goes_on` returns true. A database that is unreachable changes nothing in
/// the switch. `log` is called with a line for each connection that ended.
pub fn run(settings: &Settings, log: impl Fn(&str), goes_on: impl Fn() -> bool) {
    let mut state = State {
        settings,
        numbers: Numbers::default(),
        cache: Cache::default(),
        bridges: None,
        applied: BTreeMap::new(),
        mirrors: BTreeMap::new(),
        limits: ZoneLimits::default(),
        said: BTreeSet::new(),
        failed: BTreeMap::new(),
        log: &log,
        observed: BTreeMap::new(),
        controllers: ControllerStates::new(),
        looked: None,
    };
    let (mut last, mut pause) = (String::new(), SHORTEST_PAUSE);
    while goes_on() {
        let began = Instant::now();
        if let Err(error) = state.connection(&goes_on) {
            let line = error.to_string();
            // A server that is away for long is one line.
            if line != last {
                log(&line);
                last = line;
            }
        }
        pause = if began.elapsed() > LONGEST_PAUSE { SHORTEST_PAUSE } else { (2 * pause).min(LONGEST_PAUSE) };
        let until = Instant::now() + pause;
        while goes_on() && Instant::now() < until {
            std::thread::sleep(TICK);
        }
    }
}

fn failed(server: &str, action: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |source| RunError::Socket { action, server: server.to_owned(), source }
}

/// The state that outlives a connection.
struct State<'a> {
    settings: &'a Settings,
    numbers: Numbers,
    cache: Cache,
    /// The bridges of the database that the switch has; `None` until the switch was told.
    bridges: Option<BTreeMap<String, BridgeDescription>>,
    /// The ports of the database that the switch has.
    applied: BTreeMap<String, PortDescription>,
    /// The mirrors of the database that the switch has, by the port that is observed.
    mirrors: BTreeMap<String, Mirror>,
    /// The limits of the database that the switch has.
    limits: ZoneLimits,
    /// The logged messages about mirrors that are not possible, as long as they are not possible.
    said: BTreeSet<String>,
    /// Why ports could not be as they are wanted, at the last change.
    failed: BTreeMap<String, String>,
    log: &'a dyn Fn(&str),
    /// The switch's last report about its ports, and its time.
    observed: BTreeMap<String, Observed>,
    /// The switch's last report about connections with controllers.
    controllers: ControllerStates,
    looked: Option<Instant>,
}

/// The state of one connection.
struct Connection {
    socket: Stream,
    session: Session,
    is_owner: bool,
    /// A transaction that was sent and is not answered yet.
    sent: Option<TransactionId>,
}

impl State<'_> {
    /// One connection to the database, until it ends.
    fn connection(&mut self, goes_on: &impl Fn() -> bool) -> Result<(), RunError> {
        let server = &self.settings.database;
        let socket = server.connect(TICK, PROBE).map_err(failed(&server.words(), "connecting to"))?;
        let began = Instant::now();
        let session = Session::new(follow(), LIMITS, std::mem::take(&mut self.cache), began.elapsed());
        let mut connection = Connection { socket, session, is_owner: false, sent: None };
        let ended = self.serve(&mut connection, began, goes_on);
        self.cache = connection.session.into_cache();
        ended
    }

    fn serve(
        &mut self,
        connection: &mut Connection,
        began: Instant,
        goes_on: &impl Fn() -> bool,
    ) -> Result<(), RunError> {
        let server = self.settings.database.words();
        let mut bytes = [0; 64 << 10];
        let (mut is_followed, mut is_due) = (false, false);
        while goes_on() {
            let mut is_new = false;
            while let Some(event) = connection.session.next_event() {
                match event {
                    Event::Followed(_) => (is_followed, is_new) = (true, true),
                    Event::Changed(_) => is_new = true,
                    Event::LockGained => (connection.is_owner, is_new) = (true, true),
                    Event::LockLost => connection.is_owner = false,
                    Event::Answered(_, answer) => {
                        answer.map_err(RunError::NotWritten)?;
                        connection.sent = None;
                    }
                }
            }
            is_due |= is_new || self.looks_are_old();
            if is_due && is_followed && connection.is_owner && connection.sent.is_none() {
                self.apply(connection)?;
                is_due = false;
            }
            let out = std::mem::take(connection.session.to_send());
            let written = connection.socket.write_all(&out).and_then(|()| connection.socket.flush());
            written.map_err(failed(&server, "writing to"))?;
            let count = match connection.socket.read(&mut bytes) {
                Ok(0) => return Err(failed(&server, "reading from")(ErrorKind::UnexpectedEof.into())),
                Ok(count) => count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
                Err(error) => return Err(failed(&server, "reading from")(error)),
            };
            connection.session.receive(&bytes[..count], began.elapsed())?;
            connection.session.tick(began.elapsed())?;
        }
        Ok(())
    }

    /// Applies the database's content to the switch, and reports the results to the database.
    fn apply(&mut self, connection: &mut Connection) -> Result<(), RunError> {
        let mut wanted = wanted(connection.session.cache(), &self.settings.folder);
        self.numbers.give(&wanted.interfaces);
        self.numbers.describe(&mut wanted.ports);
        // First: a port of a bridge that forwards nothing without flows must not learn until then.
        self.make_bridges(&wanted)?;
        let failed = self.change(&wanted)?;
        self.make_mirrors(&wanted.mirrors)?;
        self.limit_zones(ZoneLimits::of(connection.session.cache(), &wanted.datapaths))?;
        *self.settings.bridges.bridges.lock().unwrap_or_else(PoisonError::into_inner) = self.served(&wanted);
        // The counters are not written after each change of the database: writing them is such a change, and counters
        // always differ.
        if self.looks_are_old() {
            let answer = Client::connect(&self.settings.control)?.ask(Request::Ports)?;
            (self.observed, self.looked) = (Observed::all(&answer), Some(Instant::now()));
            if !wanted.controllers.is_empty() {
                let answer = Client::connect(&self.settings.control)?.ask(Request::Controllers)?;
                self.controllers = serde_json::from_value(answer["controllers"].clone()).unwrap_or_default();
            }
        }
        let cache = connection.session.cache();
        let transaction = report(cache, &wanted, &failed, &self.numbers, &self.observed, &self.controllers);
        if !transaction.is_empty() {
            connection.sent = Some(connection.session.transact(transaction));
        }
        Ok(())
    }

    /// Sets the limits of zones that are not as the database has them.
    fn limit_zones(&mut self, wanted: ZoneLimits) -> Result<(), RunError> {
        if let Some(Change { default, zones }) = wanted.change_from(&self.limits) {
            let request = Request::ConnectionLimits { default, zones, shown: Vec::new() };
            Client::connect(&self.settings.control)?.ask(request)?;
        }
        self.settings.bridges.limits_zones.store(!wanted.is_empty(), Ordering::Relaxed);
        self.limits = wanted;
        Ok(())
    }

    /// The bridges as `ovs-appctl` shows them.
    fn served(&self, wanted: &Wanted) -> Vec<Served> {
        let served = |name: &String| {
            let own = wanted.interfaces.iter().filter(|interface| interface.bridge == *name);
            let port = |interface: &Interface| {
                let number = self.numbers.of(&interface.name)?;
                let (name, kind) = (interface.name.clone(), interface.kind.clone());
                Some(ServedPort { number, name, kind })
            };
            let mut ports: Vec<ServedPort> = own.filter_map(port).collect();
            ports.sort_unstable_by_key(|port| port.number);
            let has_local = self.applied.contains_key(name);
            Served { name: name.clone(), has_local, ports }
        };
        wanted.bridges.iter().map(served).collect()
    }

    /// Makes the bridges that are not as they are wanted.
    fn make_bridges(&mut self, wanted: &Wanted) -> Result<(), RunError> {
        if self.bridges.as_ref() == Some(&wanted.described) {
            return Ok(());
        }
        let bridges = wanted.described.clone();
        let request = Request::Bridges { owner: OWNER.to_owned(), bridges };
        let answer = Client::connect(&self.settings.control)?.ask(request)?;
        self.bridges = Some(wanted.described.clone());
        for (name, state) in answer["bridges"].as_object().into_iter().flatten() {
            if let Some(why) = state["error"].as_str() {
                (self.log)(&format!("bridge {name}: {why}"));
            }
        }
        Ok(())
    }

    /// Whether the ports' counters have to be asked for.
    fn looks_are_old(&self) -> bool {
        self.looked.is_none_or(|looked| looked.elapsed() >= LOOK)
    }

    /// Changes the ports that are not as they are wanted. Returns why which of them could not be.
    fn change(&mut self, wanted: &Wanted) -> Result<BTreeMap<String, String>, RunError> {
        let Wanted { ports, mirrors, .. } = wanted;
        let gone = self.applied.keys().filter(|name| !ports.contains_key(*name));
        let mut changes: BTreeMap<String, Option<PortDescription>> =
            gone.map(|name| (name.clone(), None)).collect();
        // A failed change may have ended the port as it was: even that is not certain to be there.
        let is_new = |(name, port): &(&String, &PortDescription)| {
            self.applied.get(*name) != Some(*port) || self.failed.contains_key(*name)
        };
        let new = ports.iter().filter(is_new);
        changes.extend(new.map(|(name, port)| (name.clone(), Some(port.clone()))));
        // First: an end of a mirror cannot be removed.
        self.end_mirrors(mirrors, &changes)?;
        let mut failed = BTreeMap::new();
        if changes.is_empty() {
            return Ok(failed);
        }
        let done = Client::connect(&self.settings.control)?.change(OWNER, changes.clone())?;
        self.looked = None;
        for change in done.changes {
            if let Some(why) = change.error {
                if self.failed.get(&change.port) != Some(&why) {
                    (self.log)(&format!("port {} cannot be {}: {why}", change.port, change.change));
                }
                failed.insert(change.port, why);
            }
        }
        for (name, port) in changes {
            match port {
                // A failed change is tried again with the next change of the database.
                _ if failed.contains_key(&name) => {}
                None => drop(self.applied.remove(&name)),
                Some(port) => drop(self.applied.insert(name, port)),
            }
        }
        self.failed.clone_from(&failed);
        Ok(failed)
    }

    /// Ends the mirrors that are not wanted, and those of ports that are made anew.
    fn end_mirrors(
        &mut self,
        wanted: &Mirrors,
        changes: &BTreeMap<String, Option<PortDescription>>,
    ) -> Result<(), RunError> {
        let stays = |name: &String| match (changes.get(name), self.applied.get(name)) {
            (None, _) => true,
            (Some(Some(new)), Some(old)) => old.is_same_port(new),
            _ => false,
        };
        let ends = |(from, mirror): &(&String, &Mirror)| {
            wanted.by_port.get(*from) != Some(*mirror) || !stays(from) || !stays(&mirror.to)
        };
        let going: Vec<String> = self.mirrors.iter().filter(ends).map(|(from, _)| from.clone()).collect();
        for from in going {
            let ended =
                Client::connect(&self.settings.control)?.ask(Request::Remove { port: mirror_of(&from) });
            match ended {
                // A refusal means that another program has ended the mirror.
                Ok(_) | Err(ClientError::Refused(_)) => drop(self.mirrors.remove(&from)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Makes the mirrors that are wanted and not there, between ports of the database alone.
    fn make_mirrors(&mut self, wanted: &Mirrors) -> Result<(), RunError> {
        let mut refused: BTreeSet<String> = wanted.refused.iter().cloned().collect();
        for (from, mirror) in &wanted.by_port {
            let is_own = |port: &String| self.applied.contains_key(port);
            if self.mirrors.contains_key(from) || !is_own(from) || !is_own(&mirror.to) {
                continue;
            }
            let request = Request::Mirror { from: from.clone(), to: mirror.to.clone(), only: mirror.only };
            match Client::connect(&self.settings.control)?.ask(request) {
                Ok(_) => drop(self.mirrors.insert(from.clone(), mirror.clone())),
                Err(ClientError::Refused(why)) => {
                    _ = refused.insert(format!("mirror {}: {why}", mirror.name))
                }
                Err(error) => return Err(error.into()),
            }
        }
        refused.difference(&self.said).for_each(|line| (self.log)(line));
        self.said = refused;
        Ok(())
    }
}
