//! The codec with any input: round trips, and bytes without meaning.
use proptest::prelude::*;
use vhost_user::bits::ProtocolFeatures;
use vhost_user::codec::Message;
use vhost_user::codec::backend_request::BackendRequest;
use vhost_user::codec::crypto::*;
use vhost_user::codec::frontend_request::{FrontendRequest as Request, MacAddress};
use vhost_user::codec::header::Header;
use vhost_user::codec::payload::*;
use vhost_user::codec::table::{BACKEND_REQUESTS, FRONTEND_REQUESTS, Support};
use virtio::Features;

fn state() -> impl Strategy<Value = VringState> {
    any::<(u32, u32)>().prop_map(|(index, num)| VringState { index, num })
}

fn vring_fd() -> impl Strategy<Value = VringFd> {
    any::<(u8, bool)>().prop_map(|(index, has_fd)| VringFd { index, has_fd })
}

fn region() -> impl Strategy<Value = MemoryRegion> {
    any::<(u64, u64, u64, u64)>().prop_map(|(guest_address, size_bytes, user_address, mmap_offset)| {
        MemoryRegion { guest_address, size_bytes, user_address, mmap_offset }
    })
}

fn address() -> impl Strategy<Value = VringAddress> {
    any::<(u32, bool, u64, u64, u64, u64)>().prop_map(
        |(index, log_used, descriptor, used, available, log)| VringAddress {
            index,
            log_used,
            descriptor,
            used,
            available,
            log,
        },
    )
}

fn iotlb() -> impl Strategy<Value = Iotlb> {
    let kinds = [IotlbKind::Miss, IotlbKind::Update, IotlbKind::Invalidate, IotlbKind::AccessFail];
    (any::<(u64, u64, u64, bool, bool)>(), proptest::sample::select(kinds.to_vec())).prop_map(
        |((iova, size_bytes, user_address, read, write), kind)| Iotlb {
            iova,
            size_bytes,
            user_address,
            access: Access { read, write },
            kind,
        },
    )
}

fn config() -> impl Strategy<Value = ConfigAccess> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..=MAX_CONFIG_BYTES);
    (0..u32::MAX - 256, any::<bool>(), bytes).prop_map(|(offset, migration, bytes)| ConfigAccess {
        offset,
        migration,
        bytes,
    })
}

fn inflight() -> impl Strategy<Value = Inflight> {
    any::<(u64, u64, u16, u16)>().prop_map(|(size_bytes, offset, queue_count, queue_size)| Inflight {
        size_bytes,
        offset,
        queue_count,
        queue_size,
    })
}

fn crypto_session() -> impl Strategy<Value = CreateCryptoSession> {
    let key = |most| proptest::collection::vec(any::<u8>(), 0..=most);
    let keys = (key(MAX_CIPHER_KEY_BYTES), key(MAX_AUTH_KEY_BYTES));
    (keys, any::<[u32; 4]>(), any::<[u8; 4]>(), any::<bool>(), 0u64..0x400).prop_map(
        |((key, auth_key), [cipher, hash, hash_result_bytes, aad_bytes], bytes, operation_first, opcode)| {
            let [operation_type, direction, hash_mode, chain_order] = bytes;
            let form = if operation_first { CryptoForm::OperationFirst } else { CryptoForm::NumberFirst };
            let setup = CryptoSetup {
                opcode: if operation_first { opcode } else { 2 },
                cipher,
                key: SecretKey::new(&key),
                hash,
                hash_result_bytes,
                auth_key: SecretKey::new(&auth_key),
                aad_bytes,
                operation_type,
                direction,
                hash_mode,
                chain_order,
            };
            CreateCryptoSession { form, setup: Some(setup) }
        },
    )
}

fn request() -> impl Strategy<Value = Request> {
    let plain = [
        Request::GetFeatures,
        Request::SetOwner,
        Request::ResetOwner,
        Request::SetLogFd,
        Request::GetProtocolFeatures,
        Request::GetQueueNum,
        Request::SetBackendReqFd,
        Request::PostcopyAdvise,
        Request::PostcopyListen,
        Request::PostcopyEnd,
        Request::ResetDevice,
        Request::GetMaxMemSlots,
        Request::AckMemRegs,
        Request::GetStatus,
        Request::CheckDeviceState,
        Request::SetDeviceStateFd(DeviceStateTransfer { direction: StateDirection::Save }),
        Request::SetDeviceStateFd(DeviceStateTransfer { direction: StateDirection::Load }),
    ];
    let log = any::<(u64, u64)>().prop_map(|(size_bytes, offset)| LogArea { size_bytes, offset });
    let rings = prop_oneof![
        state().prop_map(Request::SetVringNum),
        state().prop_map(Request::SetVringBase),
        state().prop_map(Request::GetVringBase),
        state().prop_map(Request::SetVringEnable),
        state().prop_map(Request::VringKick),
        address().prop_map(Request::SetVringAddr),
        vring_fd().prop_map(Request::SetVringKick),
        vring_fd().prop_map(Request::SetVringCall),
        vring_fd().prop_map(Request::SetVringErr),
    ];
    let memory = prop_oneof![
        proptest::collection::vec(region(), 0..=8)
            .prop_map(|regions| Request::SetMemTable(MemoryTable { regions })),
        region().prop_map(|region| Request::AddMemReg(SingleRegion(region))),
        region().prop_map(|region| Request::RemMemReg(SingleRegion(region))),
        log.prop_map(Request::SetLogBase),
        iotlb().prop_map(Request::IotlbMsg),
    ];
    let device = prop_oneof![
        any::<u64>().prop_map(|bits| Request::SetFeatures(Features::from_bits_retain(bits))),
        any::<u64>().prop_map(|bits| Request::SetProtocolFeatures(ProtocolFeatures::from_bits_retain(bits))),
        any::<[u8; 6]>().prop_map(|mac| Request::SendRarp(MacAddress(mac))),
        any::<u64>().prop_map(Request::NetSetMtu),
        any::<u64>().prop_map(Request::SetStatus),
        config().prop_map(Request::GetConfig),
        config().prop_map(Request::SetConfig),
        crypto_session().prop_map(|create| Request::CreateCryptoSession(Box::new(create))),
        any::<u64>().prop_map(Request::CloseCryptoSession),
        inflight().prop_map(Request::GetInflightFd),
        inflight().prop_map(Request::SetInflightFd),
    ];
    prop_oneof![proptest::sample::select(plain.to_vec()), rings, memory, device]
}

fn back_request() -> impl Strategy<Value = BackendRequest> {
    prop_oneof![
        iotlb().prop_map(BackendRequest::IotlbMsg),
        Just(BackendRequest::ConfigChange),
        (vring_fd(), any::<u64>(), any::<u64>()).prop_map(|(vring, size_bytes, offset)| {
            BackendRequest::VringHostNotifier(VringArea { vring, size_bytes, offset })
        }),
        state().prop_map(BackendRequest::VringCall),
        state().prop_map(BackendRequest::VringErr),
    ]
}

/// As many descriptors as the table asks for at least.
fn fds(count: usize) -> Vec<std::os::fd::OwnedFd> {
    (0..count).map(|_| std::fs::File::open("/dev/null").unwrap().into()).collect()
}

proptest! {
    #[test]
    fn requests_of_the_front_end_go_there_and_back(request in request()) {
        let message = request.to_message(fds(*request.rule().fds.start()));
        prop_assert_eq!(Request::parse(&message), Ok(request));
    }

    #[test]
    fn requests_of_the_back_end_go_there_and_back(request in back_request()) {
        let message = request.to_message(vec![]);
        prop_assert_eq!(BackendRequest::parse(&message), Ok(request));
    }

    /// What parses is what would be written, but for padding and reserved flags.
    #[test]
    fn any_bytes_are_a_request_or_a_violation(
        id in 0u32..50,
        payload in proptest::collection::vec(any::<u8>(), 0..300),
        count in 0usize..3,
    ) {
        let header = Header { id, reply: false, need_reply: false, size: payload.len() as u32 };
        let message = Message { header, payload, fds: fds(count).into_iter().map(Into::into).collect() };
        if let Ok(request) = Request::parse(&message) {
            let again = request.to_message(fds(count));
            prop_assert_eq!(Request::parse(&again), Ok(request));
        }
        if let Ok(request) = BackendRequest::parse(&message) {
            let again = request.to_message(fds(count));
            prop_assert_eq!(BackendRequest::parse(&again), Ok(request));
        }
    }

    #[test]
    fn any_twelve_bytes_are_a_header_or_a_violation(bytes in any::<[u8; 12]>()) {
        if let Ok(header) = Header::parse(bytes) {
            prop_assert_eq!(Header::parse(header.to_bytes()), Ok(header));
        }
    }
}

/// Each handled row has a request that says so itself, and every wrong size is refused.
#[test]
fn the_table_and_the_parser_agree() {
    for rule in &FRONTEND_REQUESTS {
        let mut sizes = Vec::new();
        for size in 0..=1100usize {
            let header = Header { id: rule.id, reply: false, need_reply: false, size: size as u32 };
            let mut payload = vec![0; size];
            // Fields that a payload of zeros cannot have right.
            match rule.id {
                5 if size >= 8 => payload[0] = ((size - 8) / 32) as u8,
                22 if size >= 26 => payload[25] = 2,
                24 | 25 if size >= 12 => {
                    payload[4..8].copy_from_slice(&(size as u32 - 12).to_ne_bytes());
                }
                _ => {}
            }
            let message = Message {
                header,
                payload,
                fds: fds(*rule.fds.start()).into_iter().map(Into::into).collect(),
            };
            match Request::parse(&message) {
                Ok(request) => {
                    assert_eq!(request.rule().id, rule.id);
                    sizes.push(size);
                }
                Err(violation) => assert_eq!(violation.message, rule.name),
            }
        }
        let handled = matches!(rule.support, Support::Handled);
        assert_eq!(!sizes.is_empty(), handled, "{} accepts {sizes:?}", rule.name);
        assert!(sizes.iter().all(|size| rule.shape.sizes().contains(size)), "{}", rule.name);
    }
    for rule in &BACKEND_REQUESTS {
        let header = Header { id: rule.id, reply: false, need_reply: false, size: 999 };
        let message = Message { header, payload: vec![0; 999], fds: vec![] };
        assert_eq!(BackendRequest::parse(&message).unwrap_err().message, rule.name);
    }
}
