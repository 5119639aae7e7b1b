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
        "--openflow=/tmp/openflow",
    ];
    let file = "spin = \"5us\"\nflows = \"/tmp/flows\"\nopenflow = \"/tmp/openflow\"\nwire = \"one=two\"\nflood-limit = 7\n\
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
