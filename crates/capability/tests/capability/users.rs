//! Every probe, really run, with and without privileges.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use capability::{Capability, NAMES, State};
use libtest_mimic::Failed;

use crate::{LIMIT, this_binary};

/// The argument that makes this binary run all probes and print them as JSON.
pub const RUN_ALL: &str = "run-all-probes";

pub fn run_all() -> ExitCode {
    let Ok(binary) = std::env::current_exe() else { return ExitCode::FAILURE };
    let found = capability::run_all(&binary, LIMIT, &mut |_| {});
    println!("{}", serde_json::to_string(&found).expect("plain data"));
    ExitCode::SUCCESS
}

pub fn as_root() -> Result<(), Failed> {
    let mut announced = Vec::new();
    let found = capability::run_all(&this_binary()?, LIMIT, &mut |one| announced.push(one.id.clone()));
    check_form(&found)?;
    assert_eq!(announced, NAMES, "each is announced once, in order");
    for (capability, name, what_it_needs) in [
        (14, "memory-locking", "/proc/self/status"),     // CAP_IPC_LOCK
        (21, "network-namespaces", "/proc/self/ns/net"), // CAP_SYS_ADMIN
        (21, "user-namespaces", "/proc/self/ns/user"),
        (12, "tun", "/dev/net/tun"), // CAP_NET_ADMIN
    ] {
        if has_capability(capability) && Path::new(what_it_needs).exists() {
            let found = of(&found, name);
            assert_eq!(found.state, State::Proven, "root, with what it needs: {found:?}");
        }
    }
    if has_capability(21) {
        // Where a socket can be bound at all, root's frames go both ways.
        let xdp = of(&found, "af-xdp");
        assert_ne!(xdp.state, State::Partial, "{xdp:?}");
    }
    if has_capability(21) && fs::read_to_string("/proc/filesystems")?.contains("tracefs") {
        // Only kvm's own tracepoints may be lacking.
        let tracing = of(&found, "tracing");
        assert!(tracing.state == State::Proven || tracing.detail.contains("no kvm"), "{tracing:?}");
    }
    Ok(())
}

pub fn as_ordinary_user() -> Result<(), Failed> {
    let found: Vec<Capability> = if rustix::process::geteuid().is_root() {
        // The build's folder may be closed to others.
        let folder = tempfile::tempdir()?;
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
        let binary = folder.path().join("probes");
        fs::copy(this_binary()?, &binary)?;
        fs::set_permissions(&binary, Permissions::from_mode(0o755))?;
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])
            .arg(&binary)
            .arg(RUN_ALL)
            .current_dir("/")
            .output()?;
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {words}", output.status);
        serde_json::from_slice(&output.stdout)?
    } else {
        capability::run_all(&this_binary()?, LIMIT, &mut |_| {})
    };
    check_form(&found)?;
    // Attaching an XDP program and making an interface here are root's, on every kernel.
    for name in ["af-xdp", "tun"] {
        assert_ne!(of(&found, name).state, State::Proven, "{:?}", of(&found, name));
    }
    // The clock asks for no privilege.
    assert_ne!(of(&found, "clocksource").state, State::Missing, "{:?}", of(&found, "clocksource"));
    Ok(())
}

/// What holds for every answer on every machine: it is one, it says something, and what to do.
fn check_form(found: &[Capability]) -> Result<(), Failed> {
    let ids: Vec<&str> = found.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, NAMES);
    for one in found {
        for text in [&one.title, &one.detail, &one.enables] {
            assert!(!text.is_empty(), "{one:?}");
        }
        assert!(!one.detail.contains("no answer"), "crashed or hung: {one:?}");
        assert_eq!(one.remedy.is_empty(), one.state == State::Proven, "{one:?}");
    }
    Ok(())
}

fn of<'a>(found: &'a [Capability], name: &str) -> &'a Capability {
    found.iter().find(|one| one.id == name).expect("every name has an answer")
}

/// Whether this process has the privilege with this number: capabilities(7).
fn has_capability(number: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or_default();
    u64::from_str_radix(effective.trim(), 16).is_ok_and(|effective| effective >> number & 1 == 1)
}
