use super::*;
use crate::codec::backend_request::BackendRequest;
use crate::codec::frontend_request::MacAddress;
use crate::codec::payload::{ConfigAccess, DeviceStateTransfer, Inflight, StateDirection, VringArea};
use crate::vring::RingLayout;

#[test]
fn rarp_and_mtu_reach_the_device() {
    let mut session = with_memory();
    let address = MacAddress([2, 0, 0, 0, 0, 1]);
    let rarp = event(&mut session, Request::SendRarp(address), vec![]);
    assert!(matches!(rarp, Event::RarpRequested { address: MacAddress([2, 0, 0, 0, 0, 1]), .. }));
    let _ = session.answer(done(rarp), Ok(())).unwrap();
    pass(&mut session, Request::NetSetMtu(9000), vec![]);
    reject(&mut session, Request::NetSetMtu(67), vec![], "MTU");
    reject(&mut session, Request::NetSetMtu(65536), vec![], "MTU");
}

#[test]
fn configuration_is_read_and_written() {
    let mut session = with_memory();
    let access = ConfigAccess { offset: 4, migration: false, bytes: vec![0; 2] };
    let read = || Request::GetConfig(access.clone());
    let Event::ConfigRead { offset: 4, size_bytes: 2, answer } = event(&mut session, read(), vec![]) else {
        panic!()
    };
    let reply = session.answer(answer, Ok(vec![7, 8])).unwrap().reply.unwrap();
    assert_eq!(reply.payload[12..], [7, 8]);
    // Refused, or of the wrong size: an empty payload.
    for answered in [Err(Refusal::new("no")), Ok(vec![1])] {
        let Event::ConfigRead { answer, .. } = event(&mut session, read(), vec![]) else { panic!() };
        assert!(session.answer(answer, answered).unwrap().reply.unwrap().payload.is_empty());
    }
    let Event::ConfigWritten { migration: false, bytes, done, .. } =
        event(&mut session, Request::SetConfig(access), vec![])
    else {
        panic!()
    };
    assert_eq!(bytes, [0, 0]);
    let _ = session.answer(done, Ok(())).unwrap();
}

#[test]
fn in_flight_buffers_are_made_and_given_back() {
    for (features, layout, size_bytes) in
        [(Features::RING_PACKED, RingLayout::Split, 8320), (Features::empty(), RingLayout::Packed, 16512)]
    {
        let mut session = agreed_without(features);
        let asked = Inflight { size_bytes: 0, offset: 0, queue_count: 2, queue_size: 256 };
        let Event::InflightRequested { layout: found, queue_count: 2, queue_size, answer } =
            event(&mut session, Request::GetInflightFd(asked), vec![])
        else {
            panic!()
        };
        assert_eq!(found, layout);
        let size = crate::inflight::area_bytes(found, 2, queue_size);
        assert_eq!(size, size_bytes);
        let reply = session.answer(answer, Ok((size, 0, fd()))).unwrap().reply.unwrap();
        assert_eq!((number(&reply), reply.fds.len()), (size, 1));

        let given = Inflight { size_bytes, ..asked };
        pass(&mut session, Request::SetInflightFd(given), vec![fd()]);
        let small = Inflight { size_bytes: size_bytes - 1, ..asked };
        reject(&mut session, Request::SetInflightFd(small), vec![fd()], "size");
        let beyond = Inflight { offset: u64::MAX, ..given };
        reject(&mut session, Request::SetInflightFd(beyond), vec![fd()], "offset");
        let many = Inflight { queue_count: 5, ..given };
        reject(&mut session, Request::SetInflightFd(many), vec![fd()], "number of queues");
        let empty = Inflight { queue_size: 0, ..given };
        reject(&mut session, Request::SetInflightFd(empty), vec![fd()], "queue size");
    }
}

#[test]
fn in_flight_buffers_are_not_swapped_under_running_queues() {
    let mut session = running();
    let given = Inflight { size_bytes: 1 << 20, offset: 0, queue_count: 2, queue_size: 256 };
    reject(&mut session, Request::SetInflightFd(given), vec![fd()], "queues");
}

#[test]
fn reset_stops_and_disables_all_rings() {
    let mut session = running();
    pass(&mut session, Request::SetVringEnable(VringState { index: 0, num: 1 }), vec![]);
    pass(&mut session, Request::ResetDevice, vec![]);
    assert!(session.rings.iter().all(|ring| !ring.is_started() && !ring.enabled));
    assert_eq!(session.agreed().features, Features::empty());
    assert_eq!(session.memory.len(), 1, "the session itself goes on");
}

#[test]
fn status_goes_both_ways() {
    let mut session = with_memory();
    pass(&mut session, Request::SetStatus(0x0f), vec![]);
    reject(&mut session, Request::SetStatus(0x100), vec![], "status");
    let Event::StatusRead { answer } = event(&mut session, Request::GetStatus, vec![]) else { panic!() };
    assert_eq!(number(&session.answer(answer, DeviceStatus(0x0b)).unwrap().reply.unwrap()), 0x0b);
}

#[test]
fn device_state_goes_over_one_of_two_descriptors() {
    let mut session = with_memory();
    let save = || Request::SetDeviceStateFd(DeviceStateTransfer { direction: StateDirection::Save });
    for (channel, value, fds) in [
        (StateChannel::Offered, 0x100, 0),
        (StateChannel::Replaced(fd()), 0, 1),
        (StateChannel::Refused(Refusal::new("no")), 0x101, 0),
    ] {
        let Event::DeviceStateTransfer { direction: StateDirection::Save, answer, .. } =
            event(&mut session, save(), vec![fd()])
        else {
            panic!()
        };
        let reply = session.answer(answer, channel).unwrap().reply.unwrap();
        assert_eq!((number(&reply), reply.fds.len()), (value, fds));
    }
    pass(&mut session, Request::CheckDeviceState, vec![]);
    reject(&mut running(), save(), vec![fd()], "queue");
}

#[test]
fn the_back_end_asks_over_its_own_socket_only() {
    let mut session = with_memory();
    let config = || BackendRequest::ConfigChange;
    assert!(session.request(config(), vec![]).is_err());
    pass(&mut session, Request::SetBackendReqFd, vec![fd()]);
    let asked = session.request(config(), vec![]).unwrap();
    assert!(asked.header.need_reply);
    let done = session.receive_on_channel(ReplyBody::acknowledge(true).into_message(2)).unwrap();
    assert_eq!(done, ChannelReply { request: "BACKEND_CONFIG_CHANGE_MSG", success: true });
    let error = session.receive_on_channel(ReplyBody::acknowledge(true).into_message(2)).unwrap_err();
    assert!(
        matches!(error, SessionError::Violation(violation) if violation.expected.contains("none is due"))
    );
}

#[test]
fn host_notifiers_carry_a_descriptor_or_say_that_they_do_not() {
    let mut session = with_memory();
    pass(&mut session, Request::SetBackendReqFd, vec![fd()]);
    let area = |has_fd| {
        let vring = VringFd { index: 0, has_fd };
        BackendRequest::VringHostNotifier(VringArea { vring, size_bytes: 4096, offset: 0 })
    };
    assert!(session.request(area(true), vec![]).is_err());
    assert!(session.request(area(false), vec![fd()]).is_err());
    assert_eq!(session.request(area(true), vec![fd()]).unwrap().fds.len(), 1);
    assert!(session.request(area(false), vec![]).unwrap().fds.is_empty());
    assert!(session.request(BackendRequest::VringCall(VringState { index: 0, num: 0 }), vec![]).is_ok());
}
