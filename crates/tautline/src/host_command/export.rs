//! `export`.

use std::time::Duration;

use host::tuning::{CpuList, HostTree, Machine, Profile, Survey, Wishes, WrittenCpus, export};

use super::subject;
use crate::cli::host::{Export, Target};
use crate::exit::{Done, Usage};

/// Writes the profile in another tool's form.
pub fn run(arguments: &Export) -> anyhow::Result<Done> {
    let tree = HostTree::live();
    let machine = Machine::of(&tree, &CpuList::default());
    let cpus = |option: &str, list: &WrittenCpus| {
        machine.named(list).map_err(|error| Usage(format!("{option} {list}: {error}")))
    };
    let housekeeping = match &arguments.housekeeping {
        Some(list) => cpus("--housekeeping", list)?,
        None => of_this_host(&tree, &arguments.isolate)?,
    };
    let isolate = cpus("--isolate", &arguments.isolate)?;
    let guest = export::Guest::new(&arguments.name, isolate, housekeeping, arguments.guest_memory)?;
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

fn of_this_host(tree: &HostTree, isolate: &WrittenCpus) -> anyhow::Result<CpuList> {
    let wishes = Wishes {
        profile: Profile::RealtimeHost,
        isolate: Some(isolate.clone()),
        guest_memory_mib: None,
        timer_migration: 0,
        watch: Duration::ZERO,
    };
    Ok(Survey::of(tree, &wishes)?.housekeeping())
}
