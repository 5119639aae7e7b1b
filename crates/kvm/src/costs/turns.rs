//! Two virtual machines whose threads share a CPU and take turns at each exit to user space.

use std::sync::mpsc;
use std::time::Duration;

use measure::Failure;

use super::settings::pin;
use crate::failed::SEE_LOG;

/// How long a virtual machine waits for its turn.
const LIMIT: Duration = Duration::from_secs(10);

const WAITING: &str = "waiting for a turn";

/// What a virtual machine calls at each of its exits to user space.
pub type AtExit<'a> = &'a mut dyn FnMut() -> Result<(), Failure>;

/// Runs both virtual machines on this CPU of the host, in turns, until at least `samples` switches were timed: from an
/// exit of one to user space to the next exit of the other, in ticks of `clock`, in the order of time.
///
/// # Errors
/// A thread cannot be bound to the CPU, a virtual machine fails, or it makes no exit within ten seconds.
pub fn switches<M: Send>(
    machines: [&mut M; 2],
    samples: usize,
    cpu: usize,
    clock: fn() -> u64,
    run: fn(&mut M, usize, AtExit<'_>) -> Result<(), Failure>,
) -> Result<Vec<u64>, Failure> {
    let exits = samples.div_ceil(2) + 1;
    let one = move |machine: &mut M, begins: bool, next: mpsc::Sender<u64>, turn: mpsc::Receiver<u64>| {
        pin(cpu)?;
        let wait = || {
            turn.recv_timeout(LIMIT).map_err(|error| {
                let answer = format!("the other virtual machine made no exit: {error}");
                Failure::new(WAITING, answer, SEE_LOG)
            })
        };
        let mut since = if begins { None } else { Some(wait()?) };
        let (mut found, mut left) = (Vec::with_capacity(exits), exits);
        run(machine, exits, &mut || {
            found.extend(since.map(|since| clock().wrapping_sub(since)));
            left -= 1;
            // The other virtual machine has ended before the last exit of all, or has failed and says why itself.
            let _ = next.send(clock());
            if left > 0 {
                since = Some(wait()?);
            }
            Ok(())
        })?;
        Ok(found)
    };
    let [first, second] = machines;
    std::thread::scope(|scope| {
        let ((to_first, of_second), (to_second, of_first)) = (mpsc::channel(), mpsc::channel());
        let second = scope.spawn(move || one(second, false, to_first, of_first));
        let first = scope.spawn(move || one(first, true, to_second, of_second)).join();
        let panicked = |_| Err(Failure::panicked("running two guests in turns"));
        match (first.unwrap_or_else(panicked), second.join().unwrap_or_else(panicked)) {
            (Err(waited), Err(cause)) if waited.tried == WAITING => Err(cause),
            // The first exit of all has none before it.
            (first, second) => {
                // The first failure is the cause if the second is not: then the second one waited for it.
                let (first, second) = (first?, second?);
                Ok(second.into_iter().zip(first).flat_map(<[u64; 2]>::from).collect())
            }
        }
    })
}
