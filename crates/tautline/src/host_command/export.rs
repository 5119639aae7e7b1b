//! `export`.

use std::time::Duration;

use host::tuning::{CpuList, HostTree, Profile, Survey, Wishes, export};

use super::subject;
use crate::cli::host::{Export, Target};
use crate::exit::Done;

/// Writes the profile in another tool's form.
pub fn run(arguments: &Export) -> anyhow::Result<Done> {
    let housekeeping = match &arguments.housekeeping {
        Some(cpus) => cpus.clone(),
        None => of_this_host(&arguments.isolate)?,
    };
    let guest =
        export::Guest::new(&arguments.name, arguments.isolate.clone(), housekeeping, arguments.guest_memory)?;
    let text = match arguments.to {
        Target::Libvirt => export::libvirt(&guest),
        Target::Nova => export::nova(&guest),
        Target::Kubevirt => export::kubevirt(&guest),
        Target::Qemu => export::qemu(&guest),
        Target::Systemd => export::systemd(&guest),
    };
    subject::write(&arguments.output, &text)?;
    Ok(Done::Whole)
}

fn of_this_host(isolate: &CpuList) -> anyhow::Result<CpuList> {
    let wishes = Wishes {
        profile: Profile::RealtimeHost,
        isolate: Some(isolate.clone()),
        guest_memory_mib: None,
        timer_migration: 0,
        watch: Duration::ZERO,
    };
    let tree = HostTree::live();
    Ok(Survey::of(&tree, &wishes)?.housekeeping())
}
