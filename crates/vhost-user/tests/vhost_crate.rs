//! The `vhost` crate of rust-vmm as the peer, at either end. It lacks RARP, MTU, STATUS, IOTLB and
//! in-band messages; everything else that both speak is said.
mod common;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;

use common::device::Device;
use common::driver::{Driver, REGION_BYTES, USER_ADDRESS, guest_memory, region};
use common::{End, fd, serve};
use vhost::vhost_user::message::*;
use vhost::vhost_user::{
    BackendReqHandler, Frontend, GpuBackend, Result as VhostResult, VhostUserBackendReqHandlerMut,
    VhostUserFrontend,
};
use vhost::{
    VhostBackend, VhostUserDirtyLogRegion, VhostUserMemoryRegionBase, VhostUserMemoryRegionInfo,
    VringConfigData,
};
use vhost_user::bits::ProtocolFeatures as P;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::*;
use vhost_user::session::backend::{BackendSession, Offer};
use vhost_user::session::frontend::Answer;
use vhost_user::socket::SocketError;
use vhost_user::vring::VringBase;
use virtio::Features;
use vmm_sys_util::eventfd::EventFd;

const FEATURES: u64 = 1 << 32 | 1 << 30 | 1 << 26;

/// Their front-end goes through a life with our back-end.
fn their_front_end(protocol: VhostUserProtocolFeatures) -> Device {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let backend = thread::spawn(move || {
        let offer = Offer::new(Features::from_bits_retain(FEATURES), P::HANDLED, 2).unwrap();
        let (mut session, mut device) = (BackendSession::new(offer), Device::default());
        let end = serve(&mut ours.into(), &mut session, &mut device, |_| false);
        assert!(matches!(end, End::Socket(SocketError::Closed)), "{end:?} {:?}", device.log);
        device
    });
    let mut front = Frontend::from_stream(theirs, 2);
    front.set_owner().unwrap();
    assert_eq!(front.get_features().unwrap(), FEATURES);
    front.set_features(FEATURES).unwrap();
    let offered = front.get_protocol_features().unwrap();
    front.set_protocol_features(offered & protocol).unwrap();
    if protocol.contains(VhostUserProtocolFeatures::REPLY_ACK) {
        front.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
    }
    assert_eq!(front.get_queue_num().unwrap(), 2);
    let memory = guest_memory();
    let info = VhostUserMemoryRegionInfo {
        guest_phys_addr: 0,
        memory_size: REGION_BYTES,
        userspace_addr: USER_ADDRESS,
        mmap_offset: 0,
        mmap_handle: memory.as_raw_fd(),
    };
    if protocol.contains(VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS) {
        assert_eq!(front.get_max_mem_slots().unwrap(), 509);
        front.add_mem_region(&info).unwrap();
        front.remove_mem_region(&info).unwrap();
        front.add_mem_region(&info).unwrap();
    } else {
        front.set_mem_table(&[info]).unwrap();
    }
    let log = fd();
    let area = VhostUserDirtyLogRegion { mmap_size: 4096, mmap_offset: 0, mmap_handle: log.as_raw_fd() };
    front.set_log_base(0, Some(area)).unwrap();
    front.set_log_fd(log.as_raw_fd()).unwrap();
    let event = EventFd::new(0).unwrap();
    for queue in 0..2 {
        front.set_vring_num(queue, 256).unwrap();
        let base = USER_ADDRESS + 0x10000 * queue as u64;
        let config = VringConfigData {
            queue_max_size: 256,
            queue_size: 256,
            flags: 0,
            desc_table_addr: base,
            used_ring_addr: base + 0x2000,
            avail_ring_addr: base + 0x1000,
            log_addr: None,
        };
        front.set_vring_addr(queue, &config).unwrap();
        front.set_vring_base(queue, 42).unwrap();
        front.set_vring_call(queue, &event).unwrap();
        front.set_vring_err(queue, &event).unwrap();
        front.set_vring_kick(queue, &event).unwrap();
        front.set_vring_enable(queue, true).unwrap();
    }
    for queue in 0..2 {
        assert_eq!(front.get_vring_base(queue).unwrap(), 42);
    }
    if protocol.contains(VhostUserProtocolFeatures::CONFIG) {
        let flags = VhostUserConfigFlags::WRITABLE;
        let (_, bytes) = front.get_config(0x100, 4, flags, &[0; 4]).unwrap();
        assert_eq!(bytes, [0xa5; 4]);
        front.set_config(0x100, flags, &[1; 4]).unwrap();
        let asked = VhostUserInflight { num_queues: 2, queue_size: 256, ..Default::default() };
        let (inflight, file) = front.get_inflight_fd(&asked).unwrap();
        assert_eq!(inflight.mmap_size, 8320);
        front.set_inflight_fd(&inflight, file.as_raw_fd()).unwrap();
        front.check_device_state().unwrap();
        let (direction, phase) = (VhostTransferStateDirection::SAVE, VhostTransferStatePhase::STOPPED);
        assert!(front.set_device_state_fd(direction, phase, fd()).unwrap().is_some());
        let (channel, _kept) = UnixStream::pair().unwrap();
        front.set_backend_request_fd(&channel).unwrap();
        front.reset_device().unwrap();
    }
    drop(front);
    backend.join().unwrap()
}

#[test]
fn their_front_end_lives_with_our_back_end() {
    use VhostUserProtocolFeatures as V;
    let base = V::MQ | V::LOG_SHMFD;
    for protocol in [base, base | V::REPLY_ACK, base | V::REPLY_ACK | V::CONFIGURE_MEM_SLOTS, V::all()] {
        let device = their_front_end(protocol);
        let count = |what: &str| device.log.iter().filter(|entry| entry.starts_with(what)).count();
        let counts = (count("started"), count("stopped"), count("enabled"), count("log"), count("rejected"));
        assert_eq!(counts, (2, 2, 2, 1, 0), "{protocol:?} {:?}", device.log);
    }
}

/// Their back-end: keeps what it is told about rings.
#[derive(Default)]
struct Theirs {
    started: Vec<u8>,
    enabled: Vec<u32>,
    bases: [u32; 4],
    regions: usize,
    inflight: bool,
    log: bool,
}

#[rustfmt::skip]
impl VhostUserBackendReqHandlerMut for Theirs {
    fn set_owner(&mut self) -> VhostResult<()> { Ok(()) }
    fn reset_owner(&mut self) -> VhostResult<()> { Ok(()) }
    fn reset_device(&mut self) -> VhostResult<()> { Ok(()) }
    fn get_features(&mut self) -> VhostResult<u64> { Ok(FEATURES) }
    fn set_features(&mut self, _: u64) -> VhostResult<()> { Ok(()) }
    fn set_mem_table(&mut self, regions: &[VhostUserMemoryRegion], files: Vec<File>, _: Option<bool>) -> VhostResult<Option<Vec<VhostUserMemoryRegionBase>>> {
        assert_eq!(regions.len(), files.len());
        self.regions += regions.len();
        Ok(None)
    }
    fn set_vring_num(&mut self, _: u32, num: u32) -> VhostResult<()> { assert_eq!(num, 256); Ok(()) }
    fn set_vring_addr(&mut self, index: u32, _: VhostUserVringAddrFlags, descriptor: u64, used: u64, available: u64, _: u64) -> VhostResult<()> {
        let base = USER_ADDRESS + 0x10000 * u64::from(index);
        assert_eq!((descriptor, used, available), (base, base + 0x2000, base + 0x1000));
        Ok(())
    }
    fn set_vring_base(&mut self, index: u32, base: u32) -> VhostResult<()> { self.bases[index as usize] = base; Ok(()) }
    fn get_vring_base(&mut self, index: u32) -> VhostResult<VhostUserVringState> { Ok(VhostUserVringState::new(index, self.bases[index as usize])) }
    fn set_vring_kick(&mut self, index: u8, fd: Option<File>) -> VhostResult<()> { assert!(fd.is_some()); self.started.push(index); Ok(()) }
    fn set_vring_call(&mut self, _: u8, fd: Option<File>) -> VhostResult<()> { assert!(fd.is_some()); Ok(()) }
    fn set_vring_err(&mut self, _: u8, fd: Option<File>) -> VhostResult<()> { assert!(fd.is_none()); Ok(()) }
    fn get_protocol_features(&mut self) -> VhostResult<VhostUserProtocolFeatures> { Ok(VhostUserProtocolFeatures::all()) }
    fn set_protocol_features(&mut self, _: u64) -> VhostResult<()> { Ok(()) }
    fn get_queue_num(&mut self) -> VhostResult<u64> { Ok(4) }
    fn set_vring_enable(&mut self, index: u32, enable: bool) -> VhostResult<()> { assert!(enable); self.enabled.push(index); Ok(()) }
    fn get_config(&mut self, _: u32, size: u32, _: VhostUserConfigFlags) -> VhostResult<Vec<u8>> { Ok(vec![7; size as usize]) }
    fn set_config(&mut self, _: u32, bytes: &[u8], _: VhostUserConfigFlags) -> VhostResult<()> { assert_eq!(bytes, [7; 4]); Ok(()) }
    fn set_gpu_socket(&mut self, _: GpuBackend) -> VhostResult<()> { unreachable!("never sent") }
    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> VhostResult<File> { unreachable!("never sent") }
    fn get_inflight_fd(&mut self, inflight: &VhostUserInflight) -> VhostResult<(VhostUserInflight, File)> {
        Ok((VhostUserInflight { mmap_size: 8320, ..*inflight }, File::from(fd())))
    }
    fn set_inflight_fd(&mut self, inflight: &VhostUserInflight, _: File) -> VhostResult<()> { self.inflight = inflight.mmap_size == 8320; Ok(()) }
    fn get_max_mem_slots(&mut self) -> VhostResult<u64> { Ok(32) }
    fn add_mem_region(&mut self, _: &VhostUserSingleMemoryRegion, _: File, _: Option<bool>) -> VhostResult<Option<VhostUserMemoryRegionBase>> { self.regions += 1; Ok(None) }
    fn remove_mem_region(&mut self, _: &VhostUserSingleMemoryRegion) -> VhostResult<()> { self.regions -= 1; Ok(()) }
    fn set_device_state_fd(&mut self, _: VhostTransferStateDirection, _: VhostTransferStatePhase, _: File) -> VhostResult<Option<File>> { Ok(None) }
    fn check_device_state(&mut self) -> VhostResult<()> { Ok(()) }
    fn get_shmem_config(&mut self) -> VhostResult<VhostUserShMemConfig> { unreachable!("never sent") }
    fn set_log_base(&mut self, log: &VhostUserLog, _: File) -> VhostResult<()> { self.log = log.mmap_size == 4096; Ok(()) }
}

#[test]
fn our_front_end_lives_with_their_back_end() {
    let base = P::MQ | P::LOG_SHMFD;
    for protocol in [base, base | P::REPLY_ACK, P::HANDLED.difference(P::CONFIGURE_MEM_SLOTS), P::HANDLED] {
        let (ours, socket) = UnixStream::pair().unwrap();
        let device = Arc::new(Mutex::new(Theirs::default()));
        let handler = device.clone();
        let backend = thread::spawn(move || {
            let mut handler = BackendReqHandler::from_stream(socket, handler);
            loop {
                match handler.handle_request() {
                    Ok(()) => {}
                    Err(vhost::vhost_user::Error::Disconnected) => break,
                    Err(error) => panic!("their back-end: {error}"),
                }
            }
        });
        let mut driver = Driver::new(ours.into());
        driver.negotiate(Features::from_bits_retain(FEATURES), protocol);
        let Some(Answer::Number { value: 4, .. }) = driver.ask(Request::GetQueueNum, vec![]) else {
            panic!()
        };
        driver.share_memory();
        driver.ask(Request::SetLogBase(LogArea { size_bytes: 4096, offset: 0 }), vec![fd()]);
        for index in 0..4 {
            driver.start_ring(index, 42);
            driver.ask(Request::SetVringErr(VringFd { index, has_fd: false }), vec![]);
        }
        for index in 0..4 {
            assert_eq!(driver.stop_ring(index), VringBase::Split { next_available: 42 });
        }
        let whole = protocol.contains(P::CONFIG);
        if whole {
            let access = |byte| ConfigAccess { offset: 0x100, migration: false, bytes: vec![byte; 4] };
            let Some(Answer::Config(Some(bytes))) = driver.ask(Request::GetConfig(access(0)), vec![]) else {
                panic!()
            };
            assert_eq!(bytes, [7; 4]);
            driver.ask(Request::SetConfig(access(7)), vec![]);
            let asked = Inflight { size_bytes: 0, offset: 0, queue_count: 2, queue_size: 256 };
            let Some(Answer::Inflight(given, file)) = driver.ask(Request::GetInflightFd(asked), vec![])
            else {
                panic!()
            };
            let file = std::os::fd::AsFd::as_fd(&file).try_clone_to_owned().unwrap();
            driver.ask(Request::SetInflightFd(given), vec![file]);
            let load = DeviceStateTransfer { direction: StateDirection::Load };
            let Some(Answer::StateChannel(None)) = driver.ask(Request::SetDeviceStateFd(load), vec![fd()])
            else {
                panic!()
            };
            driver.ask(Request::CheckDeviceState, vec![]);
            driver.ask(Request::SetBackendReqFd, vec![UnixStream::pair().unwrap().0.into()]);
            driver.ask(Request::ResetDevice, vec![]);
        }
        let slots = protocol.contains(P::CONFIGURE_MEM_SLOTS);
        if slots {
            driver.ask(Request::RemMemReg(SingleRegion(region())), vec![]);
        }
        drop(driver);
        backend.join().unwrap();
        let device = device.lock().unwrap();
        assert_eq!((&device.started[..], &device.enabled[..]), (&[0, 1, 2, 3][..], &[0, 1, 2, 3][..]));
        assert_eq!(device.regions, usize::from(!slots));
        assert_eq!((device.inflight, device.log), (whole, true));
    }
}
