//! `tautline kvm costs`: measures what exits, interrupts and faults cost, with a guest that this program makes.

use kvm::costs::{self, Costs, SCHEMA, Settings};
use linux::interrupt;
use linux::progress::Progress;
use measure::Failure;
use measure::host_facts::HostFacts;

use crate::origin::VERSION;
use crate::{Stopped, now};

/// Measures all rows. A row that cannot be measured has the reason.
///
/// # Errors
/// KVM cannot run a guest on this machine, or the user interrupted.
pub fn measure(settings: &Settings, progress: &Progress) -> Result<Costs, Stopped> {
    let started = now()?;
    progress.doing("starting a guest");
    let accelerator = environment::vm::kvm_name();
    let measured = costs::measure(settings, |row| {
        if row.id == costs::ROWS[0].id {
            progress.count(costs::ROWS.len() as u64);
        } else {
            progress.step();
        }
        progress.doing(row.title);
    });
    progress.finish();
    if measured.is_err() {
        interrupt::check()?;
    }
    let (prepared, rows) = measured.map_err(|failure| Failure {
        tried: format!("/dev/kvm ({accelerator}): {}", failure.tried),
        ..failure
    })?;
    Ok(Costs {
        schema: SCHEMA.into(),
        tautline: VERSION.into(),
        started,
        host: HostFacts::gather(),
        accelerator,
        emulated: prepared.emulated,
        settings: costs::kvm_settings(),
        tsc_khz: prepared.tsc_khz,
        alignment: prepared.alignment,
        rows,
    })
}
