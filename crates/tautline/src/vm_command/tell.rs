//! The output about a guest's threads.

use vm::Event;

use crate::output;

/// Prints what a check of the threads has found. New and ended threads that need no change are not reported.
pub fn tell(events: &[Event]) {
    for event in events {
        match event {
            Event::Placed { .. } => {}
            // A program that changes the thread repeatedly must not fill a disk.
            Event::Corrected { times, .. } if !times.is_power_of_two() => {}
            Event::Corrected { thread, found, wanted, times } => {
                let often = if *times > 1 { format!(" ({times} times so far)") } else { String::new() };
                output::remark(&format!(
                    "tautline: {thread}: somebody changed {wanted} to {found}; put back{often}"
                ));
            }
            Event::Refused(failure) => output::remark(&format!("tautline: {failure}")),
        }
    }
}
