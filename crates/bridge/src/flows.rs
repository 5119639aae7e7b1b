//! Changes of flows.

use std::sync::Arc;
use std::time::Duration;

use controllers::{FlowNews, News};
use flow::{Action, Field, Flow, Key, Learn};
use flow_tables::{Change, Entry};
use openflow::{
    ANY_TABLE, Counts, Failure, FlowCommand, FlowMod, FlowRequest, MonitorEvent, RemovedReason, Version,
};

use crate::refusal;
use crate::state::State;
use crate::time::{age, ms};

/// The number of tables of a bridge. It is the same in Open vSwitch, which uses the next table internally.
pub(crate) const TABLES: u8 = 254;

/// The counts and ages of a flow.
pub(crate) fn counts(entry: &Entry, now: Duration) -> Counts {
    let (packets, bytes) = entry.counters().get();
    let since = |ms| Some(age(now, Duration::from_millis(ms)));
    Counts {
        duration: since(entry.added_ms),
        idle: since(entry.counters().used_ms()),
        flows: None,
        packets: Some(packets),
        bytes: Some(bytes),
    }
}

/// The report of an event of a flow.
pub(crate) fn news_of(entry: &Entry, event: MonitorEvent, reason: RemovedReason, now: Duration) -> FlowNews {
    FlowNews { event, reason, flow: entry.flow.clone(), counts: counts(entry, now) }
}

/// A change of flows, with the version of OpenFlow in which the controller requested it.
struct Asked<'a> {
    change: &'a FlowMod,
    version: Version,
    now: Duration,
}

impl Asked<'_> {
    /// Selects the flows that the change concerns. Only a deletion selects by output port and group.
    fn request(&self) -> FlowRequest {
        let FlowMod { flow, cookie, cookie_mask, out_port, out_group, .. } = self.change;
        let deletes = matches!(self.change.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        FlowRequest {
            out_port: out_port.filter(|_| deletes),
            out_group: out_group.filter(|_| deletes),
            cookie: *cookie,
            cookie_mask: *cookie_mask,
            ..FlowRequest::of(flow.table, flow.wanted)
        }
    }

    fn is_strict(&self) -> bool {
        matches!(self.change.command, FlowCommand::ModifyStrict | FlowCommand::DeleteStrict)
    }
}

impl State {
    /// Adds, changes or deletes flows. A change that is refused leaves all flows unchanged.
    pub(crate) fn change_flows(
        &mut self,
        change: &FlowMod,
        version: Version,
        now: Duration,
        news: &mut News,
    ) -> Result<(), Failure> {
        let asked = Asked { change, version, now };
        let deletes = matches!(change.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        match change.flow.table {
            ANY_TABLE if version > Version::V10 && !deletes => return Err(Failure::FlowModTable),
            ANY_TABLE | 0..TABLES => {}
            // Open vSwitch uses this table internally.
            TABLES.. => return Err(Failure::NotPermitted),
        }
        match change.command {
            FlowCommand::Add => self.add(&asked, news),
            FlowCommand::Modify | FlowCommand::ModifyStrict => self.modify(&asked, news),
            FlowCommand::Delete | FlowCommand::DeleteStrict => {
                for entry in self.selected(&asked) {
                    self.end(&entry, RemovedReason::Delete, now, news);
                }
                Ok(())
            }
        }
    }

    /// The flows that a change concerns.
    fn selected(&self, asked: &Asked<'_>) -> Vec<Arc<Entry>> {
        let flow = &asked.change.flow;
        let request = asked.request();
        let numbers = if flow.table == ANY_TABLE { 0..=TABLES - 1 } else { flow.table..=flow.table };
        let of_table = |number| -> Vec<Arc<Entry>> {
            match asked.is_strict() {
                true => self.tables.get(number, flow.priority, &flow.wanted).into_iter().collect(),
                false => self.tables.all(number).cloned().collect(),
            }
        };
        numbers.flat_map(of_table).filter(|entry| request.has(&entry.flow)).collect()
    }

    /// Checks that the groups and meters in actions exist.
    fn check_names(&self, actions: &[Action]) -> Result<(), Failure> {
        actions.iter().try_for_each(|action| match action {
            Action::Group(group) if self.tables.group(*group).is_none() => Err(Failure::ActionGroup),
            Action::Meter(meter) if self.tables.meter(*meter).is_none() => Err(Failure::InvalidMeter),
            Action::Clone(inner) | Action::WriteActions(inner) => self.check_names(inner),
            _ => Ok(()),
        })
    }

    fn add(&mut self, asked: &Asked<'_>, news: &mut News) -> Result<(), Failure> {
        let mut flow = asked.change.flow.clone();
        if flow.table == ANY_TABLE {
            flow.table = 0;
        }
        self.check_names(&flow.actions)?;
        let (table, priority, wanted) = (flow.table, flow.priority, flow.wanted);
        let added = self.tables.change(Change::Add(flow), ms(asked.now));
        added.map_err(|refused| refusal::failure(&refused))?;
        if news.all_flows
            && let Some(entry) = self.tables.get(table, priority, &wanted)
        {
            news.flows.push(news_of(&entry, MonitorEvent::Added, RemovedReason::Delete, asked.now));
        }
        Ok(())
    }

    fn modify(&mut self, asked: &Asked<'_>, news: &mut News) -> Result<(), Failure> {
        let FlowMod { flow, cookie_mask, .. } = asked.change;
        let concerned = self.selected(asked);
        // Later versions add no flow and change no cookie (OpenFlow 1.1 §A.3.4.1).
        let old = asked.version == Version::V10 && flow.cookie != u64::MAX;
        if concerned.is_empty() && old && *cookie_mask == 0 {
            return self.add(asked, news);
        }
        self.check_names(&flow.actions)?;
        let changed = |entry: &Arc<Entry>| Flow {
            actions: flow.actions.clone(),
            cookie: if old { flow.cookie } else { entry.flow.cookie },
            ..entry.flow.clone()
        };
        let unfit = |unfit: flow::Unfit| refusal::failure(&unfit.into());
        concerned.iter().try_for_each(|entry| changed(entry).check().map_err(unfit))?;
        for entry in &concerned {
            let replaced = self.tables.replace(entry, changed(entry), flow.flags.reset_counts, ms(asked.now));
            replaced.map_err(|refused| refusal::failure(&refused))?;
            let flow = &entry.flow;
            if news.all_flows
                && let Some(entry) = self.tables.get(flow.table, flow.priority, &flow.wanted)
            {
                news.flows.push(news_of(&entry, MonitorEvent::Modified, RemovedReason::Delete, asked.now));
            }
        }
        Ok(())
    }

    /// Adds the flow that a frame with these fields learns, if there is room for it.
    pub(crate) fn learn(&mut self, learn: &Learn, key: &Key, now: Duration, news: &mut News) {
        let flow = flow_tables::learned(learn, key);
        let (table, priority, wanted) = (flow.table, flow.priority, flow.wanted);
        let before = self.tables.get(table, priority, &wanted);
        let is_same = before.as_ref().is_some_and(|entry| entry.flow == flow);
        let input = key.get(Field::InPort) as u16; // a port has 16 bits
        if table >= TABLES || is_same || !self.tables.learn(flow, learn, input, ms(now)).unwrap_or(false) {
            return;
        }
        if news.all_flows
            && let Some(entry) = self.tables.get(table, priority, &wanted)
        {
            let event = if before.is_some() { MonitorEvent::Modified } else { MonitorEvent::Added };
            news.flows.push(news_of(&entry, event, RemovedReason::Delete, now));
        }
    }

    /// Deletes a flow, and reports it if a controller wants the report.
    fn end(&mut self, entry: &Entry, reason: RemovedReason, now: Duration, news: &mut News) {
        self.tables.remove(entry);
        told(entry, reason, now, news);
        self.end_learned(entry, now, news);
    }

    /// Deletes the flows that an ended flow has learned and that are to end with it, unless another flow learns the same
    /// ones (`delete_learned` in ovs-actions(7)).
    fn end_learned(&mut self, ended: &Entry, now: Duration, news: &mut News) {
        for (table, cookie) in learns(&ended.flow.actions) {
            let others = (0..TABLES).flat_map(|table| self.tables.all(table));
            if others.into_iter().any(|entry| learns(&entry.flow.actions).contains(&(table, cookie))) {
                continue;
            }
            let of_cookie = self.tables.all(table).filter(|entry| entry.flow.cookie == cookie);
            for learned in of_cookie.cloned().collect::<Vec<_>>() {
                self.tables.remove(&learned);
                told(&learned, RemovedReason::Delete, now, news);
            }
        }
    }

    /// Deletes all flows for which `is` returns true.
    pub(crate) fn end_flows(
        &mut self,
        is: impl Fn(&Flow) -> bool,
        reason: RemovedReason,
        now: Duration,
        news: &mut News,
    ) {
        let all = (0..TABLES).flat_map(|table| self.tables.all(table));
        let ended: Vec<_> = all.filter(|entry| is(&entry.flow)).cloned().collect();
        ended.iter().for_each(|entry| self.end(entry, reason, now, news));
    }

    /// The number of flows for which `is` returns true.
    pub(crate) fn count_flows(&self, is: impl Fn(&Flow) -> bool) -> u32 {
        let all = (0..TABLES).flat_map(|table| self.tables.all(table));
        u32::try_from(all.filter(|entry| is(&entry.flow)).count()).unwrap_or(u32::MAX)
    }

    /// Deletes the flows whose idle or hard timeout has passed at `now`.
    pub(crate) fn expire(&mut self, now: Duration, news: &mut News) {
        for entry in self.tables.expire(ms(now)) {
            let hard = entry.timeouts().hard;
            let hard = hard != 0 && ms(now).saturating_sub(entry.modified_ms()) >= u64::from(hard) * 1000;
            let reason = if hard { RemovedReason::HardTimeout } else { RemovedReason::IdleTimeout };
            told(&entry, reason, now, news);
            self.end_learned(&entry, now, news);
        }
    }
}

/// The tables and cookies of flows that end with a flow with these actions.
fn learns(actions: &[Action]) -> Vec<(u8, u64)> {
    let of = |action: &Action| match action {
        Action::Learn(learn) if learn.delete_learned => vec![(learn.table, learn.cookie)],
        Action::Clone(inner) | Action::WriteActions(inner) => learns(inner),
        _ => Vec::new(),
    };
    actions.iter().flat_map(of).collect()
}

/// Reports a flow that has ended, if a controller monitors flows or the flow requests the report.
fn told(entry: &Entry, reason: RemovedReason, now: Duration, news: &mut News) {
    if news.all_flows || entry.flow.flags.send_removed {
        news.flows.push(news_of(entry, MonitorEvent::Removed, reason, now));
    }
}
