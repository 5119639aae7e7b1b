//! Paths whose near end is a guest: what QEMU is connected to.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path as FilePath;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use measure::Failure;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use super::card::LentCard;
use super::path::{FAR_ADDRESS, NEAR_ADDRESS};
use super::switch::BehindRelay;
use super::{Card, GuestNic, Layer, Namespace, OvsDpdk, Path, Switch, UserSpaceSwitch};
use crate::vm::Nic;
use crate::{Folder, Start};

/// Locally administered.
const MAC: &str = "02:00:00:00:13:01";
const TAP: &str = "tap0";
const MACVTAP: &str = "macvtap0";
const VHOST_NET: &str = "/dev/vhost-net";

/// The host's part of a path, for a guest that is not started yet.
pub struct GuestPath {
    pub path: Path,
    /// The guest's interface.
    pub nic: Nic,
    /// The folder with the switch's socket.
    pub folder: Option<Folder>,
    /// The card that the host has assigned to the guest.
    pub card: Option<LentCard>,
}

impl GuestPath {
    /// Builds the host's part of a path into a guest with this network interface.
    ///
    /// # Errors
    /// A device, a program or a card that the path needs is missing, or the kernel or one of its tools refuses a
    /// device.
    pub fn build(
        nic: GuestNic,
        layers: &[Layer],
        is_emulated: bool,
        card: Option<&Card>,
        start: &Start<'_>,
    ) -> Result<Self, Failure> {
        if nic == GuestNic::VhostNet && !FilePath::new(VHOST_NET).exists() {
            return Err(Failure::new(
                format!("opening {VHOST_NET}"),
                "No such file or directory",
                "load vhost_net as root (modprobe vhost_net), with a kernel that has it",
            ));
        }
        let vhost = if nic == GuestNic::VhostNet { "on" } else { "off" };
        let of_tap = format!("tap,id=net,ifname={TAP},script=no,downscript=no,vhost={vhost}");
        let near = Arc::new(Namespace::new()?);
        match layers {
            [Layer::Tap] => {
                near.tap(TAP)?;
                near.ip(&format!("address add {FAR_ADDRESS}/24 dev {TAP}"))?;
                Self::joined(nic, Arc::clone(&near), near, &["-netdev", &of_tap])
            }
            [Layer::Veth, Layer::Bridge] => {
                let far = Arc::new(near.sibling()?);
                near.tap(TAP)?;
                near.ip("link add br0 type bridge")?;
                near.ip(&format!("link add port1 type veth peer name eth0 netns {}", far.holder()))?;
                for port in [TAP, "port1"] {
                    near.ip(&format!("link set {port} master br0 up"))?;
                }
                near.ip("link set br0 up")?;
                far.ip("link set eth0 up")?;
                far.ip(&format!("address add {FAR_ADDRESS}/24 dev eth0"))?;
                Self::joined(nic, near, far, &["-netdev", &of_tap])
            }
            [Layer::Veth, Layer::Macvtap] => {
                let far = Arc::new(near.sibling()?);
                near.ip(&format!("link add eth0 type veth peer name eth0 netns {}", far.holder()))?;
                for end in [&near, &far] {
                    end.ip("link set eth0 up")?;
                }
                far.ip(&format!("address add {FAR_ADDRESS}/24 dev eth0"))?;
                near.ip(&format!(
                    "link add link eth0 name {MACVTAP} address {MAC} type macvtap mode bridge"
                ))?;
                near.ip(&format!("link set {MACVTAP} up"))?;
                let device = Arc::new(open_macvtap(&near, start)?);
                let netdev = format!("tap,id=net,fd={},vhost={vhost}", device.as_raw_fd());
                let mut built = Self::joined(nic, near, far, &["-netdev", &netdev])?;
                built.nic.inherited = Some(device);
                Ok(built)
            }
            [Layer::Switch] => {
                let folder = folder(start)?;
                let socket = folder.path().join("vhost-user");
                let switch = UserSpaceSwitch::Tautline(Switch::to_guest(&socket, &near, start.agent)?);
                let far_device = Switch::FAR_DEVICE.into();
                let served = SwitchForGuest { switch, chardev: chardev(&socket), folder, far_device };
                Self::at_switch(nic, near, served, is_emulated)
            }
            [Layer::Vduse] => {
                let folder = folder(start)?;
                let socket = folder.path().join("vhost-user");
                let BehindRelay { switch, far_device } = Switch::behind_relay(&socket, &near, start.agent)?;
                let switch = UserSpaceSwitch::Tautline(switch);
                let served = SwitchForGuest { switch, chardev: chardev(&socket), folder, far_device };
                Self::at_switch(nic, near, served, is_emulated)
            }
            [Layer::OvsDpdk] => {
                let folder = folder(start)?;
                let socket = folder.path().join("vhost-user");
                let switch = OvsDpdk::to_guest(&socket, folder.path(), &near, start.cpus)?;
                let switch = UserSpaceSwitch::OvsDpdk(switch);
                // Open vSwitch connects.
                let chardev = format!("{},server=on,wait=off", chardev(&socket));
                let served =
                    SwitchForGuest { switch, chardev, folder, far_device: OvsDpdk::FAR_DEVICE.into() };
                Self::at_switch(nic, near, served, is_emulated)
            }
            [Layer::Wire] => {
                let card = card.ok_or_else(|| {
                    Failure::new("handing on a network card", "none was named", "name one with --assign")
                })?;
                let far = Arc::new(near.sibling()?);
                let lent = LentCard::take(card, &far, start.janitor)?;
                far.ip(&format!("address add {FAR_ADDRESS}/24 dev {}", card.far))?;
                far.ip(&format!("link set {} up", card.far))?;
                let device = vec!["-device".to_owned(), card.assignment.device()];
                let mut built = Self::with_arguments(near, far, device, &lent.drivers)?;
                built.card = Some(lent);
                Ok(built)
            }
            _ => Err(Failure::new(
                format!("building a network path into a guest from {layers:?}"),
                "no guest is joined to these",
                "name tap, veth and bridge, veth and macvtap, switch, vduse, ovs-dpdk or wire",
            )),
        }
    }

    /// With a vhost-user back-end in user space, which is in the namespace of the far end.
    fn at_switch(
        nic: GuestNic,
        near: Arc<Namespace>,
        served: SwitchForGuest,
        is_emulated: bool,
    ) -> Result<Self, Failure> {
        let SwitchForGuest { switch, chardev, folder, far_device } = served;
        near.ip(&format!("address add {FAR_ADDRESS}/24 dev {far_device}"))?;
        let back_end = ["-chardev", &chardev, "-netdev", "vhost-user,id=net,chardev=switch"];
        let mut built = Self::joined(nic, Arc::clone(&near), near, &back_end)?;
        built.nic.shares_memory = true;
        if is_emulated {
            let device = built.nic.arguments.last_mut().expect("the card is the last");
            device.push_str(Nic::WITHOUT_VECTORS);
        }
        built.path.switch = Some(switch);
        built.folder = Some(folder);
        Ok(built)
    }

    /// QEMU runs in `near`.
    fn joined(
        nic: GuestNic,
        near: Arc<Namespace>,
        far: Arc<Namespace>,
        back_end: &[&str],
    ) -> Result<Self, Failure> {
        // Without the card's boot ROM, which is in a package of its own.
        let device = format!("{},netdev=net,mac={MAC},romfile=", nic.device());
        let arguments = back_end.iter().copied().chain(["-device", &device]).map(str::to_owned).collect();
        Self::with_arguments(near, far, arguments, nic.drivers())
    }

    fn with_arguments(
        near: Arc<Namespace>,
        far: Arc<Namespace>,
        arguments: Vec<String>,
        drivers: &[impl ToString],
    ) -> Result<Self, Failure> {
        let enter = near.entering()?;
        let enter =
            std::iter::once(enter.get_program()).chain(enter.get_args()).map(OsString::from).collect();
        let nic = Nic {
            enter,
            arguments,
            inherited: None,
            shares_memory: false,
            drivers: drivers.iter().map(ToString::to_string).collect(),
            address: (NEAR_ADDRESS, 24),
        };
        let path = Path { switch: None, near, far, middle: None };
        Ok(GuestPath { path, nic, folder: None, card: None })
    }
}

/// A folder of this path alone.
/// A switch in user space that is started and serves a guest.
struct SwitchForGuest {
    switch: UserSpaceSwitch,
    /// QEMU's `-chardev` to it.
    chardev: String,
    /// The folder with its socket.
    folder: Folder,
    /// Its interface in the far end's namespace.
    far_device: String,
}

/// QEMU's `-chardev` for the end of a switch's socket that connects.
fn chardev(socket: &FilePath) -> String {
    format!("socket,id=switch,path={}", socket.display())
}

fn folder(start: &Start<'_>) -> Result<Folder, Failure> {
    static PATHS: AtomicU32 = AtomicU32::new(0);
    let number = PATHS.fetch_add(1, Ordering::Relaxed);
    Folder::make(&format!("net{number}"), start.janitor)
}

/// Opens a macvtap's device file. No program makes it for the namespace, so it is made here and removed once it is
/// open.
fn open_macvtap(namespace: &Namespace, start: &Start<'_>) -> Result<OwnedFd, Failure> {
    let failed = |tried: &str, answer: String| Failure::new(tried, answer, "run as root");
    let tried = format!("looking for the device of {MACVTAP}");
    let script = format!(
        "mount -t sysfs sysfs /sys && cd /sys/class/net/{MACVTAP} && cat tap*/dev macvtap/tap*/dev 2>/dev/null; :"
    );
    let mut command = namespace.command("unshare")?;
    command.args(["--mount", "sh", "-c", &script]).stdin(Stdio::null());
    let output = command.output().map_err(|error| failed(&tried, error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text.split_whitespace().next().and_then(|word| {
        let (major, minor) = word.split_once(':')?;
        Some(makedev(major.parse().ok()?, minor.parse().ok()?))
    });
    let said = String::from_utf8_lossy(&output.stderr);
    let number = number.ok_or_else(|| failed(&tried, format!("not found: {}", said.trim())))?;
    let folder = folder(start)?;
    let file = folder.path().join(MACVTAP);
    let tried = format!("making the device file of {MACVTAP}");
    mknodat(CWD, &file, FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, number)
        .map_err(|error| failed(&tried, error.to_string()))?;
    let opened = File::options().read(true).write(true).open(&file);
    opened
        .map(OwnedFd::from)
        .map_err(|error| failed("opening the device file of a macvtap", error.to_string()))
}
