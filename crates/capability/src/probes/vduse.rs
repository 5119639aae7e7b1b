use std::io::{self, ErrorKind};

use linux::vdpa::{self, Driver};
use linux::vduse::{CONTROL, Control, Device, Name, NewDevice};
use measure::Failure;

use crate::finding::Finding;

/// VERSION_1 and ACCESS_PLATFORM, without which the kernel takes no network device.
const FEATURES: u64 = 1 << 32 | 1 << 33;
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
    let missing = |driver: Driver| (!vdpa::has_driver(driver)).then(|| driver.module());
    let missing: Vec<_> = [Driver::Kernel, Driver::Vhost].into_iter().filter_map(missing).collect();
    let made = "created, opened and destroyed a network device";
    Ok(match missing.as_slice() {
        [] => Finding::proven(format!("{made}; the drivers virtio_vdpa and vhost_vdpa are loaded")),
        missing => Finding::partial(
            format!("{made}; not loaded: {}", missing.join(", ")),
            format!("load the drivers that the port is to have: modprobe {}", missing.join(", modprobe ")),
        ),
    })
}
