//! Opening an interface's queues, and saying what to do if that fails.
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use linux::interface::Interface;
use linux::xdp::{Attached, Redirect, XdpMode, promiscuous};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::xdp::SocketAddrXdpFlags;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

use super::options::{AfXdpOptions, XdpModeOption};
use super::socket::{Place, Queue, Refusal, Sizes};
use super::vlan::{Stripping, is_software, lost_tags};
use crate::{PortError, SharedFd};

/// Bytes that the kernel keeps free before a frame (`XDP_PACKET_HEADROOM`).
const HEADROOM_BYTES: u32 = 256;
/// Ethernet header and two VLAN tags.
const LINK_HEADERS_BYTES: u32 = 14 + 2 * 4;
/// Sizes that a chunk may have; more than a page is not taken.
const CHUNKS_BYTES: [u32; 2] = [2048, 4096];

/// An interface's queues, bound, with the program that redirects its frames to them.
pub(super) struct Open {
    pub interface: u32,
    pub mode: XdpMode,
    pub queues: Vec<Queue>,
    pub held: Held,
    /// A warning for the user.
    pub warning: Option<String>,
}

/// The settings that are restored when the descriptors are closed. Stripping of tags is restored when this value is
/// dropped, after the program has gone.
#[derive(Debug)]
pub(super) struct Held {
    _program: Attached,
    _stripping: Option<Stripping>,
    _promiscuous: OwnedFd,
}

/// The queues that one attempt bound, and its report about VLAN tags.
struct Bound {
    queues: Vec<Queue>,
    held: Held,
    lost_tags: Option<String>,
}

/// One way to do it.
struct Attempt {
    name: &'static str,
    mode: XdpMode,
    copying: SocketAddrXdpFlags,
}

fn attempts(option: XdpModeOption) -> Vec<Attempt> {
    let zero_copy = || Attempt {
        name: "native-with-zerocopy",
        mode: XdpMode::Native,
        copying: SocketAddrXdpFlags::XDP_ZEROCOPY,
    };
    let native = || Attempt { name: "native", mode: XdpMode::Native, copying: SocketAddrXdpFlags::XDP_COPY };
    let generic =
        || Attempt { name: "generic", mode: XdpMode::Generic, copying: SocketAddrXdpFlags::XDP_COPY };
    match option {
        XdpModeOption::BestEffort => vec![zero_copy(), native(), generic()],
        XdpModeOption::NativeWithZeroCopy => vec![zero_copy()],
        XdpModeOption::Native => vec![native()],
        XdpModeOption::Generic => vec![generic()],
    }
}

/// Opens all queues in the first mode that works.
pub(super) fn open(options: &AfXdpOptions) -> Result<Open, PortError> {
    let name = &options.interface;
    let there = Interface::named(name).and_then(|interface| Ok((interface.index()?, interface)));
    let (index, interface) = there.map_err(|error| {
        PortError::new(format!("open interface {name}"), error, "name one that ip link shows")
    })?;
    if let Some(driver) = &options.driver
        && interface.driver().ok().is_none_or(|(own, _)| own != *driver)
    {
        let why =
            io::Error::other(format!("its driver is not {driver}: the kernel keeps the frames of {name}"));
        return Err(PortError::new(
            format!("open interface {name}"),
            why,
            "leave the option driver out, or in a database give the interface the type afxdp, to take them",
        ));
    }
    let mtu = interface.mtu().unwrap_or(1500);
    let fits = |chunk: &u32| mtu + LINK_HEADERS_BYTES + HEADROOM_BYTES <= *chunk;
    let [_, largest] = CHUNKS_BYTES;
    let chunk_bytes = CHUNKS_BYTES.into_iter().find(fits).unwrap_or(largest);
    let sizes = Sizes { ring: u32::from(options.queue_size), chunk_bytes };

    let mut refusals = Vec::new();
    for attempt in attempts(options.xdp_mode) {
        match open_by(options, &interface, index, sizes, &attempt) {
            Ok(Bound { queues, held, lost_tags }) => {
                let warning = warning(options, &interface, mtu, chunk_bytes, lost_tags);
                return Ok(Open { interface: index, mode: attempt.mode, queues, held, warning });
            }
            Err(refusal) => refusals.push((attempt.name, refusal)),
        }
    }
    Err(refused(name, options, &refusals))
}

fn open_by(
    options: &AfXdpOptions,
    interface: &Interface,
    index: u32,
    sizes: Sizes,
    attempt: &Attempt,
) -> Result<Bound, Refusal> {
    let during = |what| move |errno: Errno| (what, io::Error::from(errno));
    let wanted = options.start_queue..options.start_queue + options.queue_pairs;
    let end = u32::from(wanted.end);
    let is_software = is_software(interface);
    let keeping = match attempt.mode {
        XdpMode::Native if is_software => Redirect::load_keeping_tags(end, index).ok(),
        XdpMode::Native | XdpMode::Generic => None,
    };
    let puts_back = keeping.is_some();
    let plain = || Redirect::load(end).map_err(during("load an XDP program"));
    let redirect = keeping.map_or_else(plain, Ok)?;
    let mut queues = Vec::new();
    for queue in wanted.map(u32::from) {
        let place = Place { interface: index, queue };
        let bound = Queue::bind(place, sizes, attempt.copying, options.busy_poll)?;
        redirect.set(queue, bound.socket.as_fd()).map_err(during("redirect frames to the socket"))?;
        queues.push(bound);
    }
    let promiscuous = promiscuous(index).map_err(during("take frames for every address"))?;
    // This comes after the binding: a port that had these queues before has restored the stripping by then.
    let stripping = (!is_software).then(|| Stripping::off(&options.interface)).flatten();
    let program = redirect.attach(index, attempt.mode).map_err(during("attach an XDP program"))?;
    let lost_tags = if puts_back { None } else { lost_tags(&options.interface, interface, is_software) };
    Ok(Bound {
        queues,
        held: Held { _program: program, _stripping: stripping, _promiscuous: promiscuous },
        lost_tags,
    })
}

/// The error if no mode works.
fn refused(name: &str, options: &AfXdpOptions, refusals: &[(&'static str, Refusal)]) -> PortError {
    let why: Vec<String> =
        refusals.iter().map(|(mode, (what, error))| format!("{mode}: {what}: {error}")).collect();
    let last = refusals.last().and_then(|(_, (_, error))| Errno::from_io_error(error));
    let remedy = match last {
        Some(Errno::PERM | Errno::ACCESS) => {
            "run as root, or with CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF (kernels before 5.8: CAP_SYS_ADMIN)"
                .into()
        }
        Some(Errno::BUSY) => format!(
            "another program has this queue, or an XDP program is attached already: end that (ip link set {name} xdp \
             off), or take other queues (start-queue=N)"
        ),
        Some(Errno::INVAL) => format!(
            "see that {name} has queues {} to {} (ethtool -l {name}), and an MTU that its driver takes with XDP",
            options.start_queue,
            options.start_queue + options.queue_pairs - 1
        ),
        Some(Errno::NOBUFS | Errno::NOMEM) => {
            "raise the limit of locked memory (ulimit -l), or lower queue-size or queue-pairs".into()
        }
        Some(Errno::AFNOSUPPORT) => "use a kernel with CONFIG_XDP_SOCKETS, 5.9 or later".into(),
        Some(Errno::OPNOTSUPP) => "use xdp-mode=best-effort: this driver has not all modes".into(),
        _ => "see the kernel's log".into(),
    };
    PortError::new(format!("open interface {name} by AF_XDP"), why.join("; "), remedy)
}

/// Queues whose frames go elsewhere, frames that are too long, and tags that are lost.
fn warning(
    options: &AfXdpOptions,
    interface: &Interface,
    mtu: u32,
    chunk_bytes: u32,
    lost_tags: Option<String>,
) -> Option<String> {
    let name = &options.interface;
    let mut text = Vec::new();
    let (first, end) = (u32::from(options.start_queue), u32::from(options.start_queue + options.queue_pairs));
    if let Ok(all) = interface.receive_queues()
        && (first > 0 || end < all)
    {
        text.push(format!(
            "frames of its other queues ({all} in all) stay with the kernel: take them too (queue-pairs={all}), or \
             let it have one (ethtool -L {name} combined 1)"
        ));
    }
    let longest = chunk_bytes - HEADROOM_BYTES - LINK_HEADERS_BYTES;
    if mtu > longest {
        text.push(format!(
            "packets above {longest} bytes are dropped by the kernel: ip link set {name} mtu {longest}"
        ));
    }
    text.extend(lost_tags);
    (!text.is_empty()).then(|| format!("af-xdp {name}: {}", text.join("; ")))
}

/// Readable when an interface is made, changed or removed (rtnetlink(7)).
#[derive(Debug)]
pub(super) struct LinkEvents(SharedFd);

impl LinkEvents {
    /// Subscribes to the changes of links, in a non-blocking socket.
    ///
    /// # Errors
    /// The netlink socket cannot be made or bound, for example at the open-files limit.
    pub fn open() -> io::Result<Self> {
        const RTMGRP_LINK: u32 = 1;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // The protocol of number 0, which `None` stands for, is NETLINK_ROUTE.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, RTMGRP_LINK))?;
        Ok(LinkEvents(socket.into()))
    }

    /// Reads and discards the events; the caller then asks for the present state.
    pub fn forget(&self) {
        let mut start = [0u8; 16];
        // Too many at once are an error and an event all the same.
        while matches!(recv(&self.0, &mut start, RecvFlags::TRUNC), Ok(_) | Err(Errno::NOBUFS)) {}
    }

    pub fn shared(&self) -> &SharedFd {
        &self.0
    }
}
