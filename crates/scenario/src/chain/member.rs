//! Runs one member.

use std::io;
use std::time::Duration;

use linux::cpus;
use linux::scheduler::{self, Policy};
use measure::{Failure, Histogram};
use port::Port;
use serde::{Deserialize, Serialize};

use super::frame::{self, Frame, MOST_DATA, TickEnd};
use super::instant::{now_ns, wait_until};
use super::link::Link;
use super::outcome::{Ended, Outcome, Stage};
use crate::description::Description;
use crate::work::{self, First, Last, Middle, Place};

/// How often a member says that it is ready, and that it has ended.
const AGAIN: Duration = Duration::from_millis(10);
/// How long a member that has acknowledged the end waits for the end to be sent again.
const LINGER: Duration = Duration::from_millis(30);
/// How long before each instant the first member stops sleeping and spins.
const SPIN: Duration = Duration::from_micros(50);

/// The job of a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The scenario.
    pub description: Description,
    /// The member's index in the chain.
    pub place: usize,
    /// The number of ticks that the first member makes.
    pub ticks: u64,
    /// The CPUs to run on; if empty, any.
    pub cpus: Vec<usize>,
    /// A SCHED_FIFO priority; `None` for the ordinary policy.
    pub priority: Option<i32>,
    /// The member gives up if nothing came for this time, ms.
    pub silence_ms: u64,
}

impl Job {
    fn silence(&self) -> Duration {
        Duration::from_millis(self.silence_ms)
    }
}

/// Converts a time of this member's CLOCK_MONOTONIC to the first member's, ns.
pub type Clock<'a> = &'a dyn Fn(u64) -> u64;

/// Runs until the chain has ended. `clock` converts to the first member's time. On one machine both are the same.
///
/// # Errors
/// The port stops, or the other members send nothing.
pub fn run(port: Box<dyn Port>, job: &Job, clock: Clock<'_>) -> Result<Outcome, Failure> {
    let mut remarks = Vec::new();
    let mut want = |what: String, result: io::Result<()>| {
        if let Err(error) = result {
            remarks.push(format!("{}: no {what}: {error}", job.description.members[job.place].name));
        }
    };
    if !job.cpus.is_empty() {
        want(format!("CPUs {}", cpus::list(&job.cpus)), cpus::bind(&job.cpus));
    }
    // The threads of a pool must inherit both.
    if let Some(priority) = job.priority {
        want(format!("SCHED_FIFO {priority}"), scheduler::set(Policy::Fifo(priority)));
    }
    let place = work::of(job.description.members[job.place].work, &job.description.load)?;
    let mut member =
        Member { link: Link::start(port)?, job, clock, frame: Vec::new(), outcome: Outcome::default() };
    let result = match place {
        Place::First(work) => member.lead(work),
        Place::Middle(work) => member.pass_on(work),
        Place::Last(work) => member.conclude(work),
    };
    let _ = scheduler::set(Policy::Normal);
    result?;
    member.outcome.dropped = member.link.dropped;
    member.outcome.remarks = remarks;
    Ok(member.outcome)
}

struct Member<'a> {
    link: Link,
    job: &'a Job,
    clock: Clock<'a>,
    frame: Vec<u8>,
    outcome: Outcome,
}

/// A received message, out of its frame.
enum Came {
    Ready,
    Data { tick: u64, user: u32, bytes: Vec<u8> },
    TickEnd(TickEnd, u64),
    End,
    EndHeard,
}

impl Member<'_> {
    fn silent(&self, other: &str) -> Failure {
        let name = &self.job.description.members[self.job.place].name;
        Failure::new(
            format!("{name}: waiting for {other}"),
            format!("nothing within {} s", self.job.silence().as_secs()),
            "see what the other members and the switch say",
        )
    }

    fn say(&mut self, to: usize, frame: &Frame<'_>) -> Result<(), Failure> {
        frame::write(self.job.place, to, frame, &mut self.frame);
        self.link.put(&self.frame)
    }

    /// Receives the neighbours' messages within `limit`. Other frames are skipped: a guest's kernel sends some.
    fn hear(&mut self, limit: Duration, came: &mut Vec<Came>) -> Result<(), Failure> {
        let place = self.job.place;
        let until_ns = now_ns() + limit.as_nanos() as u64;
        came.clear();
        loop {
            let left = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
            let count = self.link.receive(left, &mut |bytes, came_ns| {
                let Some((from, frame)) = frame::read(place, bytes) else { return };
                let from_previous = from + 1 == place;
                came.extend(match frame {
                    Frame::Ready if from == place + 1 => Some(Came::Ready),
                    Frame::EndHeard if from == place + 1 => Some(Came::EndHeard),
                    Frame::Data { tick, user, bytes } if from_previous => {
                        Some(Came::Data { tick, user, bytes: bytes.to_vec() })
                    }
                    Frame::TickEnd(end) if from_previous => Some(Came::TickEnd(end, came_ns)),
                    Frame::End if from_previous => Some(Came::End),
                    _ => None,
                });
            })?;
            if count == 0 || !came.is_empty() {
                return Ok(());
            }
        }
    }

    /// Waits until the next member is ready.
    fn await_next(&mut self) -> Result<(), Failure> {
        let start_ns = now_ns();
        let mut came = Vec::new();
        while now_ns() - start_ns < self.job.silence().as_nanos() as u64 {
            self.hear(AGAIN, &mut came)?;
            if came.iter().any(|came| matches!(came, Came::Ready)) {
                return Ok(());
            }
        }
        Err(self.silent("the next member to be ready"))
    }

    /// Tells the previous member that this one is ready until something comes; returns that.
    fn be_ready(&mut self) -> Result<Vec<Came>, Failure> {
        let start_ns = now_ns();
        let mut came = Vec::new();
        while now_ns() - start_ns < self.job.silence().as_nanos() as u64 {
            self.say(self.job.place - 1, &Frame::Ready)?;
            self.link.flush()?;
            self.hear(AGAIN, &mut came)?;
            came.retain(|came| !matches!(came, Came::Ready));
            if !came.is_empty() {
                return Ok(came);
            }
        }
        Err(self.silent("the first tick"))
    }

    /// Says the end until the next member has heard it: where that one is behind, its queue has no room for a frame.
    fn end_chain(&mut self) -> Result<(), Failure> {
        let start_ns = now_ns();
        let mut came = Vec::new();
        while now_ns() - start_ns < self.job.silence().as_nanos() as u64 {
            self.say(self.job.place + 1, &Frame::End)?;
            self.link.flush()?;
            self.hear(AGAIN, &mut came)?;
            if came.iter().any(|came| matches!(came, Came::EndHeard)) {
                break;
            }
        }
        // A member that has not heard the end reports that itself.
        Ok(())
    }

    /// Answers the end, for as long as the previous member has not heard that.
    fn hear_end(&mut self) -> Result<(), Failure> {
        let mut came = vec![Came::End];
        while came.iter().any(|came| matches!(came, Came::End)) {
            self.say(self.job.place - 1, &Frame::EndHeard)?;
            self.link.flush()?;
            self.hear(LINGER, &mut came)?;
        }
        Ok(())
    }

    /// The first: makes the ticks.
    fn lead(&mut self, mut work: Box<dyn First>) -> Result<(), Failure> {
        self.await_next()?;
        let interval_ns = self.job.description.interval().as_nanos() as u64;
        let failed =
            |error: io::Error| Failure::new("waiting for a tick", error, "use a kernel with this clock");
        let mut due_ns = now_ns() + 2 * interval_ns;
        let mut frames: Vec<Vec<u8>> = Vec::new();
        for tick in 1..=self.job.ticks {
            let mut count = 0;
            work.prepare(tick, &mut |user, bytes| {
                if frames.len() == count {
                    frames.push(Vec::new());
                }
                frame::write(self.job.place, 1, &Frame::Data { tick, user, bytes }, &mut frames[count]);
                count += 1;
            });
            wait_until(due_ns, SPIN.as_nanos() as u64).map_err(failed)?;
            let late_ns = now_ns().saturating_sub(due_ns);
            let passed = late_ns / interval_ns;
            self.outcome.skipped += passed;
            due_ns += passed * interval_ns;
            for frame in &frames[..count] {
                self.link.put(frame)?;
            }
            let mut end = TickEnd { tick, due_ns, frames: count as u32, ..TickEnd::default() };
            end.times_ns[0][1] = since(due_ns);
            self.say(1, &Frame::TickEnd(end))?;
            self.link.flush()?;
            self.outcome.ticks += 1;
            self.outcome.sent += count as u64;
            due_ns += interval_ns;
        }
        self.end_chain()
    }

    /// One in the middle: passes on what its work makes.
    fn pass_on(&mut self, mut work: Box<dyn Middle>) -> Result<(), Failure> {
        self.await_next()?;
        let mut came = self.be_ready()?;
        let next = self.job.place + 1;
        let mut sent_of_tick = 0u32;
        loop {
            for came in came.drain(..) {
                match came {
                    Came::Ready | Came::EndHeard => {}
                    Came::Data { tick, user, bytes } => {
                        self.outcome.received += 1;
                        self.work(tick, &mut sent_of_tick, |out| work.take(user, &bytes, out))?;
                    }
                    Came::TickEnd(mut end, came_ns) => {
                        self.work(end.tick, &mut sent_of_tick, |out| work.finish(out))?;
                        self.outcome.ticks += 1;
                        self.outcome.announced += u64::from(end.frames);
                        self.outcome.sent += u64::from(sent_of_tick);
                        (end.frames, sent_of_tick) = (sent_of_tick, 0);
                        end.times_ns[self.job.place] =
                            [came_ns, now_ns()].map(|near_ns| after(end.due_ns, (self.clock)(near_ns)));
                        self.say(next, &Frame::TickEnd(end))?;
                        self.link.flush()?;
                    }
                    Came::End => {
                        self.outcome.refused = work.refused();
                        self.hear_end()?;
                        return self.end_chain();
                    }
                }
            }
            self.hear(self.job.silence(), &mut came)?;
            if came.is_empty() {
                return Err(self.silent("the previous member"));
            }
        }
    }

    /// Sends what a step of the work makes.
    fn work(
        &mut self,
        tick: u64,
        sent: &mut u32,
        step: impl FnOnce(&mut work::Out<'_>),
    ) -> Result<(), Failure> {
        let (place, link, frame) = (self.job.place, &mut self.link, &mut self.frame);
        let mut result = Ok(());
        step(&mut |user, bytes| {
            let bytes = &bytes[..bytes.len().min(MOST_DATA)];
            frame::write(place, place + 1, &Frame::Data { tick, user, bytes }, frame);
            if result.is_ok() {
                result = link.put(frame);
            }
            *sent += 1;
        });
        result
    }

    /// The last: looks whether all is done and right.
    fn conclude(&mut self, mut work: Box<dyn Last>) -> Result<(), Failure> {
        let mut came = self.be_ready()?;
        let description = &self.job.description;
        let deadline_ns = u64::from(description.deadline_us) * 1000;
        let users = description.load.all_users();
        let mut ended = Ended { stages: stages(description), ..Ended::default() };
        loop {
            for came in came.drain(..) {
                match came {
                    Came::Ready | Came::EndHeard => {}
                    Came::Data { user, bytes, .. } => {
                        self.outcome.received += 1;
                        work.take(user, &bytes);
                    }
                    Came::TickEnd(mut end, came_ns) => {
                        self.outcome.ticks += 1;
                        self.outcome.announced += u64::from(end.frames);
                        let is_complete = work.finish(end.tick) == users;
                        let latency_ns = now_ns().saturating_sub(end.due_ns);
                        end.times_ns[self.job.place] = [after(end.due_ns, came_ns), since(end.due_ns)];
                        match (is_complete, latency_ns <= deadline_ns) {
                            (false, _) => ended.incomplete += 1,
                            (true, false) => ended.late += 1,
                            (true, true) => ended.in_time += 1,
                        }
                        ended.record(&end, latency_ns);
                    }
                    Came::End => {
                        self.outcome.refused = work.refused();
                        self.outcome.ended = Some(ended);
                        return self.hear_end();
                    }
                }
            }
            self.hear(self.job.silence(), &mut came)?;
            if came.is_empty() {
                return Err(self.silent("the previous member"));
            }
        }
    }
}

/// The stages: the first member's work, and for each other member the path to it and its work.
fn stages(description: &Description) -> Vec<Stage> {
    let stage = |name: String, budget_ns| Stage { name, budget_ns, time: Histogram::new() };
    let mut stages = Vec::new();
    for (place, member) in description.members.iter().enumerate() {
        if place > 0 {
            stages.push(stage(format!("to {}", member.name), None));
        }
        stages
            .push(stage(member.name.clone(), member.budget_us.map(|budget_us| u64::from(budget_us) * 1000)));
    }
    stages
}

impl Ended {
    fn record(&mut self, end: &TickEnd, latency_ns: u64) {
        let instants: Vec<u32> =
            end.times_ns.iter().flatten().skip(1).take(self.stages.len()).copied().collect();
        let end_ns = instants.last().copied().unwrap_or_default();
        // A guest's clock is known within an error. Instants are put in order below; ticks with instants out of order
        // are counted.
        self.disordered += u64::from(!instants.is_sorted());
        let mut times_ns = Vec::with_capacity(self.stages.len());
        let mut last_ns = 0;
        for (stage, instant_ns) in self.stages.iter_mut().zip(instants) {
            let instant_ns = instant_ns.clamp(last_ns, end_ns.max(last_ns));
            let time_ns = u64::from(instant_ns - last_ns);
            stage.time.record_ns(time_ns);
            times_ns.push(time_ns);
            last_ns = instant_ns;
        }
        if latency_ns > self.latency.max_ns() || self.worst.1.is_empty() {
            self.worst = (end.tick, times_ns);
        }
        self.latency.record_ns(latency_ns);
    }
}

/// From due until then, as far as a frame can say it.
fn after(due_ns: u64, then_ns: u64) -> u32 {
    then_ns.saturating_sub(due_ns).try_into().unwrap_or(u32::MAX)
}

fn since(due_ns: u64) -> u32 {
    after(due_ns, now_ns())
}
