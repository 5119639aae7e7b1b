//! `tautline switch`: turns its flags into the settings of the service.
use std::path::PathBuf;

use control::PortDescription;
use daemon::settings::no_such_port;
use daemon::{Companion, CounterFile, Counters, Error, Invalid, Service, Settings};
use ovs::appctl::{Room, SharedBridges, Socket, SocketError};
use ovs::{KeyFiles, Server};

use crate::cli;
use crate::cpu_list;
use crate::exit::{Done, Usage};
use crate::output::Sink;

/// Runs a switch until a signal or a request ends it.
pub fn run(arguments: &cli::Switch) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let settings = match &arguments.config {
        Some(path) => daemon::read_settings(path).map_err(|Invalid(why)| Usage(why))?,
        None => settings(arguments)?,
    };
    let file = sink.file().map(|path| CounterFile { path: path.to_owned(), is_json: sink.is_json() });
    let service = Service {
        settings,
        config: arguments.config.clone(),
        control: arguments.control.clone(),
        metrics: arguments.metrics,
        take_over: arguments.take_over.clone(),
        counters: Counters { print_json: sink.is_json_printed(), file },
        kinds: daemon::TUNNELS,
    };
    let place = arguments.ovsdb.as_deref().map(|words| place(words, arguments, &service)).transpose()?;
    // Both files are removed once the switch has ended.
    let socket = place.as_ref().map(|place| Socket::open(&place.folder, service.take_over.is_some()));
    let companions = place.map_or_else(Vec::new, |place| companions(place, &service, socket.as_ref()));
    match daemon::run(&service, companions) {
        Ok(()) => Ok(Done::Whole),
        Err(Error::Invalid(Invalid(why))) => Err(Usage(why).into()),
        Err(Error::Interrupted(interrupted)) => Err(interrupted.into()),
        Err(error) => Err(error.into()),
    }
}

/// The place of ovs-vswitchd beside a database, from the value of `--ovsdb` and its keys.
fn place(database: &str, arguments: &cli::Switch, service: &Service) -> Result<ovs::Settings, Usage> {
    let wrong = |why: &str| Usage(format!("--ovsdb {database}: {why}"));
    let server = Server::read(database, || {
        KeyFiles::given([&arguments.private_key, &arguments.certificate, &arguments.ca_cert])?.read()
    })
    .map_err(|why| wrong(&why))?;
    let control = [&service.control, &service.settings.control, &service.take_over];
    let control: Option<&PathBuf> = control.into_iter().flatten().next();
    let control = control.ok_or_else(|| wrong("give --control too: the ports are added by that socket"))?;
    let (folder, bridges) = (server.folder(), SharedBridges::default());
    Ok(ovs::Settings { database: server, control: control.clone(), folder, bridges })
}

/// The threads beside the switch that follow the database and answer `ovs-appctl`.
fn companions(
    settings: ovs::Settings,
    service: &Service,
    socket: Option<&Result<Socket, SocketError>>,
) -> Vec<Companion> {
    let addresses = service.settings.mac_table_size;
    let cpus = service.settings.cpus.clone().unwrap_or_default();
    let bridges = SharedBridges::clone(&settings.bridges);
    let room = Room::new(settings.control.clone(), bridges, addresses, cpus);
    let tcp_port = settings.database.tcp_port();
    let listener = socket.map(|socket| match socket {
        Ok(socket) => socket.listener().map_err(|error| format!("answering ovs-appctl: {error}")),
        Err(error) => Err(error.to_string()),
    });
    let appctl = move |log: &dyn Fn(&str), goes_on: &dyn Fn() -> bool| match listener {
        Some(Ok(listener)) => ovs::appctl::answer(&listener, room, goes_on),
        Some(Err(why)) => log(&why),
        None => {}
    };
    let follower = move |log: &dyn Fn(&str), goes_on: &dyn Fn() -> bool| ovs::run(&settings, log, goes_on);
    vec![
        Companion { name: "ovsdb".to_owned(), tcp_port, work: Box::new(follower) },
        Companion { name: "ovs-appctl".to_owned(), tcp_port: None, work: Box::new(appctl) },
    ]
}

/// The settings by the options.
fn settings(arguments: &cli::Switch) -> anyhow::Result<Settings> {
    let cpus = arguments.cpus.as_deref().map(|list| cpu_list::read("--cpus", Some(list))).transpose()?;
    let mut settings = Settings {
        cpus,
        flows: arguments.flows.clone(),
        policy: arguments.policy.clone(),
        openflow: arguments.openflow.clone(),
        spin: arguments.spin,
        max_frame: arguments.max_frame,
        max_moves: arguments.max_moves,
        worker_deadline: arguments.worker_deadline,
        mac_table_size: arguments.mac_table_size,
        ageing: arguments.ageing,
        cache_policy: arguments.cache_policy,
        ..Settings::default()
    };
    each("--port", &arguments.port, |text| daemon::described(text).map(|port| settings.ports.push(port)))?;
    each("--wire", &arguments.wire, |text| settings.add_wire(text))?;
    each("--flood-limit", &arguments.flood_limit, |text| settings.limit_floods(text))?;
    let remedy = "write NAME=MAC, or NAME=MAC+MAC for several";
    each("--allow", &arguments.allow, |text| {
        let (port, addresses) = of_port(&mut settings, text, remedy)?;
        port.allow.push(addresses.to_owned());
        Ok(())
    })?;
    let remedy = "write NAME=RATE, or NAME=RATE+RATE, as in a=100kpps+1gbit";
    each("--police", &arguments.police, |text| {
        let (port, rates) = of_port(&mut settings, text, remedy)?;
        port.police.push(rates.to_owned());
        Ok(())
    })?;
    Ok(settings)
}

/// Reads each value of an option; an error names it.
fn each(
    option: &str,
    texts: &[String],
    mut read: impl FnMut(&str) -> Result<(), Invalid>,
) -> Result<(), Usage> {
    texts.iter().try_for_each(|text| read(text).map_err(|why| Usage(format!("{option} {text}: {why}"))))
}

/// The port in `NAME=…`, and the text behind it.
fn of_port<'a, 'b>(
    settings: &'a mut Settings,
    text: &'b str,
    remedy: &str,
) -> Result<(&'a mut PortDescription, &'b str), Invalid> {
    let (name, rest) = text.split_once('=').ok_or_else(|| Invalid(remedy.to_owned()))?;
    Ok((settings.port_mut(name).ok_or_else(no_such_port)?, rest))
}

#[cfg(test)]
#[path = "../tests/unit/switch_command.rs"]
mod tests;
