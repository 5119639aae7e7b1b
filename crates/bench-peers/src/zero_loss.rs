//! The highest rate without loss, beside the maximum of the same moment.
use crate::bench::{Bench, Pair};
use crate::cell::{Cell, System};
use crate::generator::Generator;
use crate::own::Ends;
use crate::records::ZeroLoss;
use crate::rounds::STEADY;

/// Trials of the maximum before a search for zero loss, and after it.
const MAXIMA: usize = 3;

/// Searches until one is decided, up to about the maximum, on a machine that was as fast after it as before.
const SEARCHES: u32 = 3;

/// A generator that keeps less than this share of the maximum was disturbed, or says little about the system.
const KEPT_ENOUGH: f64 = 0.9;

impl Bench<'_> {
    /// The search for zero loss, system after system.
    pub fn zero_loss_cell(&mut self, cell: &Cell, pairs: &mut [Pair], ends: &mut Ends) -> anyhow::Result<()> {
        let mut lost: Vec<usize> = Vec::new();
        for (at, generator) in ends.iter_mut() {
            let device = &mut pairs[*at].device;
            let system = device.system;
            if self.is_late() {
                self.results.left_out.push(format!("{}, {cell}: zero loss for lack of time", system.name()));
                continue;
            }
            self.progress.doing(&format!("{cell}: {}, zero loss", system.name()));
            let _pinned = crate::cpus::Pinned::to(self.place.driver_cpu)?;
            let found = device.begin(cell.topology, cell.frame_bytes).and_then(|()| {
                generator.set_size(cell.topology, cell.frame_bytes, || self.place.interrupt.check())?;
                let found = self.search(cell, system, generator)?;
                device.end()?;
                Ok(found)
            });
            match found {
                Ok(found) => self.results.zero_loss.push(found),
                Err(error) => {
                    self.leave_out(&format!("{}, {cell}, zero loss", system.name()), &error)?;
                    lost.push(*at);
                }
            }
        }
        ends.retain(|(at, _)| !lost.contains(at));
        Ok(())
    }

    /// The highest rate without loss of a system that moves frames, beside its maximum with the same rings. For
    /// a thread that is on the driver's CPU.
    pub fn search(&self, cell: &Cell, system: System, generator: &mut Generator) -> anyhow::Result<ZeroLoss> {
        let lanes = cell.topology.ports() as u32;
        let (trial, check) = (self.order.search_trial, || self.place.interrupt.check());
        let mut searches = 0;
        let (maximum_fps, search) = loop {
            let mut before = self.maxima(generator)?;
            let most_fps = before.iter().copied().fold(0.0, f64::max);
            // Above the maximum, so that it is seen to lose; lower where the generator does not keep its rate.
            let most = generator.kept(most_fps * 1.05 / f64::from(lanes), trial, check)?;
            let search = generator.zero_loss(most, trial, check)?;
            let after = self.maxima(generator)?;
            searches += 1;
            // Beside a maximum of another time, of which the machine allowed more or less, a rate says nothing.
            let changed = !STEADY.contains(&(median(&after) / median(&before)));
            let undecided = search.finding.decided_lower().is_none();
            let kept_fps = most.frames_per_second() as f64 * f64::from(lanes);
            let kept_little = kept_fps < KEPT_ENOUGH * most_fps;
            if searches == SEARCHES || !(changed || undecided || kept_little) {
                before.extend(after);
                break (median(&before), search);
            }
        };
        let found = search.finding.decided_lower().map(|load| load.frames_per_second() as f64);
        let latency_ns = match found {
            Some(fps) => generator.latency(fps, trial)?,
            None => None,
        };
        Ok(ZeroLoss { cell: *cell, system, maximum_fps, lanes, latency_ns, searches, search })
    }

    /// The maximum, some times.
    fn maxima(&self, generator: &mut Generator) -> anyhow::Result<Vec<f64>> {
        let maximum = |_| Ok(generator.maximum(self.order.search_trial)?.frames_per_second);
        (0..MAXIMA).map(maximum).collect()
    }
}

fn median(rates: &[f64]) -> f64 {
    measure::statistics::median(rates).unwrap_or_default()
}
