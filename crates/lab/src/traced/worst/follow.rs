//! Watches latencies for a given time, and keeps the events around each new maximum.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use kvm::events::{Arrived, FlightRecorder, Pipe, Rate, Selection, Target, Trace};
use kvm::worst::{Fit, Follower, Frozen, GuestSide, Kept, Latency, Span, Watched, joined};
use linux::interrupt;
use linux::progress::Progress;
use measure::Failure;

use super::inside::Inside;
use crate::Launcher;
use crate::tracing::Made;

/// The time between two readings of the recorders. The flight recorder's buffers hold far more.
const LOOK: Duration = Duration::from_millis(20);
/// At first nearly each latency is the longest so far, and none of them is worth a look.
const WARMUP: Duration = Duration::from_secs(1);

/// The time between two requests to the guest's agent.
const NEWS: Duration = Duration::from_millis(250);
/// The most latencies of the host that are kept until the guest answers.
const MOST_DELIVERED: usize = 1 << 16;
/// Latencies since the last look, of which one has the median's path.
const MOST_RECENT: usize = 1 << 12;
/// The time before and after a latency, in ns, for which the guest reports events: what ran when it began, and enough
/// to compare the clocks.
const MARGIN_NS: u64 = 20_000_000;

/// The stages that the host sees by itself.
const HOST_STAGES: [Watched; 2] = [Watched::WakeUp, Watched::Interrupt];

/// The watched latencies, and the duration.
pub struct Watch<'a> {
    /// The process and its threads.
    pub target: &'a Target,
    /// The latency whose maximum is explained.
    pub watched: Watched,
    /// How long to watch.
    pub time: Duration,
    /// The socket of the guest's agent.
    pub guest: Option<&'a Path>,
    /// Shows the user what is being done.
    pub progress: &'a Progress,
    /// Called with the reason if the guest's side ends.
    pub remark: &'a dyn Fn(&str),
}

/// The results of all stages. The budget may have limits for stages that are not watched.
#[derive(Default)]
pub struct Found {
    wake_up: Kept,
    interrupt: Kept,
    user_space: Kept,
    /// Events that were lost in the host and in the guest. No latency is measured across a gap.
    pub lost: u64,
    /// How long was watched.
    pub elapsed: Duration,
    /// How well the guest's clock fits the host's, if both sides were recorded.
    pub fit: Option<Fit>,
}

impl Found {
    /// The latencies of one stage.
    pub fn of(&self, stage: Watched) -> &Kept {
        match stage {
            Watched::WakeUp => &self.wake_up,
            Watched::Interrupt => &self.interrupt,
            Watched::UserSpace => &self.user_space,
        }
    }

    fn of_mut(&mut self, stage: Watched) -> &mut Kept {
        match stage {
            Watched::WakeUp => &mut self.wake_up,
            Watched::Interrupt => &mut self.interrupt,
            Watched::UserSpace => &mut self.user_space,
        }
    }
}

/// Watches until the time is over, the process has ended, or SIGINT comes.
///
/// # Errors
/// The kernel refuses a trace, or the guest's agent does not answer.
pub fn follow(watch: &Watch<'_>) -> Result<Found, Failure> {
    let tracefs = kvm::trace::tracefs()?;
    let Launcher { janitor, .. } = Launcher::new(Vec::new())?;
    let mut made = Made::by(&janitor);
    let (first, second, third) =
        (made.instance(&tracefs)?, made.instance(&tracefs)?, made.instance(&tracefs)?);
    let (rate, target) = (Rate::measure(), watch.target);
    let inside = watch.guest.map(|socket| Inside::start(socket, target.pid, rate)).transpose()?;
    let blame = if inside.is_some() { Selection::BLAME_BESIDE_GUEST } else { Selection::BLAME };
    let flight = FlightRecorder::start([&first, &second], &blame, &target.threads, rate)?;
    let mut pipe = Pipe::start(&third, &Selection::LATENCIES, &target.threads, rate)?;
    let mut followers = HOST_STAGES.map(|stage| Follower::new(stage, target));
    let mut found = Found::default();
    let mut both = Both::new(flight, inside);
    let process = Path::new("/proc").join(target.pid.to_string());
    let mut arrived = Vec::new();
    let start = Instant::now();
    let progress = watch.progress;
    progress.doing(format!("watching process {}; Ctrl-C ends it", target.pid));
    loop {
        found.elapsed = start.elapsed();
        let is_over = found.elapsed >= watch.time
            || interrupt::is_set()
            || !process.exists()
            || watch.watched == Watched::UserSpace && both.inside.is_none();
        let has_more = pipe.read(&mut arrived)?;
        for one in arrived.drain(..) {
            match one {
                Arrived::Event(event, _) => {
                    for (follower, stage) in followers.iter_mut().zip(HOST_STAGES) {
                        let Some(latency) = follower.follow(&event) else { continue };
                        found.of_mut(stage).count(latency);
                        if stage == Watched::Interrupt {
                            both.deliver(latency);
                        }
                        if stage == watch.watched {
                            both.notice(latency);
                        }
                    }
                }
                Arrived::Gap(lost) => {
                    found.lost = found.lost.saturating_add(lost);
                    followers.iter_mut().for_each(Follower::gap);
                }
            }
        }
        both.ask(&mut found.user_space, watch, is_over);
        let is_new = found.of(watch.watched).is_new() && found.elapsed >= WARMUP;
        if is_over || is_new {
            both.look(found.of_mut(watch.watched), watch)?;
            let all = found.of(watch.watched).histogram();
            progress.doing(format!(
                "watching process {}: the longest of {} so far took {:.1} µs; Ctrl-C ends it",
                target.pid,
                all.count(),
                all.max_ns() as f64 / 1e3
            ));
        }
        if is_over {
            break;
        }
        if !has_more {
            sleep(LOOK.min(watch.time.saturating_sub(found.elapsed)));
        }
    }
    progress.finish();
    found.lost = found.lost.saturating_add(both.lost);
    found.fit = both.fit;
    Ok(found)
}

/// The recorders of both sides.
struct Both {
    flight: FlightRecorder,
    /// The guest's side; `None` once the guest no longer answers.
    inside: Option<Inside>,
    /// Interrupts that the host has delivered. Their arrivals in the guest's user space are still to be matched.
    delivered: Vec<Latency>,
    /// Latencies of the watched stage since the last reading.
    recent: Vec<Latency>,
    asked: Instant,
    /// Events that were lost in the guest.
    lost: u64,
    fit: Option<Fit>,
}

impl Both {
    fn new(flight: FlightRecorder, inside: Option<Inside>) -> Self {
        let (delivered, recent) = (Vec::new(), Vec::new());
        Self { flight, inside, delivered, recent, asked: Instant::now(), lost: 0, fit: None }
    }

    fn deliver(&mut self, latency: Latency) {
        if self.inside.is_some() {
            self.delivered.push(latency);
        }
    }

    fn notice(&mut self, latency: Latency) {
        if self.inside.is_some() {
            if self.recent.len() == MOST_RECENT {
                self.recent.drain(..MOST_RECENT / 2);
            }
            self.recent.push(latency);
        }
    }

    /// An answer of the guest, if it has one. If the answer is an error, that side ends, and the results so far stay.
    fn hear<T>(
        &mut self,
        watch: &Watch<'_>,
        question: impl FnOnce(&mut Inside) -> Result<T, Failure>,
    ) -> Option<T> {
        match question(self.inside.as_mut()?) {
            Ok(answer) => Some(answer),
            Err(error) => {
                if !interrupt::is_set() {
                    (watch.remark)(&format!("the guest's side ends here: {error}"));
                }
                self.inside = None;
                None
            }
        }
    }

    /// By how much the guest's clock puts events before their causes in the host, ns.
    fn early_ns(&self) -> u64 {
        self.fit.map_or(0, |fit| fit.early_ns())
    }

    /// Asks the guest for news from time to time, and counts the arrivals in its user space.
    fn ask(&mut self, kept: &mut Kept, watch: &Watch<'_>, is_over: bool) {
        if !is_over && self.asked.elapsed() < NEWS {
            return;
        }
        self.asked = Instant::now();
        let Some((arrivals, lost)) = self.hear(watch, Inside::news) else { return };
        self.lost = self.lost.saturating_add(lost);
        // The kernel merges its CPUs' events as they come.
        self.delivered.sort_by_key(|latency| latency.ended);
        for latency in joined(&self.delivered, &arrivals, self.early_ns()) {
            kept.count(latency);
            if watch.watched == Watched::UserSpace {
                self.notice(latency);
            }
        }
        let older = self.delivered.len().saturating_sub(MOST_DELIVERED);
        self.delivered.drain(..older);
    }

    /// The latencies of which the guest's events are needed: the longest, if it is new, and one as long as the median,
    /// if the host's trace has them.
    fn wanted(&mut self, kept: &Kept, host: &Trace) -> Vec<Latency> {
        let since = host.events.first().map_or(u64::MAX, |event| event.time);
        let is_there = |latency: &Latency| latency.began >= since;
        let median_ns = kept.histogram().median_ns();
        let recent = std::mem::take(&mut self.recent).into_iter().filter(is_there);
        let median = recent.min_by_key(|latency| latency.ns().abs_diff(median_ns));
        kept.worst().filter(|worst| kept.is_new() && is_there(worst)).into_iter().chain(median).collect()
    }

    /// Freezes the host's trace, asks the guest for its part, and looks up paths in both.
    fn look(&mut self, kept: &mut Kept, watch: &Watch<'_>) -> Result<(), Failure> {
        let host = self.flight.freeze()?;
        let wanted = self.wanted(kept, &host);
        let guest = self.hear(watch, |inside| inside.around(&wanted, MARGIN_NS));
        if guest.is_none() && watch.watched == Watched::UserSpace {
            return Ok(());
        }
        if let Some(guest) = &guest
            && let Some(fit) = Fit::of(&host, guest, &kvm::path::vcpus(&host, watch.target))
        {
            self.fit = Some(self.fit.map_or(fit, |before| before.and(fit)));
        }
        let spans: Vec<Span> = wanted.iter().map(|latency| Span::around(latency, MARGIN_NS)).collect();
        let early_ns = self.early_ns();
        let guest = guest.as_ref().map(|trace| GuestSide { trace, early_ns, spans: &spans });
        kept.look(&Frozen { host: &host, guest }, watch.target, watch.watched);
        Ok(())
    }
}
