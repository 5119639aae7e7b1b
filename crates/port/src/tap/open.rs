//! Opening the TAP, and saying what to do if that fails.
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use linux::interface::Interface;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::options::TapOptions;
use super::sys::{self, Name};
use crate::PortError;

const DEVICE: &str = "/dev/net/tun";

/// One descriptor for each queue pair, attached to the interface.
pub(super) fn queues(options: &TapOptions) -> Result<Vec<OwnedFd>, PortError> {
    let name = Name::new(&options.name).ok_or_else(|| {
        let why = "an interface's name has 1 to 15 characters, no slash, colon or space";
        PortError::new(format!("open TAP '{}'", options.name), why, "write tap:NAME with such a name")
    })?;
    let queues = match options.descriptors.is_empty() {
        true => open_all(options, name)?,
        false => {
            let take = |fd: &i32| handed_over(*fd, &options.name);
            options.descriptors.iter().map(take).collect::<Result<_, _>>()?
        }
    };
    settings(options)?;
    Ok(queues)
}

fn open_all(options: &TapOptions, name: Name) -> Result<Vec<OwnedFd>, PortError> {
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    let many = flags | libc::IFF_MULTI_QUEUE;
    let mut queues = Vec::new();
    for _ in 0..options.queue_pairs {
        let fd = open_device()?;
        let mut attached = sys::set_interface(fd.as_fd(), name, many);
        // A TAP that was created without IFF_MULTI_QUEUE has one queue.
        if options.queue_pairs == 1 && errno(&attached) == Some(Errno::INVAL) {
            attached = sys::set_interface(fd.as_fd(), name, flags);
        }
        attached.map_err(|error| refused(options, error))?;
        queues.push(fd);
    }
    Ok(queues)
}

fn errno<T>(result: &io::Result<T>) -> Option<Errno> {
    result.as_ref().err().and_then(Errno::from_io_error)
}

fn open_device() -> Result<OwnedFd, PortError> {
    let mut open = OpenOptions::new();
    open.read(true).write(true).custom_flags((OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32);
    open.open(DEVICE).map(OwnedFd::from).map_err(|error| {
        let remedy = match error.kind() {
            io::ErrorKind::NotFound => "load the kernel's module tun, as root: modprobe tun",
            io::ErrorKind::PermissionDenied => "let this user open it, as root: chmod 0666 /dev/net/tun",
            _ => "load the kernel's module tun, as root: modprobe tun; in a container, pass the device in",
        };
        PortError::new(format!("open {DEVICE}"), error, remedy)
    })
}

/// The error if the kernel does not attach this process.
fn refused(options: &TapOptions, error: io::Error) -> PortError {
    let name = &options.name;
    let remedy = match Errno::from_io_error(&error) {
        Some(Errno::PERM) => format!(
            "making a TAP takes CAP_NET_ADMIN: run as root, or as root of a namespace of your own (unshare \
             --user --map-root-user --net), or have root make it for you (ip tuntap add {name} mode tap \
             multi_queue vnet_hdr user $USER)"
        ),
        Some(Errno::BUSY) => format!("another program has {name} open: end that, or name another interface"),
        Some(Errno::TOOBIG) => format!("{name} has no more queues free: lower queue-pairs"),
        Some(Errno::INVAL) if Interface::named(name).and_then(|interface| interface.index()).is_ok() => {
            format!(
                "{name} is there already and is no TAP, or one that was made for a single queue: name another \
             interface, or make it anew (ip tuntap add {name} mode tap multi_queue vnet_hdr)"
            )
        }
        _ => "see the kernel's log".to_owned(),
    };
    PortError::new(format!("attach to TAP {name}"), error, remedy)
}

/// A descriptor that another program has opened and attached to the interface.
fn handed_over(fd: i32, name: &str) -> Result<OwnedFd, PortError> {
    let what = || format!("use descriptor {fd} as TAP {name}");
    let no_tap = |error| PortError::new(what(), error, "hand over an open descriptor of an attached TAP");
    let ours = sys::duplicate(fd).map_err(no_tap)?;
    let (attached, flags) = sys::interface(ours.as_fd()).map_err(no_tap)?;
    if attached != name {
        return Err(PortError::new(
            what(),
            format!("it is {attached}"),
            format!("write tap:{attached},fd={fd}"),
        ));
    }
    if flags & libc::IFF_TAP == 0 || flags & libc::IFF_NO_PI == 0 || flags & libc::IFF_VNET_HDR == 0 {
        let remedy = "attach it with IFF_TAP, IFF_NO_PI and IFF_VNET_HDR";
        return Err(PortError::new(what(), format!("it was attached with flags {flags:#x}"), remedy));
    }
    let set = fcntl_getfl(&ours).and_then(|flags| fcntl_setfl(&ours, flags | OFlags::NONBLOCK));
    set.map_err(|error| PortError::new(what(), error, "hand over a descriptor open for both ways"))?;
    Ok(ours)
}

/// Applies the user's settings of the interface itself.
fn settings(options: &TapOptions) -> Result<(), PortError> {
    let refused = |what: String, by_hand: String| {
        let remedy = format!("leave the option out and do it by hand, as root: {by_hand}");
        move |error: io::Error| PortError::new(what, error, remedy)
    };
    let tap = &options.name;
    let (mac, mtu, address) = (options.mac, options.mtu_bytes, options.address);
    if mac.is_none() && mtu.is_none() && address.is_none() && !options.up {
        return Ok(());
    }
    let interface = Interface::named(tap).map_err(refused("open a socket".into(), "ip link".into()))?;
    if let Some(mtu) = mtu {
        let by_hand = format!("ip link set {tap} mtu {mtu}");
        interface.set_mtu(mtu).map_err(refused(format!("set the MTU of {tap} to {mtu}"), by_hand))?;
    }
    if let Some(mac) = mac {
        let by_hand = format!("ip link set {tap} address {mac}");
        interface.set_mac(mac.0).map_err(refused(format!("set the address of {tap} to {mac}"), by_hand))?;
    }
    if let Some(prefix) = address {
        let text = format!("{}/{}", prefix.address, prefix.bits);
        let by_hand = format!("ip address add {text} dev {tap}");
        let set = interface.set_address(prefix.address, prefix.bits);
        set.map_err(refused(format!("give {tap} the address {text}"), by_hand))?;
    }
    if options.up {
        let by_hand = format!("ip link set {tap} up");
        interface.set_up().map_err(refused(format!("take {tap} up"), by_hand))?;
    }
    Ok(())
}
