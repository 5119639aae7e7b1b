use std::io::{self, ErrorKind};

use linux::vdpa::{self, Driver};
use linux::vduse::{CONTROL, Control, Device, Name, NewDevice};
use measure::Failure;

use crate::finding::Finding;

/// VERSION_1 and ACCESS_PLATFORM, without which the kernel takes no network device.
const FEATURES: u64 = 1 << 32 | 1 << 33;
/// VIRTIO_NET_F_CTRL_VQ, without which a driver has one queue pair (VIRTIO 1.3 §5.1.3).
const CONTROL_QUEUE: u64 = 1 << 17;
/// The versions of the kernel's interface that are tried, the newest first. Version 1 has groups of queues, so that a
/// control queue could have memory of its own.
const VERSIONS: [u64; 2] = [1, 0];
/// A network device (VIRTIO 1.3 §5.1).
const NETWORK: u32 = 1;

/// Creates a network device for the kernel, opens it and destroys it. Does not add the device to the vDPA bus, where it
/// would become an interface.
///
/// # Errors
/// The kernel has no VDUSE, or the device cannot be created, opened or destroyed.
pub fn run() -> Result<Finding, Failure> {
    let control = Control::open().map_err(|error| {
        let remedy = match error.kind() {
            ErrorKind::NotFound => {
                "load the module (`modprobe vduse`); it needs Linux 6.9 or later with CONFIG_VDPA_USER, in Debian 12 \
                 the kernel 6.12 of its security suite (linux-image-6.12-amd64)"
            }
            _ => "run as root; in a container, give it the folder /dev/vduse",
        };
        Failure::new(format!("opening {CONTROL}"), error, remedy)
    })?;
    let text = format!("tautline-probe-{}", std::process::id());
    let name = Name::new(&text).expect("letters, digits and hyphens");
    let device =
        NewDevice { name: &name, device_id: NETWORK, features: FEATURES, queues: 2, config: &[0; 24] };
    let fail = |tried: &str, error: io::Error| {
        let remedy = match error.kind() {
            ErrorKind::InvalidInput => "run Linux 6.9 or later: earlier kernels take block devices only",
            _ => "run as root, or with CAP_NET_ADMIN",
        };
        Failure::new(format!("{tried} a network device"), error, remedy)
    };
    control.create(&device).map_err(|error| fail("creating", error))?;
    let opened = Device::open(&name).map(drop);
    let destroyed = control.destroy(&name);
    opened.map_err(|error| fail("opening", error))?;
    destroyed.map_err(|error| fail("destroying", error))?;
    let queues = queues(&device).map_err(|error| fail("asking about a control queue of", error))?;
    let missing = |driver: Driver| (!vdpa::has_driver(driver)).then(|| driver.module());
    let missing: Vec<_> = [Driver::Kernel, Driver::Vhost].into_iter().filter_map(missing).collect();
    let made = format!("created, opened and destroyed a network device; {queues}");
    Ok(match missing.as_slice() {
        [] => Finding::proven(format!("{made}; the drivers virtio_vdpa and vhost_vdpa are loaded")),
        missing => Finding::partial(
            format!("{made}; not loaded: {}", missing.join(", ")),
            format!("load the drivers that the port is to have: modprobe {}", missing.join(", modprobe ")),
        ),
    })
}

/// What the kernel says of a control queue, in the newest version of its interface that it has.
fn queues(device: &NewDevice<'_>) -> io::Result<String> {
    let newest = VERSIONS.into_iter().find_map(|version| match Control::open_version(version) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => None,
        opened => Some((version, opened)),
    });
    let (version, control) = newest.ok_or(ErrorKind::InvalidInput)?;
    let control = control?;
    let wanted =
        NewDevice { features: device.features | CONTROL_QUEUE, queues: device.queues + 1, ..*device };
    let taken = match control.create(&wanted) {
        Ok(()) => control.destroy(device.name).map(|()| true)?,
        Err(error) if error.kind() == ErrorKind::InvalidInput => false,
        Err(error) => return Err(error),
    };
    Ok(match taken {
        true => {
            format!("version {version} of the interface takes a control queue, which a port does not offer")
        }
        false => format!("version {version} of the interface takes no control queue: one queue pair"),
    })
}
