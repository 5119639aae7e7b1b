//! Messages about memory, its log, its translation, and postcopy.

use super::answer::Echo;
use super::memory::MemoryMap;
use super::{BackendSession, Commit, Event, Next, SharedRegion};
use crate::SharedFd;
use crate::codec::payload::{Iotlb, IotlbKind, LogArea, MemoryRegion, MemoryTable};
use crate::codec::table::Rule;
use crate::session::postcopy::Postcopy;
use crate::violation::Violation;

/// The only descriptor, whose presence the table has checked.
pub(super) fn only_fd(rule: &Rule, fds: Vec<SharedFd>) -> Result<SharedFd, Violation> {
    let count = fds.len() as u64;
    fds.into_iter().next().ok_or_else(|| rule.violation("file descriptors", count, "1"))
}

impl BackendSession {
    pub(super) fn on_set_mem_table(
        &mut self,
        rule: &Rule,
        table: MemoryTable,
        fds: Vec<SharedFd>,
    ) -> Result<Next, Violation> {
        if table.regions.len() != fds.len() {
            return Err(rule.violation("file descriptors", fds.len() as u64, "one for each region"));
        }
        if self.postcopy == Postcopy::Mapped {
            return self.on_ack_mem_regs(rule, fds);
        }
        if table.regions.is_empty() {
            return Err(rule.violation("number of regions", 0u64, "at least 1"));
        }
        let memory = MemoryMap::of(rule, &table.regions)?;
        self.check_slots(rule, &memory)?;
        let regions = shared(&table.regions, fds);
        if self.postcopy == Postcopy::Listening {
            let echo = Echo::MemoryTable(table);
            return Ok(self.ask(echo, Commit::PostcopyMemory(memory), |answer| Event::PostcopyMemorySet {
                regions,
                replace: true,
                answer,
            }));
        }
        Ok(self.ask_done(rule, Commit::Memory(memory), |done| Event::MemoryTableSet { regions, done }))
    }

    pub(super) fn on_add_mem_reg(
        &mut self,
        rule: &Rule,
        region: MemoryRegion,
        fds: Vec<SharedFd>,
    ) -> Result<Next, Violation> {
        let file = only_fd(rule, fds)?;
        if self.postcopy == Postcopy::Off && self.memory.add_again(&region) {
            return Ok(Next::Done);
        }
        let memory = self.memory.clone().with(rule, region)?;
        self.check_slots(rule, &memory)?;
        let region = SharedRegion { region, file };
        if matches!(self.postcopy, Postcopy::Listening | Postcopy::Mapped) {
            let echo = Echo::Region(region.region);
            return Ok(self.ask(echo, Commit::PostcopyMemory(memory), |answer| Event::PostcopyMemorySet {
                regions: vec![region],
                replace: false,
                answer,
            }));
        }
        Ok(self.ask_done(rule, Commit::Memory(memory), |done| Event::MemoryRegionAdded { region, done }))
    }

    /// Handles the front-end's acknowledgement that it has registered the page faults of the regions.
    pub(super) fn on_ack_mem_regs(&mut self, rule: &Rule, fds: Vec<SharedFd>) -> Result<Next, Violation> {
        if self.postcopy != Postcopy::Mapped {
            return Err(rule.violation("payload size", 8u64, "a region, for no acknowledgement is due"));
        }
        if !fds.is_empty() {
            return Err(rule.violation("file descriptors", fds.len() as u64, "none with an acknowledgement"));
        }
        let commit = Commit::Postcopy(Postcopy::Listening);
        Ok(self.ask_done(rule, commit, |done| Event::PostcopyMemoryReady { done }))
    }

    /// Some front-ends pass a descriptor here. It is closed unused, as the vhost-user text allows.
    pub(super) fn on_rem_mem_reg(&mut self, rule: &Rule, region: MemoryRegion) -> Result<Next, Violation> {
        if self.memory.remove_once(&region) {
            return Ok(Next::Done);
        }
        let (memory, region) = self.memory.clone().without(rule, region)?;
        Ok(self.ask_done(rule, Commit::Memory(memory), |done| Event::MemoryRegionRemoved { region, done }))
    }

    pub(super) fn on_set_log_base(
        &mut self,
        rule: &Rule,
        area: LogArea,
        fds: Vec<SharedFd>,
    ) -> Result<Next, Violation> {
        if area.size_bytes == 0 {
            return Err(rule.violation("log size", 0u64, "at least one byte"));
        }
        rule.check_range("log offset", area.offset, area.size_bytes)?;
        let file = only_fd(rule, fds)?;
        Ok(self.ask(Echo::Log(area), Commit::Nothing, |done| Event::LogSet { area, file, done }))
    }

    pub(super) fn on_set_log_fd(&mut self, rule: &Rule, fds: Vec<SharedFd>) -> Result<Next, Violation> {
        let notifier = only_fd(rule, fds)?;
        Ok(self.ask_done(rule, Commit::Nothing, |done| Event::LogNotifierSet { notifier, done }))
    }

    pub(super) fn on_iotlb(&mut self, rule: &Rule, entry: Iotlb) -> Result<Next, Violation> {
        match entry.kind {
            IotlbKind::Update | IotlbKind::Invalidate => {}
            IotlbKind::Miss => return Err(rule.violation("type", 1u64, "update or invalidate")),
            IotlbKind::AccessFail => return Err(rule.violation("type", 4u64, "update or invalidate")),
        }
        // The last address of all may be part of an entry, so the end is compared, not the sum.
        let last = entry.size_bytes.saturating_sub(1);
        if entry.size_bytes == 0 || entry.iova.checked_add(last).is_none() {
            return Err(rule.violation("size", entry.size_bytes, "a size within the address space"));
        }
        if entry.kind == IotlbKind::Update && entry.user_address.checked_add(last).is_none() {
            return Err(rule.violation(
                "user address",
                entry.user_address,
                "a range within the address space",
            ));
        }
        Ok(self.ask_done(rule, Commit::Nothing, |done| Event::IotlbChanged { entry, done }))
    }

    pub(super) fn on_postcopy_advise(&mut self, _: &Rule) -> Result<Next, Violation> {
        let commit = Commit::Postcopy(Postcopy::Advised);
        Ok(self.ask(Echo::Descriptor, commit, |answer| Event::PostcopyAdvised { answer }))
    }

    pub(super) fn on_postcopy_listen(&mut self, rule: &Rule) -> Result<Next, Violation> {
        if self.postcopy != Postcopy::Advised {
            return Err(rule.violation("id", rule.id, "POSTCOPY_ADVISE before it"));
        }
        let commit = Commit::Postcopy(Postcopy::Listening);
        Ok(self.ask_done(rule, commit, |done| Event::PostcopyListening { done }))
    }

    pub(super) fn on_postcopy_end(&mut self, rule: &Rule) -> Result<Next, Violation> {
        if self.postcopy == Postcopy::Off {
            return Err(rule.violation("id", rule.id, "POSTCOPY_LISTEN before it"));
        }
        let commit = Commit::Postcopy(Postcopy::Off);
        Ok(self.ask_done(rule, commit, |done| Event::PostcopyEnded { done }))
    }

    fn check_slots(&self, rule: &Rule, memory: &MemoryMap) -> Result<(), Violation> {
        if memory.len() <= usize::from(self.offer.max_mem_slots()) {
            return Ok(());
        }
        Err(rule.violation("number of regions", memory.len() as u64, "no more than GET_MAX_MEM_SLOTS said"))
    }
}

fn shared(regions: &[MemoryRegion], files: Vec<SharedFd>) -> Vec<SharedRegion> {
    regions.iter().zip(files).map(|(region, file)| SharedRegion { region: *region, file }).collect()
}
