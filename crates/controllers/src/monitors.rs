//! The flow monitors of one connection, which select the changes of flows that its controller is notified of.

use std::collections::BTreeMap;

use crate::switch::FlowNews;
use openflow::{
    Failure, FlowStatistics, MonitorEvent, MonitorFlags, MonitorFlow, MonitorRequest, MonitorUpdate,
    RemovedReason, Version,
};

/// Commands of a request.
const ADD: u8 = 0;
const DELETE: u8 = 2;

/// Monitors by number.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    monitors: BTreeMap<u32, MonitorRequest>,
}

impl Monitors {
    pub fn is_empty(&self) -> bool {
        self.monitors.is_empty()
    }

    /// Adds, changes or deletes all given monitors, or none. Returns the monitors to which the present flows must be
    /// reported at once.
    pub fn change(
        &mut self,
        requests: &[MonitorRequest],
        most: usize,
    ) -> Result<Vec<MonitorRequest>, Failure> {
        let mut next = self.monitors.clone();
        for request in requests {
            let known = next.contains_key(&request.id);
            match (request.command, known) {
                (ADD, true) => return Err(Failure::MonitorExists),
                (ADD, false) if next.len() >= most => return Err(Failure::NotPermitted),
                (ADD, false) => drop(next.insert(request.id, request.clone())),
                (_, false) => return Err(Failure::UnknownMonitor),
                (DELETE, true) => drop(next.remove(&request.id)),
                (_, true) => drop(next.insert(request.id, request.clone())),
            }
        }
        self.monitors = next;
        let tells = |one: &&MonitorRequest| one.command != DELETE && one.flags.has(MonitorFlags::INITIAL);
        Ok(requests.iter().filter(tells).cloned().collect())
    }

    /// Ends a monitor.
    pub fn cancel(&mut self, id: u32) -> Result<(), Failure> {
        self.monitors.remove(&id).map(drop).ok_or(Failure::UnknownMonitor)
    }

    /// The update that monitors receive about a change; `None` if no monitor follows the flow. `own` is the
    /// transaction of the change if it was made by the controller to which the monitors belong.
    pub fn told(&self, news: &FlowNews, own: Option<u32>, version: Version) -> Option<MonitorUpdate> {
        let kind = match news.event {
            MonitorEvent::Initial => MonitorFlags::INITIAL,
            MonitorEvent::Added => MonitorFlags::ADD,
            MonitorEvent::Removed => MonitorFlags::REMOVED,
            MonitorEvent::Modified => MonitorFlags::MODIFY,
        };
        let follows = |one: &&MonitorRequest| {
            let others = version >= Version::V14 && one.flags.has(MonitorFlags::ONLY_OWN);
            one.flags.has(kind) && !(others && own.is_none()) && one.flows().has(&news.flow)
        };
        let flags = self.monitors.values().filter(follows).map(|one| one.flags);
        let flags = flags.reduce(MonitorFlags::and)?;
        match own {
            Some(transaction) if !flags.has(MonitorFlags::NO_ABBREV) => {
                Some(MonitorUpdate::Abbreviated(transaction))
            }
            _ => Some(full(news, flags.has(MonitorFlags::INSTRUCTIONS))),
        }
    }
}

fn full(news: &FlowNews, instructions: bool) -> MonitorUpdate {
    let flow = news.flow.clone();
    MonitorUpdate::Full(Box::new(MonitorFlow {
        event: news.event,
        reason: if news.event == MonitorEvent::Removed { news.reason as u16 } else { 0 },
        table: flow.table,
        priority: flow.priority,
        timeouts: flow.timeouts,
        cookie: flow.cookie,
        wanted: flow.wanted,
        actions: if instructions { flow.actions } else { Vec::new() },
    }))
}

/// The report of a present flow to a new monitor.
pub(crate) fn initial(flow: FlowStatistics, request: &MonitorRequest) -> MonitorUpdate {
    let (event, reason) = (MonitorEvent::Initial, RemovedReason::Delete);
    let news = FlowNews { event, reason, flow: flow.flow, counts: flow.counts };
    full(&news, request.flags.has(MonitorFlags::INSTRUCTIONS))
}
