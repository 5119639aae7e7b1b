//! The systems with our own generator as the driver: the maximum in turns, then the search for zero loss.
use crate::bench::{Bench, MAXIMUM_RING, Measured, Pair, SETTLE, clock};
use crate::cell::{Cell, DriverKind, Link, RingPath, System, Topology};
use crate::device::Device;
use crate::generator::Generator;
use crate::window::Window;

/// Our generators, each with the index of the pair whose system it drives.
pub type Ends = Vec<(usize, Generator)>;

impl Bench<'_> {
    /// Our generator: maximum in turns, then the search.
    pub fn generate(&mut self, path: RingPath, pairs: &mut [Pair]) -> anyhow::Result<()> {
        if self.is_late() {
            self.results.left_out.push(format!("{}: our own generator, for lack of time", path.name()));
            return Ok(());
        }
        let sizes = self.order.generator_sizes.clone();
        for topology in self.order.generator_topologies() {
            let link = Link::Ring(path);
            let cell = |frame_bytes| Cell { driver: DriverKind::Tautline, topology, link, frame_bytes };
            let mut ends = self.connect(topology, path, MAXIMUM_RING, pairs, |_| true)?;
            for &frame_bytes in &sizes {
                self.generator_cell(&cell(frame_bytes), pairs, &mut ends)?;
            }
            drop(ends);
            // A search is its own start of the rings, and is done once.
            if self.start > 0 {
                continue;
            }
            // The incumbent and one of ours are enough: a search is many trials.
            let searched = |system| system != System::TautlineLearning;
            let mut ends = self.connect(topology, path, self.order.search_ring, pairs, searched)?;
            for &frame_bytes in &sizes {
                self.zero_loss_cell(&cell(frame_bytes), pairs, &mut ends)?;
            }
        }
        Ok(())
    }

    /// Our generator at each of these systems that has the ports for it.
    fn connect(
        &mut self,
        topology: Topology,
        path: RingPath,
        entries: u16,
        pairs: &[Pair],
        wanted: impl Fn(System) -> bool,
    ) -> anyhow::Result<Ends> {
        let mut ends = Vec::new();
        for (at, pair) in pairs.iter().enumerate() {
            let system = pair.device.system;
            if pair.device.sockets.len() != topology.ports() || !wanted(system) {
                continue;
            }
            match Generator::connect(&pair.device, path, entries, self.order.setup.pages) {
                Ok(generator) => ends.push((at, generator)),
                Err(error) => {
                    let what = format!("{}, own generator, {}", system.name(), path.name());
                    self.leave_out(&what, &error)?;
                }
            }
        }
        Ok(ends)
    }

    fn generator_cell(&mut self, cell: &Cell, pairs: &mut [Pair], ends: &mut Ends) -> anyhow::Result<()> {
        let mut lost: Vec<usize> = Vec::new();
        let mut rounds = self.rounds(cell, ends.len())?;
        let begin = rounds.number;
        while rounds.number < rounds.end {
            let (round, wanted) = (rounds.number, rounds.end);
            if self.is_late() {
                let line = format!("{cell}, own generator: {round} of {wanted} rounds for lack of time");
                self.results.left_out.push(line);
                return Ok(());
            }
            let mut turn: Vec<usize> = (0..ends.len()).collect();
            if round % 2 == 1 {
                turn.reverse();
            }
            for i in turn {
                let (at, generator) = &mut ends[i];
                let device = &mut pairs[*at].device;
                if lost.contains(at) {
                    continue;
                }
                let system = device.system;
                self.progress.doing(&format!("{cell}: {}, own generator", system.name()));
                let first = round == begin;
                let done = self.until_quiet(cell, system, round, |bench| {
                    bench.generator_trial(cell, device, generator, first)
                });
                if let Err(error) = done {
                    self.leave_out(&format!("{}, {cell}, own generator", system.name()), &error)?;
                    lost.push(*at);
                }
            }
            self.end_round(cell, &mut rounds)?;
        }
        self.end_cell(rounds);
        ends.retain(|(at, _)| !lost.contains(at));
        Ok(())
    }

    fn generator_trial(
        &self,
        cell: &Cell,
        device: &mut Device,
        generator: &mut Generator,
        first: bool,
    ) -> anyhow::Result<Measured> {
        device.begin(cell.topology, cell.frame_bytes)?;
        let _pinned = crate::cpus::Pinned::to(self.place.driver_cpu)?;
        if first {
            generator.set_size(cell.topology, cell.frame_bytes, || self.place.interrupt.check())?;
        }
        generator.maximum(SETTLE)?;
        let before = device.read(cell.topology)?;
        let window = Window::start([device.id()]);
        let passed = generator.maximum(self.order.trial)?;
        let (window, noise) = window.finish();
        let after = device.read(cell.topology)?;
        device.end()?;
        let usage = before.until(&after, clock(&[after]));
        Ok(Measured {
            frames_per_second: passed.frames_per_second,
            window,
            noise,
            device: usage,
            driver: passed.usage,
        })
    }
}
