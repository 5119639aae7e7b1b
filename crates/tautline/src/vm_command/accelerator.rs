//! Chooses what runs a guest: KVM only if a stock kernel boots with it.

use std::sync::Arc;
use std::time::Duration;

use environment::vm::{self, Accelerator, Vm};
use environment::{Agent, Janitor, Start};

use crate::cli::vm::Accel;
use crate::output;

/// How long a stock kernel may take to boot under KVM.
const BOOT_LIMIT: Duration = Duration::from_secs(30);

/// Finds out by booting a kernel, unless the user named the accelerator.
pub fn find(wanted: Accel, janitor: &Arc<Janitor>) -> anyhow::Result<Accelerator> {
    match wanted {
        Accel::Kvm => return Ok(Accelerator::Kvm),
        Accel::Tcg => return Ok(Accelerator::Tcg),
        Accel::Auto => {}
    }
    let boots = || {
        vm::open_kvm()?;
        let progress = output::progress();
        progress.doing("booting a stock kernel under KVM, to see that it does");
        let binary = std::env::current_exe().map_err(|error| {
            measure::Failure::new("finding the own binary", error, "see that /proc is mounted")
        })?;
        let agent = Agent { binary, arguments: vec![workload::agent::ARGUMENT.into()], files: vec![] };
        let cpus = linux::cpus::usable().unwrap_or_default();
        let cpus = &cpus[..cpus.len().min(1)];
        let settings = vm::Settings { accelerator: Some(Accelerator::Kvm), ..vm::Settings::default() };
        let proven = Vm::prove(settings, &Start { agent: &agent, cpus, limit: BOOT_LIMIT, janitor });
        progress.finish();
        proven.map(drop)
    };
    Ok(match boots() {
        Ok(()) => Accelerator::Kvm,
        Err(failure) => {
            linux::interrupt::check()?;
            output::remark(&format!(
                "tautline: the CPU is emulated, and the guest slow, without KVM: {failure}"
            ));
            Accelerator::Tcg
        }
    })
}

/// The accelerator that would be tried first.
pub fn likely(wanted: Accel) -> Accelerator {
    match wanted {
        Accel::Kvm => Accelerator::Kvm,
        Accel::Auto if vm::open_kvm().is_ok() => Accelerator::Kvm,
        Accel::Auto | Accel::Tcg => Accelerator::Tcg,
    }
}
