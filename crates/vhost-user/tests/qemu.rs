//! A stock QEMU as the front-end.
//!
//! With the machine paused (`-S`) there is no driver: no SET_FEATURES, no memory and no started rings.
//! Without `-S` the firmware's network boot (iPXE) has a virtio driver, which goes all the way: it
//! negotiates, shares memory region by region and starts both rings; a reset of the machine stops them.
//! Packed rings and more queues need a guest's driver.
mod common;

use std::io::Write;
use std::process::{Command, Stdio};

use common::device::Device;
use common::programs::{Running, need, need_file};
use common::{End, connect, serve, soon};
use vhost_user::bits::ProtocolFeatures as P;
use vhost_user::session::backend::{BackendSession, Offer};
use vhost_user::socket::{Connection, Listener};
use vhost_user::vring::{RingLayout, VringBase};
use virtio::Features;

/// What QEMU does once it runs.
#[derive(PartialEq)]
enum Machine {
    Paused,
    BootsFromNetwork,
}

fn start(server: bool, socket: &std::path::Path, queues: u16, machine: Machine) -> Running {
    let qemu = need("qemu-system-x86_64", "qemu-system-x86");
    let mode = if server { "server=on,wait=on" } else { "server=off" };
    let chardev = format!("socket,id=c,path={},{mode}", socket.display());
    let vectors = 2 * queues + 2;
    let device = format!("virtio-net-pci,netdev=n,mq=on,vectors={vectors},host_mtu=9000");
    let args = ["-machine", "pc,accel=tcg,memory-backend=m", "-m", "64", "-display", "none"];
    let (paused, boot) = match machine {
        Machine::Paused => (&["-S"][..], ",romfile="),
        Machine::BootsFromNetwork => (&[][..], ",bootindex=1"),
    };
    Running::start(
        Command::new(qemu)
            .args(paused)
            .args(["-monitor", "stdio"])
            .stdout(Stdio::null())
            .args(["-nodefaults", "-object", "memory-backend-memfd,id=m,size=64M,share=on"])
            .args(args)
            .args(["-chardev", &chardev, "-netdev"])
            .arg(format!("vhost-user,id=n,chardev=c,queues={queues}"))
            .args(["-device", &format!("{device}{boot}")]),
    )
}

/// STATUS is left out: QEMU 7.2's network device does not speak it.
fn session(queues: u16) -> BackendSession {
    let features = Features::VERSION_1 | Features::RING_PACKED | Features::VHOST_LOG_ALL;
    let features = features | Features::from_bits_retain(1 << 3 | 1 << 15 | 1 << 22);
    let protocol = P::HANDLED.difference(P::STATUS);
    BackendSession::new(Offer::new(features, protocol, 2 * queues).unwrap().report_queues(queues))
}

fn talk(mut connection: Connection, queues: u16) {
    let mut session = session(queues);
    let mut device = Device::default();
    // The last thing that QEMU does here is to enable the first queue pair.
    let enables = 2 * usize::from(queues);
    let end = serve(&mut connection, &mut session, &mut device, |device| {
        device.messages.iter().filter(|id| **id == 18).count() >= 2
            && device.messages.iter().filter(|id| **id == 13).count() >= enables
    });
    println!("QEMU said {:?}, events {:?}", device.messages, device.log);
    assert!(matches!(end, End::Enough), "{end:?} after {:?} {:?}", device.messages, device.log);
    let said = |id: u32| device.messages.contains(&id);
    // GET_FEATURES, SET_OWNER, GET and SET_PROTOCOL_FEATURES, GET_QUEUE_NUM, GET_MAX_MEM_SLOTS,
    // SET_BACKEND_REQ_FD, SET_VRING_CALL, SET_VRING_ERR, SET_VRING_ENABLE.
    for id in [1, 3, 15, 16, 17, 36, 21, 13, 14, 18] {
        assert!(said(id), "no message {id} in {:?}", device.messages);
    }
    let agreed = session.agreed().protocol;
    let wanted = P::MQ | P::LOG_SHMFD | P::REPLY_ACK | P::BACKEND_REQ | P::CONFIGURE_MEM_SLOTS;
    assert!(agreed.contains(wanted), "{agreed:?}");
    assert!(device.channel.is_some());
    device.assert_nothing_rejected();
}

#[test]
fn qemu_connects_to_our_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vhost.sock");
    let listener = Listener::bind(&path).unwrap();
    let _qemu = start(false, &path, 2, Machine::Paused);
    talk(listener.accept(soon()).unwrap(), 2);
}

#[test]
fn we_connect_to_qemus_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vhost.sock");
    let _qemu = start(true, &path, 1, Machine::Paused);
    talk(connect(&path), 1);
}

/// The driver in the firmware starts both rings, and a reset of the machine stops them.
#[test]
fn the_firmwares_driver_starts_and_stops_its_rings() {
    need_file("/usr/lib/ipxe/qemu/efi-virtio.rom", "ipxe-qemu");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vhost.sock");
    let listener = Listener::bind(&path).unwrap();
    let mut qemu = start(false, &path, 1, Machine::BootsFromNetwork);
    let mut connection = listener.accept(soon()).unwrap();
    let (mut session, mut device) = (session(1), Device::default());
    let end = serve(&mut connection, &mut session, &mut device, |device| {
        device.rings.len() == 2 && device.rings.values().all(|ring| ring.enabled)
    });
    println!("QEMU said {:?}, events {:?}", device.messages, device.log);
    assert!(matches!(end, End::Enough), "{end:?} after {:?} {:?}", device.messages, device.log);
    assert_eq!(device.mtu, 9000);
    for ring in device.rings.values() {
        assert_eq!(ring.config.layout, RingLayout::Split);
        assert_eq!(ring.config.base, VringBase::start(RingLayout::Split));
        assert!(device.shares(ring.config.addresses));
    }
    qemu.0.stdin.as_mut().unwrap().write_all(b"system_reset\n").unwrap();
    let end = serve(&mut connection, &mut session, &mut device, |device| device.rings.is_empty());
    println!("QEMU said {:?}, events {:?}", device.messages, device.log);
    assert!(matches!(end, End::Enough), "{end:?} after {:?} {:?}", device.messages, device.log);
    device.assert_nothing_rejected();
}
