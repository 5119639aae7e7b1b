//! A connection to a database server: requests, monitored rows, and checks that the server still answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cache::{Cache, Difference, UpdateError};
use crate::framer::{Framer, FramingError};
use crate::limits::Limits;
use crate::message::{Message, MessageError};
use crate::schema::{Schema, SchemaError};
use crate::transaction::{OperationResult, Transaction};
use crate::value::{Uuid, ValueError, shortened};

/// The requests of a client to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follow {
    /// The database.
    pub database: String,
    /// The columns to monitor, by table. Columns that the server's schema lacks are left out.
    pub tables: BTreeMap<String, BTreeSet<String>>,
    /// The lock to take.
    pub lock: Option<String>,
    /// Whether the lock is taken from a client that owns it.
    pub steals: bool,
    /// After this time without data the server is sent an echo request. After the same time again the session ends.
    pub probe_interval: Duration,
}

/// The number of a transaction that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionId(u64);

/// An event of a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The cache now has the content of the database; these are the differences from its former content.
    Followed(Vec<Difference>),
    /// Rows have changed.
    Changed(Vec<Difference>),
    /// This client owns the lock.
    LockGained,
    /// Another client owns the lock.
    LockLost,
    /// The answer to a transaction: its results, or the server's error.
    Answered(TransactionId, Result<Vec<OperationResult>, String>),
}

/// Why a session has ended. The connection must be closed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The stream cannot be divided into messages.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// A message is invalid.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The schema is invalid.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// An update does not fit the cache.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// The answer to a transaction is invalid.
    #[error("the answer of the database server to a transaction is not understood: {0}")]
    Transaction(#[from] ValueError),
    /// The server rejected a request.
    #[error("the database server refuses {request}: {error}; it has to be ovsdb-server 2.12 or later")]
    Refused {
        /// The method.
        request: &'static str,
        /// The server's error.
        error: String,
    },
    /// The server broke the protocol.
    #[error("the database server does not follow its protocol: {0}")]
    Protocol(&'static str),
    /// The server has removed the database.
    #[error("the database server no longer serves the database")]
    Canceled,
    /// The server did not answer for this time.
    #[error("the database server has been silent for {} s", .0.as_secs())]
    Silent(Duration),
}

/// The subject of a pending answer.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Schema,
    Lock,
    Monitor,
    ChangeAware,
    Transaction,
}

/// The id of echo requests. All others have numbers.
const ECHO: &str = "echo";

/// The state of a connection.
#[derive(Debug)]
pub struct Session {
    follow: Follow,
    limits: Limits,
    framer: Framer,
    to_send: Vec<u8>,
    events: VecDeque<Event>,
    asked: BTreeMap<u64, Asked>,
    next_id: u64,
    followed: Schema,
    cache: Cache,
    is_followed: bool,
    heard: Duration,
    probed: Option<Duration>,
}

impl Session {
    /// The session of a connection that has just been made. `cache` comes from an earlier session, or is empty. Times
    /// are those of any clock that never goes back.
    pub fn new(follow: Follow, limits: Limits, cache: Cache, now: Duration) -> Self {
        let mut session = Session {
            follow,
            limits,
            framer: Framer::new(limits),
            to_send: Vec::new(),
            events: VecDeque::new(),
            asked: BTreeMap::new(),
            next_id: 0,
            followed: Schema::default(),
            cache,
            is_followed: false,
            heard: now,
            probed: None,
        };
        session.ask(Asked::Schema, "get_schema", json!([session.follow.database]));
        session
    }

    /// The monitored rows.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Ends the session and returns the rows for the next one.
    pub fn into_cache(self) -> Cache {
        self.cache
    }

    /// The bytes to send. The caller removes from the front what it has sent.
    pub fn to_send(&mut self) -> &mut Vec<u8> {
        &mut self.to_send
    }

    /// The next event since the last call.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes bytes that the server has sent.
    ///
    /// # Errors
    /// The server does not follow its protocol or exceeds a limit.
    pub fn receive(&mut self, mut bytes: &[u8], now: Duration) -> Result<(), SessionError> {
        if !bytes.is_empty() {
            (self.heard, self.probed) = (now, None);
        }
        while let Some(message) = self.framer.next(&mut bytes)? {
            self.take(Message::from_bytes(&message)?)?;
            if self.to_send.len() > self.limits.message_bytes {
                return Err(SessionError::Protocol("it asks, but does not read the answers"));
            }
        }
        Ok(())
    }

    /// Checks whether the server still answers.
    ///
    /// # Errors
    /// The server did not answer in time.
    pub fn tick(&mut self, now: Duration) -> Result<(), SessionError> {
        if now < self.deadline() {
            return Ok(());
        }
        if self.probed.is_some() {
            return Err(SessionError::Silent(now.saturating_sub(self.heard)));
        }
        self.probed = Some(now);
        self.send(&Message::Request { id: json!(ECHO), method: ECHO.to_owned(), params: json!([]) });
        Ok(())
    }

    /// The time at which [`Session::tick`] must be called.
    pub fn deadline(&self) -> Duration {
        self.probed.unwrap_or(self.heard).saturating_add(self.follow.probe_interval)
    }

    /// Queues a transaction. [`Event::Answered`] reports its result.
    pub fn transact(&mut self, transaction: Transaction) -> TransactionId {
        let params = transaction.params(&self.follow.database);
        TransactionId(self.ask(Asked::Transaction, "transact", params))
    }

    fn ask(&mut self, asked: Asked, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.asked.insert(id, asked);
        self.send(&Message::Request { id: json!(id), method: method.to_owned(), params });
        id
    }

    fn send(&mut self, message: &Message) {
        self.to_send.extend_from_slice(&message.to_bytes());
    }

    fn take(&mut self, message: Message) -> Result<(), SessionError> {
        match message {
            Message::Request { id, method, params } => {
                let result = if method == ECHO { Ok(params) } else { Err(json!("unknown method")) };
                self.send(&Message::Answer { id, result });
                Ok(())
            }
            Message::Notification { method, params } => self.notified(&method, &params),
            Message::Answer { id, .. } if id == ECHO => Ok(()),
            Message::Answer { id, result } => {
                let asked = id.as_u64().and_then(|id| Some((id, self.asked.remove(&id)?)));
                let (id, asked) = asked.ok_or(SessionError::Protocol("it answers what was not asked"))?;
                self.answered(id, asked, result)
            }
        }
    }

    fn notified(&mut self, method: &str, params: &Value) -> Result<(), SessionError> {
        let is_ours = || params.get(0).and_then(Value::as_str) == self.follow.lock.as_deref();
        match method {
            "update3" => {
                let Some([_, _, update]) = params.as_array().map(Vec::as_slice) else {
                    return Err(SessionError::Protocol("update3 has not three arguments"));
                };
                if !self.is_followed {
                    return Err(SessionError::Protocol("an update comes before the initial rows"));
                }
                let differences = self.cache.update(update, &self.followed, &self.limits)?;
                self.events.push_back(Event::Changed(differences));
            }
            "locked" if is_ours() => self.events.push_back(Event::LockGained),
            "stolen" if is_ours() => self.events.push_back(Event::LockLost),
            "monitor_canceled" => return Err(SessionError::Canceled),
            _ => {}
        }
        Ok(())
    }

    fn answered(&mut self, id: u64, asked: Asked, result: Result<Value, Value>) -> Result<(), SessionError> {
        let refused = |request, error: Value| SessionError::Refused {
            request,
            error: shortened(&error.as_str().map_or_else(|| error.to_string(), str::to_owned)),
        };
        match asked {
            Asked::Schema => {
                let schema = result.map_err(|error| refused("get_schema", error))?;
                self.start(&Schema::from_json(&schema)?);
            }
            Asked::Lock => {
                let answer = result.map_err(|error| refused("lock", error))?;
                let owns = answer.get("locked").and_then(Value::as_bool);
                match owns.ok_or(SessionError::Protocol("the answer to a lock has no 'locked'"))? {
                    true => self.events.push_back(Event::LockGained),
                    false => self.events.push_back(Event::LockLost),
                }
            }
            Asked::Monitor => {
                let answer = result.map_err(|error| refused("monitor_cond_since", error))?;
                self.fill(&answer)?;
            }
            // Servers without it never cancel a monitor.
            Asked::ChangeAware => {}
            Asked::Transaction => {
                let results = match result {
                    Ok(answer) => OperationResult::all(&answer)?,
                    Err(error) => Err(shortened(&error.to_string())),
                };
                self.events.push_back(Event::Answered(TransactionId(id), results));
            }
        }
        Ok(())
    }

    /// Requests the tables and columns to follow, as far as the schema has them.
    fn start(&mut self, schema: &Schema) {
        let mut requests = serde_json::Map::new();
        for (table, names) in &self.follow.tables {
            let Some(columns) = schema.tables.get(table) else { continue };
            let found = columns.iter().filter(|(name, _)| names.contains(*name));
            let found: BTreeMap<_, _> = found.map(|(name, kind)| (name.clone(), *kind)).collect();
            requests.insert(table.clone(), json!([{"columns": found.keys().collect::<Vec<_>>()}]));
            self.followed.tables.insert(table.clone(), found);
        }
        if let Some(lock) = self.follow.lock.clone() {
            self.ask(Asked::Lock, if self.follow.steals { "steal" } else { "lock" }, json!([lock]));
        }
        let database = self.follow.database.clone();
        // No transaction has this id: the server sends all rows.
        let params = json!([database, ["monitor", database], requests, Uuid::default().to_string()]);
        self.ask(Asked::Monitor, "monitor_cond_since", params);
        self.ask(Asked::ChangeAware, "set_db_change_aware", json!([true]));
    }

    fn fill(&mut self, answer: &Value) -> Result<(), SessionError> {
        let Some([_, _, update]) = answer.as_array().map(Vec::as_slice) else {
            return Err(SessionError::Protocol("the answer to monitor_cond_since has not three parts"));
        };
        let mut fresh = Cache::default();
        fresh.update(update, &self.followed, &self.limits)?;
        let differences = self.cache.differences(&fresh);
        self.cache = fresh;
        self.is_followed = true;
        self.events.push_back(Event::Followed(differences));
        Ok(())
    }
}
