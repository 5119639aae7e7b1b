use super::*;
use crate::codec::payload::{Access, Iotlb, IotlbKind, LogArea, SingleRegion};

#[test]
fn tables_need_one_descriptor_for_each_region() {
    let mut session = agreed_without(Features::empty());
    reject(&mut session, table(&[region(0), region(1)]), vec![fd()], "file descriptors");
    reject(&mut session, table(&[region(0)]), vec![fd(), fd()], "file descriptors");
    reject(&mut session, table(&[]), vec![], "number of regions");
    let set = event(&mut session, table(&[region(0), region(1)]), vec![fd(), fd()]);
    let Event::MemoryTableSet { regions, done } = set else { panic!() };
    assert_eq!((regions.len(), regions[1].region), (2, region(1)));
    let _ = session.answer(done, Ok(())).unwrap();
}

#[test]
fn regions_are_not_empty_and_overflow_and_overlap_nowhere() {
    let mut session = agreed_without(Features::empty());
    let with = |change: fn(&mut MemoryRegion)| {
        let mut changed = region(1);
        change(&mut changed);
        table(&[region(0), changed])
    };
    let mut refused = |request, field| reject(&mut session, request, vec![fd(), fd()], field);
    refused(with(|region| region.size_bytes = 0), "region size");
    refused(with(|region| region.guest_address = u64::MAX), "guest address");
    refused(with(|region| region.user_address = u64::MAX - 5), "user address");
    refused(with(|region| region.mmap_offset = u64::MAX), "mmap offset");
    refused(with(|region| region.guest_address -= 1), "guest address");
    refused(with(|region| region.user_address -= 1), "user address");
}

#[test]
fn a_refused_table_leaves_the_old_one() {
    let mut session = with_memory();
    reject(&mut session, table(&[region(1), region(1)]), vec![fd(), fd()], "guest address");
    assert_eq!(session.memory.len(), 1);
}

#[test]
fn regions_come_and_go_one_by_one() {
    let mut session = BackendSession::new(offer().limit_mem_slots(2));
    pass(&mut session, Request::SetProtocolFeatures(P::HANDLED), vec![]);
    pass(&mut session, Request::SetOwner, vec![]);
    let Received::Reply(reply) = send(&mut session, Request::GetMaxMemSlots, vec![]) else { panic!() };
    assert_eq!(number(&reply), 2);
    let add = |n| Request::AddMemReg(SingleRegion(region(n)));
    let remove = |n| Request::RemMemReg(SingleRegion(region(n)));
    pass(&mut session, add(0), vec![fd()]);
    let elsewhere = MemoryRegion { mmap_offset: 4096, ..region(0) };
    reject(&mut session, Request::AddMemReg(SingleRegion(elsewhere)), vec![fd()], "guest address");
    reject(&mut session, add(1), vec![], "file descriptors");
    pass(&mut session, add(1), vec![fd()]);
    reject(&mut session, add(2), vec![fd()], "number of regions");
    // Some front-ends pass the descriptor again; the text allows it.
    pass(&mut session, remove(0), vec![fd()]);
    reject(&mut session, remove(0), vec![], "guest address");
    pass(&mut session, add(2), vec![fd()]);
    reject(&mut session, Request::AckMemRegs, vec![], "payload size");
}

#[test]
fn a_region_added_twice_is_there_until_it_was_removed_twice() {
    let mut session = agreed_without(Features::empty());
    let add = || Request::AddMemReg(SingleRegion(region(0)));
    let remove = || Request::RemMemReg(SingleRegion(region(0)));
    pass(&mut session, add(), vec![fd()]);
    // Nothing changes, so there is nothing to do but to say yes.
    let said_yes = |session: &mut BackendSession, request, fds| match send(session, request, fds) {
        Received::Reply(reply) => assert_eq!(number(&reply), 0),
        other => panic!("{other:?}"),
    };
    said_yes(&mut session, add(), vec![fd()]);
    assert_eq!(session.memory.len(), 1);
    said_yes(&mut session, remove(), vec![]);
    assert_eq!(session.memory.len(), 1);
    let removed = event(&mut session, remove(), vec![]);
    let Event::MemoryRegionRemoved { region: gone, done } = removed else { panic!() };
    assert_eq!(gone, region(0));
    let _ = session.answer(done, Ok(())).unwrap();
    reject(&mut session, remove(), vec![], "guest address");
}

#[test]
fn the_log_lies_within_its_file() {
    let mut session = with_memory();
    let log = |size_bytes, offset| Request::SetLogBase(LogArea { size_bytes, offset }).to_message(vec![fd()]);
    let Received::Event(Event::LogSet { area, done, .. }) = session.receive(log(4096, 64)).unwrap() else {
        panic!()
    };
    assert_eq!((area.size_bytes, area.offset), (4096, 64));
    // Always answered, with the request's own payload.
    let reply = session.answer(done, Ok(())).unwrap().reply.unwrap();
    assert_eq!(reply.payload, log(4096, 64).payload);
    pass(&mut session, Request::SetLogFd, vec![fd()]);
    reject(&mut session, Request::SetLogFd, vec![], "file descriptors");
    for (size, offset, field) in [(0, 0, "log size"), (4096, u64::MAX - 4094, "log offset")] {
        let error = with_memory().receive(log(size, offset)).unwrap_err();
        assert!(matches!(error, SessionError::Violation(violation) if violation.field == field));
    }
}

#[test]
fn translations_are_always_acknowledged() {
    let mut session = with_memory();
    let entry = |kind, size_bytes| Iotlb {
        iova: 0xffff_ffff_ffff_f000,
        size_bytes,
        user_address: 0x1000,
        access: Access { read: true, write: false },
        kind,
    };
    let message = Request::IotlbMsg(entry(IotlbKind::Update, 4096)).to_message(vec![]);
    let Received::Event(Event::IotlbChanged { done, .. }) = session.receive(message).unwrap() else {
        panic!()
    };
    assert_eq!(number(&session.answer(done, Ok(())).unwrap().reply.unwrap()), 0);
    reject(&mut session, Request::IotlbMsg(entry(IotlbKind::Update, 4097)), vec![], "size");
    reject(&mut session, Request::IotlbMsg(entry(IotlbKind::Miss, 4096)), vec![], "type");
    let mut without = agreed_without(Features::ACCESS_PLATFORM);
    reject(&mut without, Request::IotlbMsg(entry(IotlbKind::Update, 4096)), vec![], "feature bit");
}

#[test]
fn postcopy_goes_its_way() {
    let mut session = agreed_without(Features::empty());
    reject(&mut session, Request::PostcopyListen, vec![], "id");
    let Event::PostcopyAdvised { answer } = event(&mut session, Request::PostcopyAdvise, vec![]) else {
        panic!()
    };
    let reply = session.answer(answer, Ok(fd())).unwrap().reply.unwrap();
    assert_eq!((reply.payload.len(), reply.fds.len()), (0, 1));
    pass(&mut session, Request::PostcopyListen, vec![]);

    let set = event(&mut session, table(&[region(0)]), vec![fd()]);
    let Event::PostcopyMemorySet { regions, replace: true, answer } = set else { panic!() };
    assert_eq!(regions.len(), 1);
    let reply = session.answer(answer, Ok(vec![0x7000])).unwrap().reply.unwrap();
    let mut mapped = region(0);
    mapped.user_address = 0x7000;
    assert_eq!(reply.payload, table(&[mapped]).payload());
    // Nothing but the acknowledgement may follow.
    reject(&mut session, Request::SetOwner, vec![], "id");
    pass(&mut session, table(&[]), vec![]);

    let set = event(&mut session, Request::AddMemReg(SingleRegion(region(1))), vec![fd()]);
    let Event::PostcopyMemorySet { replace: false, answer, .. } = set else { panic!() };
    let reply = session.answer(answer, Ok(vec![0x9000])).unwrap().reply.unwrap();
    assert_eq!(reply.payload.len(), 40);
    pass(&mut session, Request::AckMemRegs, vec![]);
    pass(&mut session, Request::PostcopyEnd, vec![]);
    reject(&mut session, Request::PostcopyEnd, vec![], "id");
}

#[test]
fn a_userfaultfd_that_cannot_be_had_is_told() {
    let mut session = agreed_without(Features::empty());
    let Event::PostcopyAdvised { answer } = event(&mut session, Request::PostcopyAdvise, vec![]) else {
        panic!()
    };
    let reply = session.answer(answer, Err(Refusal::new("not permitted"))).unwrap().reply.unwrap();
    assert_eq!((reply.payload.len(), reply.fds.len()), (0, 0));
    reject(&mut session, Request::PostcopyListen, vec![], "id");
}
