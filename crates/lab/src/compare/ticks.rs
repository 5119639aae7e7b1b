//! The group `tti`: sends numbered ticks at absolute times through a doorbell and measures when each reaches user
//! space, as `tautline tti` does. The receivers run in environments of their own, which have the doorbell's
//! device.

use std::collections::BTreeMap;
use std::time::Duration;

use environment::Spec;
use measure::{Direction, Failure, Group, MetricId, MetricSpec, Noise, Outcome, Plan, Unit};
use workload::ticks::Load;

use super::job::{Job, Method};
use crate::tti::{self, Receiver, load_name};
use crate::{Launcher, PlannedEnvironment};

const INTERVAL: Duration = Duration::from_millis(1);
const QUICK_LOADS: [Option<Load>; 2] = [None, Some(Load::Cpu)];
const FULL_LOADS: [Option<Load>; 4] = [None, Some(Load::Cpu), Some(Load::Memory), Some(Load::Io)];
/// The source's CPU and the receiver's.
const CPUS: usize = 2;

/// A job for each load.
pub fn jobs(quick: bool) -> impl Iterator<Item = Job> {
    let loads: &[Option<Load>] = if quick { &QUICK_LOADS } else { &FULL_LOADS };
    loads.iter().map(|load| {
        let name = load_name(*load);
        let beside = if load.is_some() { format!("beside {name} load") } else { "idle".to_owned() };
        Job {
            spec: MetricSpec {
                id: MetricId::new(format!("{}.{name}", Group::Tti)),
                group: Group::Tti,
                title: format!("tick of 1 ms, from due to user space, {beside}"),
                unit: Unit::Nanos,
                direction: Direction::LowerIsBetter,
                curve: None,
            },
            method: Method::Ticks(*load),
            cpus_used: CPUS,
        }
    })
}

/// The receivers of this start, by environment.
pub struct Ticks<'a> {
    job: tti::Job,
    launcher: &'a Launcher,
    block: u32,
    receivers: BTreeMap<String, Receiver<'a>>,
}

impl<'a> Ticks<'a> {
    /// A set without started receivers.
    pub fn new(plan: &Plan, launcher: &'a Launcher) -> Self {
        let cpus = [plan.cpus.first(), plan.cpus.last()].map(|cpu| cpu.copied().unwrap_or_default());
        Ticks {
            job: tti::Job::usual(INTERVAL, Duration::from_millis(plan.wakeup_ms), cpus),
            launcher,
            block: 0,
            receivers: BTreeMap::new(),
        }
    }

    /// Sends ticks to one environment. The receiver is started afresh for each block.
    ///
    /// # Errors
    /// There is no figure; the error says why.
    pub fn measure(
        &mut self,
        place: &PlannedEnvironment,
        load: Option<Load>,
        block: u32,
    ) -> Result<Outcome, Failure> {
        let (name, spec) = (place.name.as_str(), &place.spec);
        if self.block != block {
            self.receivers.clear();
            self.block = block;
        }
        if matches!(spec, Spec::Remote(_)) {
            let (tried, remedy) = (format!("sending ticks to {name}"), "run `tautline tti` there");
            return Err(Failure::new(tried, "they come from this machine and are received on it", remedy));
        }
        // A receiver that failed is not used again.
        let mut receiver = match self.receivers.remove(name) {
            Some(receiver) => receiver,
            None => {
                let folder = format!("compare-tti-{name}");
                Receiver::start(&folder, place, self.job.receiver_cpu, self.launcher)?
            }
        };
        let found = receiver.measure(load, &self.job)?;
        self.receivers.insert(name.to_owned(), receiver);
        let (sent, received) = (found.sent, found.received);
        let mut remarks = [sent.remarks, received.remarks].concat();
        if sent.skipped > 0 {
            remarks.push(format!("the source was away for {} ticks", sent.skipped));
        }
        if received.coalesced > 0 {
            remarks.push(format!("{} ticks were found beside a later one", received.coalesced));
        }
        Ok(Outcome {
            value: received.from_due.median_ns() as f64,
            samples: Vec::new(),
            missed: received.lost,
            elapsed_ns: self.job.source.interval.as_nanos() as u64 * sent.ticks,
            histogram: Some(received.from_due),
            remarks,
            noise: Noise::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_load_is_a_metric_of_the_group() {
        let names: Vec<String> = jobs(true).map(|job| job.spec.id.to_string()).collect();
        assert_eq!(names, ["tti.none", "tti.cpu"]);
        assert_eq!(jobs(false).count(), FULL_LOADS.len());
    }
}
