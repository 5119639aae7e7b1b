//! Two network namespaces as two hosts: a client that proves a key may measure, no other client gets anything, and
//! nothing remains.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Ended, Run, children, leftovers, nothing_left, signal, tautline, wait_until};
use environment::network::{self, FAR_ADDRESS, Layer};
use environment::remote::{PORT, keys};
use linux::Child;
use measure::{EnvironmentKind, Results};
use rustix::process::Signal;
use tempfile::TempDir;
use time::OffsetDateTime;

/// Who is not known must have been dropped by then, however busy the machine is.
const DROPPED: Duration = Duration::from_secs(60);

/// A far end at work, and what it printed.
struct FarEnd {
    child: Child,
    printed: PathBuf,
}

impl FarEnd {
    /// Starts the command, which is to listen.
    fn of(mut command: Command, folder: &Path) -> (Self, SocketAddr) {
        let printed = folder.join("far.log");
        let log = fs::File::create(&printed).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let far = FarEnd { child: Child::spawn(&mut command).unwrap(), printed };
        assert!(wait_until(|| far.said("; Ctrl-C ends")), "{}", far.log());
        let log = far.log();
        let address = log.split("listening on ").nth(1).unwrap().split(';').next().unwrap();
        (far, address.parse().unwrap())
    }

    fn on_loopback(key: &Path, folder: &Path) -> (Self, SocketAddr) {
        let mut command = Command::new(tautline());
        command.args(["agent", "--listen", "127.0.0.1:0", "--key"]).arg(key);
        Self::of(command, folder)
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.printed).unwrap()
    }

    fn said(&self, text: &str) -> bool {
        self.log().contains(text)
    }

    /// The agent that works for a run, if one does.
    fn agents(&self) -> Vec<u32> {
        children(self.child.id(), "agent")
    }

    fn idle(&self) {
        assert!(wait_until(|| self.agents().is_empty()), "{}", self.log());
    }

    /// Told to end as a service is: by itself, without an error, and nothing of it stays.
    fn end(mut self) {
        signal(self.child.id(), Signal::TERM);
        let status = self.child.wait_within(DROPPED).unwrap().expect("it ends");
        assert_eq!(status.code(), Some(0), "{}", self.log());
        nothing_left(self.child.id());
    }
}

fn keys() -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let made = Run::new(&["agent", "keys", "--folder"]).arg(folder.path().join("keys")).finish();
    assert_eq!(made.code, Some(0), "{made}");
    let [near, far] = ["near.pem", "far.pem"].map(|name| folder.path().join("keys").join(name));
    (folder, near, far)
}

fn compare(address: SocketAddr, key: &Path) -> Run {
    let place = format!("remote:{address},key={}", key.display());
    Run::new(&["compare", "--quick", "--blocks", "1", "--only", "cpu.crc.one", "--environments", &place])
}

/// Nothing could be measured, and the reason names what was tried, what was answered and what to do.
fn refused(run: &Ended, answer: &str) {
    assert_eq!(run.code, Some(1), "{run}");
    let all = format!("{}{}", run.stdout, run.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["agent at", answer] {
        assert!(all.contains(part), "{part:?} is missing: {run}");
    }
    nothing_left(run.pid);
}

/// The commands of docs/two-hosts.md, without the program's name.
fn page() -> [Vec<String>; 3] {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/two-hosts.md");
    let text = fs::read_to_string(page).unwrap();
    let words = |line: &str| line.split_whitespace().skip(1).map(str::to_owned).collect();
    let commands: Vec<_> = text.lines().filter(|line| line.starts_with("tautline ")).map(words).collect();
    commands.try_into().expect("keys, listen, compare")
}

#[test]
fn the_page_measures_on_another_host() {
    let [make, listen, compare] = page();
    let folder = tempfile::tempdir().unwrap();
    let made = Run::of(Command::new(tautline()).args(make).env("XDG_CONFIG_HOME", folder.path())).finish();
    assert_eq!(made.code, Some(0), "{made}");
    let agent = environment::Agent { binary: tautline(), arguments: vec!["agent".into()], files: vec![] };
    let path = network::Path::build(&[Layer::Veth], &agent).unwrap();
    let mut place = path.far.command(tautline()).unwrap();
    place.env("XDG_CONFIG_HOME", folder.path()).args(listen);
    let (far, address) = FarEnd::of(place, folder.path());
    assert_eq!(address, SocketAddr::from((FAR_ADDRESS, PORT)));
    let json = folder.path().join("r.json");
    let mut near = path.near.command(tautline()).unwrap();
    near.args(compare).env("XDG_CONFIG_HOME", folder.path());
    near.args(["--blocks", "2", "--only", "cpu.crc.one,os.syscall,wakeup.idle", "--output"]);
    let run = Run::of(near.arg(&json)).finish();
    assert_eq!(run.code, Some(0), "{run}{}", far.log());
    assert!(run.stdout.contains("another machine"), "{run}");
    let results = Results::load(&json).unwrap();
    let [_, remote] = &results.environments[..] else { panic!("{run}") };
    assert_eq!((remote.kind, remote.failure.as_ref()), (EnvironmentKind::Remote, None), "{run}");
    for fact in ["address", "kernel", "CPU"] {
        assert!(remote.facts.iter().any(|(key, value)| key == fact && !value.is_empty()), "no {fact}: {run}");
    }
    for metric in &results.metrics {
        let counted = |trial: &&measure::Trial| {
            trial.environment == "remote" && trial.metric == metric.id && trial.verdict.counts()
        };
        assert_eq!(results.trials.iter().filter(counted).count(), 2, "{}: {run}", metric.id);
    }
    nothing_left(run.pid);
    far.idle();
    far.end();
}

#[test]
fn keys_have_an_end_date_and_an_owner_and_are_never_overwritten() {
    let (folder, near_key, far_key) = keys();
    let text = fs::read(&near_key).unwrap();
    for key in [&near_key, &far_key] {
        assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600, "{}", key.display());
    }
    let again = Run::new(&["agent", "keys", "--folder"]).arg(folder.path().join("keys")).finish();
    assert_eq!(again.code, Some(1), "{again}");
    assert_eq!(fs::read(&near_key).unwrap(), text);

    let listen = |key: &Path| Run::new(&["agent", "--listen", "127.0.0.1:0", "--key"]).arg(key).finish();
    let missing = listen(&folder.path().join("none.pem"));
    assert!(missing.code == Some(1) && missing.stderr.contains("tautline agent keys"), "{missing}");
    fs::set_permissions(&far_key, fs::Permissions::from_mode(0o640)).unwrap();
    let open = listen(&far_key);
    assert!(open.code == Some(1) && open.stderr.contains("others may read it (mode 640)"), "{open}");
}

#[test]
fn who_proves_no_key_gets_nothing() {
    let (folder, near_key, far_key) = keys();
    let (far, address) = FarEnd::on_loopback(&far_key, folder.path());

    let (_other, other_near, _) = keys();
    refused(&compare(address, &other_near).finish(), "invalid peer certificate");
    // The far end's own key is no key of a near end.
    refused(&compare(address, &far_key).finish(), "received fatal alert");

    // Keys of one authority, of which one is out of date: the other end tells.
    let day = Duration::from_secs(24 * 3600);
    let (past, to_come) = (OffsetDateTime::now_utc() - day, OffsetDateTime::now_utc() + day);
    for (until, answer) in [([past, to_come], "CertificateExpired"), ([to_come, past], "expired")] {
        let folder = tempfile::tempdir().unwrap();
        let [old_near, old_far] = keys::make_valid(&folder.path().join("keys"), until).unwrap();
        let (old, old_address) = FarEnd::on_loopback(&old_far, folder.path());
        refused(&compare(old_address, &old_near).finish(), answer);
        assert!(!old.said(": serving "), "{}", old.log());
        old.end();
    }

    // Plain text, garbage, and a request as the agent would understand it.
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 70_000], b"{\"request\":\"quit\"}\n"] {
        let mut stranger = TcpStream::connect(address).unwrap();
        stranger.set_read_timeout(Some(DROPPED)).unwrap();
        let _ = stranger.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stranger.read_to_end(&mut answer);
        // An alert of TLS at most: seven bytes.
        assert!(answer.len() <= 7, "{answer:?}");
    }
    assert!(wait_until(|| far.said("refused 127.0.0.1:")), "{}", far.log());
    assert_eq!(far.log().matches(": serving ").count(), 0, "{}", far.log());
    assert!(far.agents().is_empty(), "{}", far.log());

    // Who has a key is served all the same.
    let run = compare(address, &near_key).finish();
    assert_eq!(run.code, Some(0), "{run}{}", far.log());
    far.end();
}

#[test]
fn half_open_connections_are_dropped_and_keep_nobody_out() {
    let (folder, near_key, far_key) = keys();
    let (far, address) = FarEnd::on_loopback(&far_key, folder.path());
    let mut silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    // The beginning of a ClientHello, and no more.
    for socket in &mut silent[50..] {
        let _ = socket.write_all(&[0x16, 3, 1, 2, 0, 1]);
    }
    let run = compare(address, &near_key).finish();
    assert_eq!(run.code, Some(0), "{run}{}", far.log());
    let begin = Instant::now();
    for socket in &mut silent {
        socket.set_read_timeout(Some(DROPPED)).unwrap();
        let mut answer = [0; 64];
        match socket.read(&mut answer) {
            Ok(count) => assert_eq!(count, 0, "it was told something"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
    assert!(begin.elapsed() < DROPPED);
    far.end();
}

#[test]
fn one_run_at_a_time_and_a_killed_near_end_makes_room() {
    let (folder, near_key, far_key) = keys();
    let (far, address) = FarEnd::on_loopback(&far_key, folder.path());
    let mut first = compare(address, &near_key).args(&["--trial", "60s"]).spawn();
    assert!(wait_until(|| !far.agents().is_empty()), "{}", far.log());
    refused(&compare(address, &near_key).finish(), "busy with another run");

    first.kill();
    let ended = first.finish();
    nothing_left(ended.pid);
    far.idle();
    let next = compare(address, &near_key).finish();
    assert_eq!(next.code, Some(0), "{next}{}", far.log());
    far.end();
}

#[test]
fn a_killed_far_end_is_said_and_leaves_nothing() {
    let (folder, near_key, far_key) = keys();
    let (mut far, address) = FarEnd::on_loopback(&far_key, folder.path());
    let mut run = compare(address, &near_key).args(&["--trial", "60s"]).spawn();
    assert!(wait_until(|| !far.agents().is_empty()), "{}", far.log());
    let agents = far.agents();
    far.child.kill().unwrap();
    let ended = run.finish();
    // It may have been killed before the near end had read the last of the handshake: the kernel resets the connection.
    let reset = "Connection reset by peer";
    let is_reset = format!("{}{}", ended.stdout, ended.stderr).contains(reset);
    refused(&ended, if is_reset { reset } else { "closed the connection" });
    let gone = |pid: &u32| !Path::new(&format!("/proc/{pid}")).exists();
    assert!(wait_until(|| agents.iter().all(gone)), "an agent outlived its far end");
    assert_eq!(leftovers(far.child.id()), Vec::<String>::new());
}
