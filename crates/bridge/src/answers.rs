//! Answers to requests for statistics and descriptions.

use std::time::Duration;

use controllers::Answer;
use flow::port;
use flow_tables::{Entry, Tables};
use openflow::{
    ANY_TABLE, Counts, Failure, FlowRequest, FlowStatistics, OldTable, QueueStatistics, RawProperty, Reply,
    Request, TableDescription, TableFeatures, TableStatistics, Version,
};

use crate::flows::{TABLES, counts};
use crate::state::State;
use crate::{groups, meters};

/// The queue that each port has.
const DEFAULT_QUEUE: u32 = 0;
const ALL_QUEUES: u32 = u32::MAX;
/// OpenFlow 1.0: fields that a table does not need to match.
const WILDCARDS: u32 = 0x003f_ffff;
/// The property of a table that lists the criteria for evicting a flow: other criteria, importance, life time.
const EVICTION: u16 = 2;
const EVICTION_FLAGS: [u8; 4] = [0, 0, 0, 7];

/// The entries of tables, collected table by table when the iterator advances. `tables` is a copy, so later changes
/// have no effect.
fn entries(tables: Tables, request: FlowRequest) -> impl Iterator<Item = std::sync::Arc<Entry>> + Send {
    let numbers = if request.table == ANY_TABLE { 0..=TABLES - 1 } else { request.table..=request.table };
    let of_table = move |number| -> Vec<_> {
        let all = tables.entries(number).into_iter();
        all.filter(|entry| request.has(&entry.flow)).cloned().collect()
    };
    numbers.flat_map(of_table)
}

fn flows(state: &State, request: &FlowRequest, now: Duration) -> Answer {
    let nicira = request.nicira;
    let statistics = move |entry: std::sync::Arc<Entry>| {
        let counts = counts(&entry, now);
        let modified = Duration::from_millis(entry.modified_ms());
        let seconds = |seconds: u64| u16::try_from(seconds + 1).unwrap_or(u16::MAX);
        let idle = counts.idle.unwrap_or_default().0;
        let ages = Some((seconds(idle.into()), seconds(now.saturating_sub(modified).as_secs())));
        let flow = flow::Flow { timeouts: entry.timeouts(), ..entry.flow.clone() };
        Reply::Flow(vec![FlowStatistics { flow, counts, ages }], nicira)
    };
    Box::new(entries(state.tables.clone(), request.clone()).map(statistics))
}

fn aggregate(state: &State, request: &FlowRequest) -> Reply {
    let mut sum = (0_u32, 0_u64, 0_u64);
    for entry in entries(state.tables.clone(), request.clone()) {
        let (packets, bytes) = entry.counters().get();
        sum = (sum.0 + 1, sum.1.saturating_add(packets), sum.2.saturating_add(bytes));
    }
    let counts = Counts { flows: Some(sum.0), packets: Some(sum.1), bytes: Some(sum.2), ..Counts::default() };
    Reply::Aggregate(counts, request.nicira)
}

fn table(state: &State, number: u8, version: Version) -> TableStatistics {
    let max_flows = state.max_flows();
    let old =
        (version == Version::V10).then_some(OldTable { name: [0; 32], wildcards: WILDCARDS, max_flows });
    let active = u32::try_from(state.tables.all(number).count()).unwrap_or(u32::MAX);
    let (lookups, matched) = state.tables.visits(number);
    TableStatistics { table: number, active, lookups, matched, old }
}

fn queues(state: &State, number: u16, queue: u32) -> Result<Vec<QueueStatistics>, Failure> {
    let all = number == port::ANY || number == port::ALL;
    if !all && !state.ports.contains_key(&number) {
        return Err(Failure::QueuePort);
    }
    if queue != DEFAULT_QUEUE && queue != ALL_QUEUES {
        return if all { Ok(Vec::new()) } else { Err(Failure::BadQueue) };
    }
    let ports = state.ports_in_order().into_iter().filter(|(port, _)| all || *port == number);
    let queue = |(port, _)| QueueStatistics {
        port,
        queue: DEFAULT_QUEUE,
        counts: [u64::MAX; 3],
        duration: Some((u32::MAX, u32::MAX)),
    };
    Ok(ports.map(queue).collect())
}

fn one(reply: Reply) -> Result<Answer, Failure> {
    Ok(Box::new(std::iter::once(reply)))
}

/// Answers with one part for each element.
fn each<T: Send + 'static>(all: Vec<T>, reply: fn(Vec<T>) -> Reply) -> Result<Answer, Failure> {
    Ok(Box::new(all.into_iter().map(move |element| reply(vec![element]))))
}

impl State {
    fn max_flows(&self) -> u32 {
        u32::try_from(self.tables.limits().flows).unwrap_or(u32::MAX)
    }

    pub(crate) fn answer(
        &self,
        request: &Request,
        version: Version,
        now: Duration,
    ) -> Result<Answer, Failure> {
        let ports = |number: u16| {
            let ports = self.ports_in_order().into_iter();
            ports.filter(move |(port, _)| number == port::ANY || *port == number)
        };
        match request {
            Request::Flow(request) => Ok(flows(self, request, now)),
            Request::Aggregate(request) => one(aggregate(self, request)),
            Request::Table => {
                each((0..TABLES).map(|number| table(self, number, version)).collect(), Reply::Table)
            }
            Request::Port(number) => {
                each(ports(*number).map(|(number, port)| port.statistics(number, now)).collect(), Reply::Port)
            }
            Request::Queue(number, queue) => each(queues(self, *number, *queue)?, Reply::Queue),
            Request::Group(group) => each(self.group_statistics(*group, now), Reply::Group),
            Request::GroupDescription(group) => each(self.groups_of(*group), Reply::GroupDescription),
            Request::GroupFeatures => one(Reply::GroupFeatures(groups::features(version))),
            Request::Meter(meter) => each(self.meter_statistics(*meter, now)?, Reply::Meter),
            Request::MeterConfig(meter) => each(self.meter_configs(*meter)?, Reply::MeterConfig),
            Request::MeterFeatures => one(Reply::MeterFeatures(meters::features())),
            Request::PortDescription(number) => each(
                ports(*number).map(|(number, port)| port.described(number)).collect(),
                Reply::PortDescription,
            ),
            Request::TableDescription => each((0..TABLES).map(described).collect(), Reply::TableDescription),
            Request::TableFeatures(changes) if !changes.is_empty() => Err(Failure::NotPermitted),
            Request::TableFeatures(_) => {
                let max_flows = self.max_flows();
                let features = move |table| TableFeatures::of(table, TABLES, max_flows, version);
                Ok(Box::new((0..TABLES).map(move |table| Reply::TableFeatures(vec![features(table)]))))
            }
            Request::Description | Request::FlowMonitor(_) => Err(Failure::BadMultipart),
        }
    }
}

fn described(table: u8) -> TableDescription {
    let properties = vec![RawProperty { kind: EVICTION, value: EVICTION_FLAGS.to_vec() }];
    TableDescription { table, config: 0, properties }
}
