//! Searches zero loss with `tautline rfc2544`, as a user would run it.
use peers::netns::TapQueues;
use peers::{Bridge, Netns};
use traffic::results::SizeResult;

use super::{Bench, tautline};
use crate::cell::{Cell, DriverKind, System, Topology, name};
use crate::plan::SEARCHING;
use crate::results::ZeroLoss;

/// Searches until one is decided, and up to about the maximum.
const SEARCHES: u32 = 3;
/// A generator that keeps less than this fraction of the maximum was disturbed, or says little about the system.
const KEPT_ENOUGH: f64 = 0.9;

impl Bench<'_> {
    /// Searches zero loss and records the result; a search that fails is left out with its reason.
    pub(super) fn zero_loss(
        &mut self,
        cell: &Cell,
        system: System,
        search: impl FnOnce(&Self) -> anyhow::Result<SizeResult>,
    ) -> anyhow::Result<()> {
        let what = format!("{}, {cell}, zero loss", name(&system));
        if self.pace.is_late() {
            self.too_late(&what);
            return Ok(());
        }
        self.doing(&what);
        match search(self) {
            Ok(found) => self.results.zero_loss.push(ZeroLoss { cell: *cell, system, found }),
            Err(error) => self.leave_out(&what, &error)?,
        }
        Ok(())
    }

    /// The first search with a result in which the generator reached enough of the maximum rate. If there is none, the
    /// search in which it reached the largest share of that rate.
    pub(super) fn throughput(
        &self,
        cell: &Cell,
        ports: &[String],
        inside: Option<&Netns>,
    ) -> anyhow::Result<SizeResult> {
        let mut best: Option<((bool, f64), SizeResult)> = None;
        for _ in 0..SEARCHES {
            linux::interrupt::check()?;
            let found = tautline::rfc2544(cell, ports, inside, self.tautline, &self.plan)?;
            let kept = found.most_fps as f64 / found.maximum.received_fps.max(1.0);
            let rank = (found.search.throughput().is_some(), kept);
            if best.as_ref().is_none_or(|(before, _)| rank > *before) {
                best = Some((rank, found));
            }
            if rank >= (true, KEPT_ENOUGH) || self.pace.is_behind() {
                break;
            }
        }
        best.map(|(_, found)| found).ok_or_else(|| anyhow::anyhow!("no search"))
    }

    /// Measures the kernel's own bridge between two TAPs. The bridge has no ring paths, so it is measured only once.
    pub(super) fn kernel_bridge(&mut self) -> anyhow::Result<()> {
        // A write to a TAP does the bridge's work as well, within the same system call: there is no switch core.
        for frame_bytes in self.plan.bridge_sizes() {
            let cell =
                Cell { driver: DriverKind::Tautline, topology: Topology::Vm2vm, path: None, frame_bytes };
            let names = ["tap0", "tap1"];
            let made = || -> Result<Bridge, peers::Error> {
                let bridge = Bridge::new()?;
                names.iter().try_for_each(|name| bridge.tap(name, TapQueues::One))?;
                Ok(bridge)
            };
            match made() {
                Ok(bridge) => self.zero_loss(&cell, System::KernelBridge, |bench| {
                    let ports = names.map(|name| format!("tap:{name},offloads=off"));
                    bench.throughput(&cell, &ports, Some(bridge.namespace()))
                })?,
                Err(error) => self.leave_out(&name(&System::KernelBridge), &error.into())?,
            }
            self.pace.done += SEARCHING;
        }
        Ok(())
    }
}
