//! Runs Open vSwitch with its dummy datapath, which needs no device and no root. Frames are sent to it by its control
//! socket, and its outgoing frames are in files.

use std::io::{BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use environment::openvswitch::{BRIDGE, Instance};

use crate::ovs::{LIMIT, find, run};
use crate::process::{self, Process};
use crate::requirements::Requirements;
use crate::{Error, OvsDatabase};

/// A running `ovs-vswitchd` whose ports `p1`, `p2` and so on are dummies. The switch is killed when this value is
/// dropped.
pub struct OvsDummy {
    vswitchd: Process,
    database: OvsDatabase,
    instance: Instance,
}

impl OvsDummy {
    /// Starts the switch with a bridge without flows and with this number of ports, numbered from 1.
    ///
    /// # Errors
    /// Open vSwitch is missing, or one of its programs fails.
    pub fn new(ports: u16) -> Result<Self, Error> {
        let mut needs = Requirements::new();
        let programs = find(None, &mut needs);
        needs.met()?;
        let database = OvsDatabase::new()?;
        let folder = database.folder().to_owned();
        let instance = programs.instance(&folder);
        let mut command = instance.switch();
        command.args(["--enable-dummy=override", "--disable-system"]);
        let vswitchd = Process::start("Open vSwitch", &mut command)?;
        let mut words =
            format!("add-br {BRIDGE} -- set bridge {BRIDGE} datapath_type=dummy fail-mode=secure");
        for port in 1..=ports {
            let file = sent(&folder, port);
            words += &format!(
                " -- add-port {BRIDGE} p{port} -- set interface p{port} type=dummy ofport_request={port} \
                 options:tx_pcap={}",
                file.display()
            );
        }
        database.vsctl(&words.split(' ').collect::<Vec<_>>())?;
        Ok(Self { vswitchd, database, instance })
    }

    /// The capture file (pcap) of the frames that a port has sent.
    pub fn sent(&self, port: u16) -> PathBuf {
        sent(self.database.folder(), port)
    }

    /// Calls a method of the switch by its control socket, as `ovs-appctl` does. Returns the method's answer.
    ///
    /// # Errors
    /// The socket or the method fails.
    pub fn ask(&self, method: &str, words: &[&str]) -> Result<String, Error> {
        let doing = || format!("asking Open vSwitch for {method}");
        let question = serde_json::json!({ "id": 0, "method": method, "params": words });
        let answer = || -> std::io::Result<serde_json::Value> {
            let mut socket = UnixStream::connect(self.database.folder().join("ctl"))?;
            socket.set_read_timeout(Some(LIMIT))?;
            socket.write_all(question.to_string().as_bytes())?;
            // This half stays open: the switch gives up a connection without it, in the middle of a long answer.
            let mut answers = serde_json::Deserializer::from_reader(BufReader::new(socket)).into_iter();
            Ok(answers.next().ok_or(ErrorKind::UnexpectedEof)??)
        };
        let answer = answer().map_err(Error::system(doing()))?;
        answer["result"]
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| Error::refused(doing(), answer["error"].to_string()))
    }

    /// The bridge's management socket, as `ovs-ofctl` names it.
    pub fn management(&self) -> String {
        self.instance.management()
    }

    /// Runs `ovs-ofctl` for OpenFlow 1.5 with a command, the bridge, and more words.
    ///
    /// # Errors
    /// `ovs-ofctl` fails, or does not end within 60 s.
    pub fn ofctl(&self, command: &[&str], words: &[&str]) -> Result<String, Error> {
        let bridge = self.management();
        let mut all = vec!["-O", "OpenFlow15"];
        all.extend(command);
        all.push(&bridge);
        all.extend(words);
        run(&mut self.instance.ofctl(&all))
    }

    /// Replaces all flows by these flows, as one bundle. Each line of `flows` is one flow.
    ///
    /// # Errors
    /// `ovs-ofctl` or the switch refuses a flow.
    pub fn replace_flows(&self, flows: &str) -> Result<(), Error> {
        self.tell_flows(&["--bundle", "replace-flows"], flows)?;
        // Cached flows of the datapath go too.
        self.ask("revalidator/purge", &[]).map(drop)
    }

    /// Adds these flows, one on each line.
    ///
    /// # Errors
    /// `ovs-ofctl` or the switch refuses a flow.
    pub fn add_flows(&self, flows: &str) -> Result<(), Error> {
        self.tell_flows(&["add-flows"], flows)
    }

    fn tell_flows(&self, command: &[&str], flows: &str) -> Result<(), Error> {
        let file = self.database.folder().join("flows");
        std::fs::write(&file, flows).map_err(Error::system("writing flows"))?;
        self.ofctl(command, &[&file.to_string_lossy()]).map(drop)
    }

    /// The switch's log.
    pub fn said(&self) -> String {
        process::tail(&self.vswitchd.said())
    }
}

fn sent(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!("p{port}.pcap"))
}
