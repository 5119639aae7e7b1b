//! The part of the QEMU Machine Protocol that running a guest needs (QEMU's docs/interop/qmp-spec).

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use linux::interrupt;
use measure::Failure;
use serde_json::{Value, json};

use crate::{Role, Roles};

/// Bytes of a line: no answer of QEMU's that is asked for here is longer.
const LONGEST_LINE: usize = 4 << 20;
/// How long a read blocks before the wait checks for SIGINT again.
const SLICE: Duration = Duration::from_millis(50);

/// A connection to QEMU's monitor.
#[derive(Debug)]
pub struct Qmp {
    stream: UnixStream,
    pending: Vec<u8>,
    limit: Duration,
    /// The number of commands that were sent. The number is the command's `id`, which QEMU returns with the answer.
    sent: u64,
}

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum QmpError {
    /// QEMU has ended or closed the connection.
    #[error("QEMU closed the connection to its monitor")]
    Closed,
    /// The deadline passed.
    #[error("QEMU's monitor has not answered within {0:?}")]
    Late(Duration),
    /// The user interrupted.
    #[error("interrupted")]
    Interrupted,
    /// The received bytes are not QMP.
    #[error("QEMU's monitor sent {0}")]
    Malformed(&'static str),
    /// QEMU refuses the command.
    #[error("QEMU refuses {command}: {answer}")]
    Refused {
        /// The refused command.
        command: String,
        /// Its words.
        answer: String,
    },
    /// The system refused the read or write.
    #[error("QEMU's monitor: {0}")]
    System(#[from] io::Error),
}

impl QmpError {
    /// The error as a failure for the user.
    pub fn failure(&self, doing: &str) -> Failure {
        Failure::new(
            doing,
            self,
            "see that it is a socket of -qmp or -mon mode=control that no other program uses",
        )
    }
}

impl Qmp {
    /// Connects to a socket of `-qmp unix:PATH,server=on`. `limit` is how long each answer may take.
    ///
    /// # Errors
    /// The socket does not exist, no QEMU listens on it, or this process may not open it. Otherwise the causes of
    /// [`Qmp::over`].
    pub fn connect(path: &Path, limit: Duration) -> Result<Self, QmpError> {
        Self::over(UnixStream::connect(path)?, limit)
    }

    /// Speaks QMP over a connected socket: waits for QEMU's greeting and leaves the negotiation mode.
    ///
    /// # Errors
    /// QEMU closes the connection, does not greet or answer within `limit`, or sends bytes that are not QMP; the user
    /// interrupts; the socket accepts no timeout.
    pub fn over(stream: UnixStream, limit: Duration) -> Result<Self, QmpError> {
        stream.set_read_timeout(Some(SLICE))?;
        stream.set_write_timeout(Some(limit))?;
        let mut qmp = Qmp { stream, pending: Vec::new(), limit, sent: 0 };
        if qmp.receive(qmp.deadline())?.get("QMP").is_none() {
            return Err(QmpError::Malformed("no greeting of QMP"));
        }
        qmp.execute("qmp_capabilities")?;
        Ok(qmp)
    }

    /// Asks which thread runs which vCPU, and which threads are I/O threads.
    ///
    /// # Errors
    /// The causes of [`Qmp::execute`], or the answer holds a thread id or a vCPU number that is out of range.
    pub fn roles(&mut self) -> Result<Roles, QmpError> {
        const NO_THREAD: QmpError = QmpError::Malformed("an answer without a thread's id");
        const NO_VCPU: QmpError = QmpError::Malformed("a vCPU's number that no guest has");
        let mut roles = Roles::default();
        let id = |entry: &Value| {
            entry["thread-id"].as_i64().and_then(|id| i32::try_from(id).ok()).filter(|id| *id > 0)
        };
        for vcpu in self.execute("query-cpus-fast")?.as_array().into_iter().flatten() {
            let role = vcpu["cpu-index"].as_u64().and_then(Role::vcpu).ok_or(NO_VCPU)?;
            roles.0.insert(id(vcpu).ok_or(NO_THREAD)?, role);
        }
        for thread in self.execute("query-iothreads")?.as_array().into_iter().flatten() {
            roles.0.insert(id(thread).ok_or(NO_THREAD)?, Role::Io);
        }
        Ok(roles)
    }

    /// The guest's memory in MiB.
    ///
    /// # Errors
    /// The causes of [`Qmp::execute`], or the answer holds no `base-memory`.
    pub fn memory_mib(&mut self) -> Result<u64, QmpError> {
        let memory = self.execute("query-memory-size-summary")?;
        let bytes = memory["base-memory"].as_u64().ok_or(QmpError::Malformed("no size of memory"))?;
        Ok(bytes >> 20)
    }

    /// The number of exits of all vCPUs since they were created, as KVM counts them (`query-stats`: QEMU 7.1, Linux
    /// 5.14). `None` on an emulated CPU, an older QEMU or an older kernel, which do not count exits.
    ///
    /// # Errors
    /// The causes of [`Qmp::execute`], except a refusal.
    pub fn exits(&mut self) -> Result<Option<u64>, QmpError> {
        let wanted = json!({ "target": "vcpu", "providers": [{ "provider": "kvm", "names": ["exits"] }] });
        let answer = match self.execute_with("query-stats", wanted) {
            Err(QmpError::Refused { .. }) => return Ok(None),
            answer => answer?,
        };
        let stats =
            answer.as_array().into_iter().flatten().filter_map(|vcpu| vcpu["stats"].as_array()).flatten();
        let exits = stats.filter(|one| one["name"] == "exits").filter_map(|one| one["value"].as_u64());
        Ok(exits.fold(None, |sum, more| Some(sum.unwrap_or(0).saturating_add(more))))
    }

    /// Runs a command without arguments.
    ///
    /// # Errors
    /// QEMU refuses the command, hangs up, sends a line that is not JSON or longer than 4 MiB, or does not answer
    /// within the limit; or the user interrupts.
    pub fn execute(&mut self, command: &str) -> Result<Value, QmpError> {
        self.execute_with(command, json!({}))
    }

    /// Runs a command with these arguments, a JSON object.
    ///
    /// # Errors
    /// The causes of [`Qmp::execute`].
    pub fn execute_with(&mut self, command: &str, arguments: Value) -> Result<Value, QmpError> {
        self.send(command, arguments)?;
        // One deadline counts for the answer and all events before it.
        let deadline = self.deadline();
        loop {
            let mut answer = self.receive(deadline)?;
            if answer.get("id").is_some_and(|id| *id != self.sent) {
                // To an earlier command, which nothing waits for any more.
                continue;
            }
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
            if let Some(error) = answer.get("error") {
                let answer = error["desc"].as_str().unwrap_or("no reason given").to_owned();
                return Err(QmpError::Refused { command: command.to_owned(), answer });
            }
            // Otherwise an event, which comes unasked.
        }
    }

    /// Sends a command and does not wait for its answer.
    ///
    /// # Errors
    /// QEMU has closed the connection, or does not read within the limit.
    pub fn tell(&mut self, command: &str) -> Result<(), QmpError> {
        self.send(command, json!({}))
    }

    fn send(&mut self, command: &str, arguments: Value) -> Result<(), QmpError> {
        self.sent += 1;
        let line = json!({ "execute": command, "arguments": arguments, "id": self.sent });
        self.stream.write_all(format!("{line}\n").as_bytes()).map_err(ended)
    }

    /// Discards the lines that came without a request, so that they do not accumulate. Waits up to 50 ms for the
    /// first line.
    ///
    /// # Errors
    /// QEMU has closed the connection, or a line is longer than 4 MiB.
    pub fn pass_over_events(&mut self) -> Result<(), QmpError> {
        self.read()?;
        while self.take_line(0)?.is_some() {}
        Ok(())
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.limit
    }

    fn receive(&mut self, deadline: Instant) -> Result<Value, QmpError> {
        let mut searched = 0;
        loop {
            interrupt::check().map_err(|_| QmpError::Interrupted)?;
            if Instant::now() > deadline {
                return Err(QmpError::Late(self.limit));
            }
            if let Some(line) = self.take_line(searched)? {
                return serde_json::from_slice(&line)
                    .map_err(|_| QmpError::Malformed("a line that is not JSON"));
            }
            searched = self.pending.len();
            self.read()?;
        }
    }

    /// The next whole line, if one has come. Its end is not within the first `searched` bytes.
    fn take_line(&mut self, searched: usize) -> Result<Option<Vec<u8>>, QmpError> {
        match self.pending[searched..].iter().position(|byte| *byte == b'\n') {
            Some(end) => Ok(Some(self.pending.drain(..=searched + end).collect())),
            None if self.pending.len() > LONGEST_LINE => Err(QmpError::Malformed("a line without an end")),
            None => Ok(None),
        }
    }

    /// Reads what has come, or waits a moment for more.
    fn read(&mut self) -> Result<(), QmpError> {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(QmpError::Closed),
            Ok(count) => {
                self.pending.extend(&buffer[..count]);
                Ok(())
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(()),
                _ => Err(ended(error)),
            },
        }
    }
}

fn ended(error: io::Error) -> QmpError {
    match error.kind() {
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => QmpError::Closed,
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    /// A monitor that answers each command with the next of these.
    fn monitor(answers: Vec<String>) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let mut theirs = &theirs;
            let _ = theirs.write_all(b"{\"QMP\": {}}\r\n");
            let mut commands = BufReader::new(theirs).lines();
            for answer in answers {
                let _ = commands.next();
                let _ = theirs.write_all(answer.as_bytes());
            }
        });
        ours
    }

    const DONE: &str = "{\"return\": {}}\n";

    #[test]
    fn roles_come_from_two_queries_and_events_in_between_are_passed_over() {
        let cpus = "{\"event\": \"RESUME\"}\n{\"return\": [{\"cpu-index\": 1, \"thread-id\": 41}]}\n";
        let io = "{\"return\": [{\"id\": \"io\", \"thread-id\": 42}]}\n";
        let stream = monitor(vec![DONE.into(), cpus.into(), io.into()]);
        let roles = Qmp::over(stream, Duration::from_secs(20)).unwrap().roles().unwrap();
        assert_eq!(roles, Roles([(41, Role::Vcpu(1)), (42, Role::Io)].into()));
    }

    #[test]
    fn exits_of_all_vcpus_are_summed_where_somebody_counts_them() {
        let vcpu = |exits: u64| json!({ "provider": "kvm", "qom-path": "/machine", "stats": [{ "name": "exits", "value": exits }] });
        let exits = |answer: String| {
            Qmp::over(monitor(vec![DONE.into(), answer]), Duration::from_secs(20)).unwrap().exits().unwrap()
        };
        assert_eq!(exits(json!({ "return": [vcpu(40), vcpu(2)] }).to_string() + "\n"), Some(42));
        assert_eq!(exits(json!({ "return": [] }).to_string() + "\n"), None);
        assert_eq!(
            exits("{\"error\": {\"desc\": \"The command query-stats has not been found\"}}\n".into()),
            None
        );
    }

    #[test]
    fn an_answer_that_comes_late_is_not_the_next_commands() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let mut theirs = &theirs;
            let _ = theirs.write_all(b"{\"QMP\": {}}\n");
            let mut held = String::new();
            for line in BufReader::new(theirs).lines().map_while(Result::ok) {
                let command: Value = serde_json::from_str(&line).unwrap();
                let answer = format!("{}\n", json!({ "return": command["execute"], "id": command["id"] }));
                match command["execute"].as_str() {
                    Some("slow") => held = answer,
                    _ => _ = theirs.write_all((std::mem::take(&mut held) + &answer).as_bytes()),
                }
            }
        });
        let mut qmp = Qmp::over(ours, Duration::from_millis(200)).unwrap();
        assert!(matches!(qmp.execute("slow"), Err(QmpError::Late(_))));
        assert_eq!(qmp.execute("quick").unwrap(), "quick");
        qmp.tell("told").unwrap();
        assert_eq!(qmp.execute("again").unwrap(), "again");
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let refusal = "{\"error\": {\"desc\": \"not now\"}}\n";
        let long = "x".repeat(LONGEST_LINE + (64 << 10));
        let cases = [
            (refusal, "not now"),
            ("nonsense\n", "not JSON"),
            ("{\"return\": [{\"cpu-index\": -1, \"thread-id\": 41}]}\n", "number that no guest has"),
            (
                "{\"return\": [{\"cpu-index\": 9223372036854775808, \"thread-id\": 41}]}\n",
                "number that no guest has",
            ),
            ("{\"return\": [{\"cpu-index\": 0, \"thread-id\": 0}]}\n", "without a thread's id"),
            ("{\"return\": [{\"cpu-index\": 0}]}\n", "without a thread's id"),
            (&long, "without an end"),
            ("", "closed"),
        ];
        for (answer, told) in cases {
            let stream = monitor(vec![DONE.into(), answer.to_owned()]);
            let error = Qmp::over(stream, Duration::from_secs(20)).unwrap().roles().unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
        // Lines without an end, each in time.
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let _ = theirs.write_all(b"{\"QMP\": {}}\n");
            while theirs.write_all(b"{\"event\": \"RESUME\"}\n").is_ok() {}
        });
        let error = Qmp::over(ours, Duration::from_millis(200)).unwrap_err();
        assert!(matches!(error, QmpError::Late(_)), "{error}");
        let (silent, _open) = UnixStream::pair().unwrap();
        let error = Qmp::over(silent, Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, QmpError::Late(_)), "{error}");
    }
}
