//! `tautline switch`: turns its flags into the settings of the service.
use std::path::{Path, PathBuf};

use control::PortDescription;
use daemon::settings::no_such_port;
use daemon::{Companion, CounterFile, Counters, Error, Invalid, Service, Settings};
use ovs::appctl::{Room, SharedBridges, Socket, SocketError};

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
        kinds: &[],
    };
    let place = arguments.ovsdb.as_deref().map(|database| Place::of(database, &service)).transpose()?;
    // Both files are removed once the switch has ended.
    let socket =
        place.as_ref().map(|place| Socket::open(&place.settings.folder, service.take_over.is_some()));
    let companions = place.map_or_else(Vec::new, |place| place.companions(&service, socket.as_ref()));
    match daemon::run(&service, companions) {
        Ok(()) => Ok(Done::Whole),
        Err(Error::Invalid(Invalid(why))) => Err(Usage(why).into()),
        Err(Error::Interrupted(interrupted)) => Err(interrupted.into()),
        Err(error) => Err(error.into()),
    }
}

/// The place of ovs-vswitchd beside a database.
struct Place {
    settings: ovs::Settings,
}

impl Place {
    /// From the value of `--ovsdb`.
    fn of(database: &str, service: &Service) -> Result<Self, Usage> {
        let wrong = |why: &str| Usage(format!("--ovsdb {database}: {why}"));
        let path = database.strip_prefix("unix:").filter(|path| path.starts_with('/'));
        let path = path.ok_or_else(|| wrong("write unix:PATH, as in unix:/var/run/openvswitch/db.sock"))?;
        let control = [&service.control, &service.settings.control, &service.take_over];
        let control: Option<&PathBuf> = control.into_iter().flatten().next();
        let control =
            control.ok_or_else(|| wrong("give --control too: the ports are added by that socket"))?;
        let settings = ovs::Settings {
            database: path.into(),
            control: control.clone(),
            folder: Path::new(path).parent().unwrap_or(Path::new("/")).to_owned(),
            bridges: SharedBridges::default(),
        };
        Ok(Place { settings })
    }

    /// What follows the database, and what answers `ovs-appctl`, beside the switch.
    fn companions(self, service: &Service, socket: Option<&Result<Socket, SocketError>>) -> Vec<Companion> {
        let Place { settings } = self;
        let addresses = service.settings.mac_table_size;
        let room = Room::new(settings.control.clone(), SharedBridges::clone(&settings.bridges), addresses);
        let listener = socket.map(|socket| match socket {
            Ok(socket) => socket.listener().map_err(|error| format!("answering ovs-appctl: {error}")),
            Err(error) => Err(error.to_string()),
        });
        let appctl = move |log: &dyn Fn(&str), goes_on: &dyn Fn() -> bool| match listener {
            Some(Ok(listener)) => ovs::appctl::answer(&listener, room, goes_on),
            Some(Err(why)) => log(&why),
            None => {}
        };
        let follower =
            move |log: &dyn Fn(&str), goes_on: &dyn Fn() -> bool| ovs::run(&settings, log, goes_on);
        vec![
            Companion { name: "ovsdb".to_owned(), work: Box::new(follower) },
            Companion { name: "ovs-appctl".to_owned(), work: Box::new(appctl) },
        ]
    }
}

/// What the flags say.
fn settings(arguments: &cli::Switch) -> anyhow::Result<Settings> {
    let cpus = arguments.cpus.as_deref().map(|list| cpu_list::read("--cpus", Some(list))).transpose()?;
    let mut settings = Settings {
        cpus,
        flows: arguments.flows.clone(),
        spin: arguments.spin,
        max_frame: arguments.max_frame,
        max_moves: arguments.max_moves,
        worker_deadline: arguments.worker_deadline,
        mac_table_size: arguments.mac_table_size,
        ageing: arguments.ageing,
        cache_policy: arguments.cache_policy,
        ..Settings::default()
    };
    each("--port", &arguments.port, |text| {
        settings.ports.push(daemon::described(text)?);
        Ok(())
    })?;
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

/// The port that `NAME=…` names, and what is said of it.
fn of_port<'a, 'b>(
    settings: &'a mut Settings,
    text: &'b str,
    remedy: &str,
) -> Result<(&'a mut PortDescription, &'b str), Invalid> {
    let (name, rest) = text.split_once('=').ok_or_else(|| Invalid(remedy.to_owned()))?;
    Ok((settings.port_mut(name).ok_or_else(no_such_port)?, rest))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn read(arguments: &[&str]) -> anyhow::Result<Settings> {
        let line = ["tautline", "switch"].iter().chain(arguments);
        let cli::Command::Switch(arguments) = cli::Cli::try_parse_from(line)?.command else { unreachable!() };
        settings(&arguments)
    }

    #[test]
    fn flags_have_the_defaults_of_the_settings() {
        let read = read(&["--control", "/tmp/control"]).unwrap();
        assert_eq!(read, Settings::default());
    }

    #[test]
    fn flags_and_the_configuration_file_say_the_same() {
        let flags = [
            "--port=one=vhost-user:/tmp/one,packed=off",
            "--port=two=tap:tap0",
            "--wire=one=two",
            "--flood-limit=one=9",
            "--flood-limit=7",
            "--allow=one=02:00:00:00:00:01",
            "--police=two=7pps+1gbit",
            "--spin=5us",
            "--flows=/tmp/flows",
        ];
        let file = "spin = \"5us\"\nflows = \"/tmp/flows\"\nwire = \"one=two\"\nflood-limit = 7\n\
             [ports.one]\nkind = \"vhost-user\"\ntarget = \"/tmp/one\"\npacked = \"off\"\nflood-limit = 9\n\
             allow = \"02:00:00:00:00:01\"\n\
             [ports.two]\nkind = \"tap\"\ntarget = \"tap0\"\npolice = \"7pps+1gbit\"\n";
        assert_eq!(read(&flags).unwrap(), daemon::settings_file::parse(file).unwrap());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_option() {
        for (flags, said) in [
            (["--port=a", "--spin=0"], "--port a: write NAME=KIND:TARGET"),
            (["--port=a=tap", "--spin=0"], "--port a=tap: 'tap' names no kind"),
            (["--port=a=tap:t", "--wire=a"], "--wire a: write A=B"),
            (["--port=a=tap:t", "--allow=b=02:00:00:00:00:01"], "there is no port of this name"),
            (["--port=a=tap:t", "--police=a"], "--police a: write NAME=RATE"),
            (["--port=a=tap:t", "--flood-limit=x"], "--flood-limit x: write frames a second"),
        ] {
            let error = read(&flags).unwrap_err();
            assert!(error.is::<Usage>() && error.to_string().contains(said), "{flags:?}: {error}");
        }
    }
}
