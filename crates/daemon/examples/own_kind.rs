//! A switch with a kind of port of its own, `echo:NAME`, which sends back all that it gets:
//! `own_kind /tmp/control first echo someone`
use std::error::Error;

use control::PortDescription;
use daemon::{Service, Settings};
use port::in_memory::{InMemory, QueueOptions, queue};
use port::spec::{Described, Kind, Spec, SpecError};
use port::{Port, PortError};

const KINDS: &[Kind] = &[Kind { form: "echo:NAME", read }];

/// Reads `echo:NAME[,slots=N]`.
fn read(Spec { target, mut options, .. }: Spec) -> Result<Described, SpecError> {
    let slots = options.number("slots", 1..=1024)?.unwrap_or(64);
    options.finish("echo")?;
    Ok(Described::new(move || {
        let failed =
            |error| PortError::new(format!("making echo:{target}"), error, "raise the limit of open files");
        // What the switch puts into one end of the queue it gets from the other.
        let (sink, source) = queue(QueueOptions { slots, ..QueueOptions::default() }).map_err(failed)?;
        Ok(Box::new(InMemory::of(vec![(source, sink)])) as Box<dyn Port>)
    }))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [control, name, kind, target] = &arguments[..] else {
        return Err("write CONTROL-SOCKET NAME KIND TARGET".into());
    };
    let port = PortDescription { kind: kind.clone(), target: target.clone(), ..PortDescription::default() };
    let settings =
        Settings { ports: vec![(name.clone(), port)], control: Some(control.into()), ..Settings::default() };
    Ok(daemon::run(&Service { settings, kinds: KINDS, ..Service::default() }, Vec::new())?)
}
