//! Two threads on two cores: what crossing them costs. Every cell ends after a fixed time, whatever else
//! the machine does meanwhile.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::case::{BURSTS, Bench, Case, SIZE, cases};
use super::measure::median;

const REPEATS: u32 = 8;
/// One cell takes [`REPEATS`] of these: 200 ms.
const REPEAT: Duration = Duration::from_millis(25);

pub fn table() {
    println!("\nTwo threads on two cores, driver half and device half, queue of {SIZE}: per buffer");
    println!("{:<20} {:>5} {:>8} {:>17}", "case", "burst", "ns", "95 % interval");
    for burst in BURSTS {
        eprintln!("two threads, burst {burst}");
        for case in cases().filter(|case| case.fits(burst)) {
            // The first warms up. One in which the other thread got no processor at all has no figure.
            let mut samples: Vec<f64> =
                (0..REPEATS).map(|_| once(case, burst)).skip(1).filter(|ns| ns.is_finite()).collect();
            if samples.is_empty() {
                println!("{:<20} {burst:>5} {:>8}", case.name, "-");
                continue;
            }
            let (mid, low, high) = median(&mut samples);
            println!("{:<20} {burst:>5} {mid:>8.2} [{low:>6.2}, {high:>6.2}]", case.name);
        }
    }
}

/// An eventfd without a system call, so that the decisions about notifications are measured and not what
/// the kernel does with them.
#[derive(Default)]
#[repr(align(128))]
struct Waker(AtomicBool);

impl Waker {
    fn ring(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn wait(&self, over: impl Fn() -> bool) {
        while !self.0.swap(false, Ordering::Acquire) && !over() {
            spin_loop();
        }
    }
}

/// Nanoseconds per buffer; infinite if none came back in time.
fn once(case: Case, burst: usize) -> f64 {
    let Bench { work, mut driver, mut device, burst: mut chains, mut used, arena: _arena, .. } =
        Bench::new(case, burst);
    let (kick, call, stop) = (&Waker::default(), &Waker::default(), &AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(1);
            let over = || stop.load(Ordering::Relaxed);
            while !over() {
                if device.pop(&mut chains, burst).expect("sound") > 0 {
                    device.add_used_all(&mut chains);
                    if case.asks && device.needs_call() {
                        call.ring();
                    }
                } else if case.asks {
                    if !device.enable_kicks() {
                        kick.wait(over);
                    }
                    device.disable_kicks();
                } else {
                    spin_loop();
                }
            }
        });
        pin(0);
        let started = Instant::now();
        let (mut done, mut looked) = (0_u64, 0_u32);
        let over = || started.elapsed() >= REPEAT;
        // The clock is read now and then only: reading it costs as much as a buffer.
        while !looked.is_multiple_of(64) || !over() {
            looked = looked.wrapping_add(1);
            let added = work.add(driver.as_mut());
            if case.asks && driver.needs_kick() {
                kick.ring();
            }
            used.clear();
            let reclaimed = driver.reclaim(&mut used, usize::MAX).expect("sound");
            done += reclaimed as u64;
            if case.asks && added + reclaimed == 0 {
                if !driver.enable_calls() {
                    call.wait(over);
                }
                driver.disable_calls();
            }
        }
        let ns = started.elapsed().as_nanos() as f64 / done as f64;
        stop.store(true, Ordering::Relaxed);
        ns
    })
}

fn pin(cpu: usize) {
    // Where pinning is not allowed the figures are noisier, not wrong.
    let _ = linux::cpus::bind(&[cpu]);
}
