use std::fs;
use std::net::UdpSocket;
use std::time::Duration;

use linux::interface::Interface;
use linux::namespace::{UnshareFlags, unshare};
use measure::Failure;
use rustix::process::{getegid, geteuid};

use crate::finding::Finding;
use crate::parent::end_with_parent;

const REMEDY: &str = "allow user namespaces: sysctl user.max_user_namespaces=15000; on Ubuntu also \
                      kernel.apparmor_restrict_unprivileged_userns=0, on older Debian \
                      kernel.unprivileged_userns_clone=1; in a container, its seccomp profile may forbid them, and its root may lack CAP_SETFCAP";

/// Enters a user namespace as its root.
///
/// # Errors
/// `unshare` is refused, the user and group mappings cannot be written, or the process is not user 0 and group 0
/// inside.
pub fn user() -> Result<Finding, Failure> {
    let outside = (geteuid(), getegid());
    enter_user(UnshareFlags::empty())?;
    Ok(Finding::proven(format!(
        "made one, and became user 0, group 0 in it from user {}, group {}",
        outside.0.as_raw(),
        outside.1.as_raw()
    )))
}

/// Enters a network namespace and sends a datagram over its loopback interface.
///
/// # Errors
/// The namespace is refused, as described at [`enter_network`]; or a datagram does not pass its loopback interface
/// within 1 s.
pub fn network() -> Result<Finding, Failure> {
    let how = enter_network()?;
    let fail = |tried: &str, error: String| {
        Failure::new(format!("in a network namespace {how}: {tried}"), error, "see dmesg; use a stock kernel")
    };
    let received = loop_back().map_err(|(tried, error)| fail(tried, error.to_string()))?;
    Ok(Finding::proven(format!("made one {how}, brought lo up, received {received} bytes over it")))
}

/// A datagram from this process to itself.
fn loop_back() -> Result<usize, (&'static str, std::io::Error)> {
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(|error| ("binding a UDP socket", error))?;
    Interface::named("lo").and_then(|lo| lo.set_up()).map_err(|error| ("bringing lo up", error))?;
    let port = socket.local_addr().map_err(|error| ("asking for the port", error))?.port();
    let sent = socket.send_to(b"tautline", ("127.0.0.1", port));
    sent.map_err(|error| ("sending over lo", error))?;
    let mut datagram = [0; 64];
    socket
        .set_read_timeout(Some(Duration::from_secs(1)))
        .and_then(|()| socket.recv(&mut datagram))
        .map_err(|error| ("receiving over lo", error))
}

/// Enters a network namespace; if that is refused, enters a user namespace and a network namespace in it. Returns the
/// name of the namespaces that were entered.
///
/// # Errors
/// The kernel refuses the network namespace to this process, and also one within a user namespace, for the reasons of
/// [`enter_user`].
pub fn enter_network() -> Result<&'static str, Failure> {
    match unshare(UnshareFlags::NEWNET) {
        Ok(()) => Ok("as root"),
        Err(_) => enter_user(UnshareFlags::NEWNET).map(|()| "in a user namespace"),
    }
}

/// Enters a user namespace as its root, along with further namespaces: user_namespaces(7).
///
/// # Errors
/// `unshare` is refused (a sysctl, AppArmor or seccomp forbids user namespaces); a file in `/proc/self` cannot be
/// written; or the process is not user 0 and group 0 inside.
pub fn enter_user(further: UnshareFlags) -> Result<(), Failure> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let fail =
        |tried: &str, error: String| Failure::new(format!("{tried} for a user namespace"), error, REMEDY);
    unshare(UnshareFlags::NEWUSER | further).map_err(|error| fail("unshare", error.to_string()))?;
    end_with_parent();
    // An ordinary user may map a group only after giving up setgroups.
    for (file, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {user} 1")),
        ("/proc/self/gid_map", format!("0 {group} 1")),
    ] {
        fs::write(file, text).map_err(|error| fail(&format!("writing {file}"), error.to_string()))?;
    }
    match (geteuid().as_raw(), getegid().as_raw()) {
        (0, 0) => Ok(()),
        (user, group) => Err(fail("mapping", format!("user {user}, group {group} inside instead of 0, 0"))),
    }
}
