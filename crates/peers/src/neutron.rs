//! Runs Neutron (OpenStack) beside OVN: its API, and the MariaDB and RabbitMQ that it needs.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{PAUSE, Process, tail};
use crate::requirements::Requirements;
use crate::{Error, Netns, Ovn};

/// How long a service may take to start, and an answer of the API to come. Neutron takes some 20 s to load on an
/// idle machine.
const LIMIT: Duration = Duration::from_secs(180);
/// The folder of the tables of Neutron in the root that set-up makes.
const TABLES: &str = "/var/lib/neutron-tables";
/// Where the services see the folder of the databases of OVN.
const SHARED: &str = "/mnt";

/// Makes `$1` a root that this process has for itself, with the folder `$2` in it, and runs the rest there. What the
/// process writes outside of this folder goes with it.
const IN_ROOT: &str = "set -e
mount --rbind \"$1\" \"$1\"
mount --bind \"$2\" \"$1/mnt\"
mount --rbind /dev \"$1/dev\"
mount -t proc proc \"$1/proc\"
mount -t tmpfs tmpfs \"$1/tmp\"
mount -t tmpfs tmpfs \"$1/run\"
root=$1
shift 2
cd /
exec chroot \"$root\" env -i PATH=/usr/sbin:/usr/bin HOME=/tmp LC_ALL=C.UTF-8 \"$@\"";

/// A running Neutron whose mechanism driver is `ovn`, and whose API asks for no passwords. Its processes are killed
/// when this value is dropped.
pub struct Neutron {
    socket: PathBuf,
    api: Process,
    _broker: Process,
    _tables: Process,
}

/// The place where the services run.
struct Place<'a> {
    network: &'a Netns,
    root: PathBuf,
    unshare: PathBuf,
    folder: &'a Path,
}

impl Place<'_> {
    /// Starts a shell's command line in the root, in the network namespace.
    fn start(&self, name: &str, line: &str) -> Result<Process, Error> {
        let mut command: Command = self.network.command(&self.unshare);
        // All processes of a service end with the first, for they are in a PID namespace of their own.
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--", "sh", "-c", IN_ROOT, "sh"]);
        command.arg(&self.root).arg(self.folder).args(["sh", "-c", line]);
        Process::start(name, &mut command)
    }
}

/// The settings of Neutron. `settings` are sections of the caller, the last word on what they say.
fn configuration(settings: &str) -> String {
    format!(
        "[DEFAULT]
host = controller
core_plugin = ml2
service_plugins = ovn-router
auth_strategy = noauth
transport_url = rabbit://guest:guest@127.0.0.1:5672/
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
api_paste_config = /usr/share/neutron-common/api-paste.ini
state_path = /tmp
[oslo_concurrency]
lock_path = /tmp/lock
[database]
connection = mysql+pymysql://root@localhost/neutron?unix_socket={SHARED}/mysql.sock
[ovn]
ovn_nb_connection = unix:{SHARED}/nb.sock
ovn_sb_connection = unix:{SHARED}/sb.sock
{settings}
"
    )
}

/// The settings of uWSGI, as Neutron's documentation has them, with one process and a socket in a folder.
fn server() -> String {
    format!(
        "[uwsgi]
plugins-dir = /usr/lib/uwsgi/plugins
plugins = python3
module = neutron.wsgi.api:application
http-socket = {SHARED}/api.sock
start-time = %t
master = true
processes = 1
enable-threads = true
lazy-apps = true
thunder-lock = true
need-app = true
buffer-size = 65535
die-on-term = true
"
    )
}

/// The settings of the metadata agent. Nova's service of metadata would listen at port 8775 of the network namespace.
fn agent() -> String {
    format!(
        "[DEFAULT]
nova_metadata_host = 127.0.0.1
metadata_proxy_shared_secret = secret
metadata_workers = 0
state_path = /tmp/agent
[AGENT]
root_helper = env
[ovs]
ovsdb_connection = unix:{SHARED}/chassis.sock
[ovn]
ovn_sb_connection = unix:{SHARED}/sb.sock
"
    )
}

/// The agent that gives servers their metadata; killed when this value is dropped.
pub struct MetadataAgent {
    process: Process,
}

impl MetadataAgent {
    /// What the agent has said.
    pub fn said(&self) -> String {
        self.process.said()
    }
}

impl Neutron {
    /// Starts the metadata agent of a chassis, which adds an interface to each network of the chassis' servers. `database`
    /// is the socket of the chassis' own database.
    ///
    /// # Errors
    /// The root with Neutron is missing, the socket is on another file system than the databases of OVN, or the agent
    /// cannot be started.
    pub fn start_metadata_agent(network: &Netns, ovn: &Ovn, database: &Path) -> Result<MetadataAgent, Error> {
        let mut needs = Requirements::new();
        let unshare = needs.program("unshare", "util-linux");
        let root = crate::ovn::cached("neutron");
        needs.path(
            &root.join("usr/bin/neutron-ovn-metadata-agent"),
            "Neutron: scripts/setup.sh test makes the root",
        );
        needs.met()?;
        let folder = ovn.folder();
        let (settings, socket) = (folder.join("metadata.conf"), folder.join("chassis.sock"));
        std::fs::write(&settings, agent())
            .map_err(Error::system(format!("writing {}", settings.display())))?;
        std::fs::hard_link(database, &socket)
            .map_err(Error::system(format!("linking {}", socket.display())))?;
        let place = Place { network, root, unshare, folder };
        let line = format!(
            "mkdir /tmp/agent && exec neutron-ovn-metadata-agent --config-file {SHARED}/metadata.conf"
        );
        Ok(MetadataAgent { process: place.start("the metadata agent", &line)? })
    }

    /// Starts Neutron in a network namespace, beside an OVN. `settings` are further sections of its configuration.
    ///
    /// # Errors
    /// The test is not root, the root with Neutron is missing, or a service does not start within 180 s.
    pub fn start(network: &Netns, ovn: &Ovn, settings: &str) -> Result<Self, Error> {
        let mut needs = Requirements::new();
        needs.root();
        let unshare = needs.program("unshare", "util-linux");
        let root = crate::ovn::cached("neutron");
        needs.path(&root.join("usr/bin/neutron-db-manage"), "Neutron: scripts/setup.sh test makes the root");
        needs.met()?;
        let folder = ovn.folder();
        let write = |name: &str, text: &str| {
            let file = folder.join(name);
            std::fs::write(&file, text).map_err(Error::system(format!("writing {}", file.display())))
        };
        write("neutron.conf", &configuration(settings))?;
        write("uwsgi.ini", &server())?;
        let place = Place { network, root, unshare, folder };
        let mut tables = place.start(
            "MariaDB",
            &format!(
                "cp -a {TABLES} /tmp/tables && exec mariadbd --no-defaults --user=root --datadir=/tmp/tables \
                 --skip-networking --innodb-log-file-size=16M --innodb-flush-log-at-trx-commit=0 \
                 --socket={SHARED}/mysql.sock"
            ),
        )?;
        let broker = place.start(
            "RabbitMQ",
            "export RABBITMQ_NODENAME=rabbit@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_LOGS=- \
             ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_MNESIA_BASE=/tmp/rabbit RABBITMQ_PID_FILE=/tmp/rabbit.pid \
             RABBITMQ_ENABLED_PLUGINS_FILE=/tmp/plugins; exec /usr/lib/rabbitmq/bin/rabbitmq-server",
        )?;
        drop(connect(&folder.join("mysql.sock"), &mut tables)?);
        let api = place
            .start("Neutron", &format!("OS_NEUTRON_CONFIG_DIR={SHARED} OS_NEUTRON_CONFIG_FILES=neutron.conf exec uwsgi-core --ini {SHARED}/uwsgi.ini"))?;
        let socket = folder.join("api.sock");
        let mut neutron = Neutron { socket, api, _broker: broker, _tables: tables };
        drop(connect(&neutron.socket, &mut neutron.api)?);
        neutron.get("networks")?;
        Ok(neutron)
    }

    /// Creates a resource such as `network`, and returns what the API says of it.
    ///
    /// # Errors
    /// The API refuses it, or does not answer within 180 s.
    pub fn create(&self, kind: &str, attributes: Value) -> Result<Value, Error> {
        let plural = if kind == "policy" { "policies".to_owned() } else { format!("{kind}s") };
        let mut answer = self.ask("POST", &plural.replace('_', "-"), Some(json!({ kind: attributes })))?;
        Ok(answer[kind].take())
    }

    /// Returns what the API says of a path such as `ports/ID`.
    ///
    /// # Errors
    /// The API refuses the request, or does not answer within 180 s.
    pub fn get(&self, path: &str) -> Result<Value, Error> {
        self.ask("GET", path, None)
    }

    /// Sends a `PUT` request.
    ///
    /// # Errors
    /// The API refuses the request, or does not answer within 180 s.
    pub fn put(&self, path: &str, body: Value) -> Result<Value, Error> {
        self.ask("PUT", path, Some(body))
    }

    /// Deletes a resource.
    ///
    /// # Errors
    /// The API refuses the request, or does not answer within 180 s.
    pub fn delete(&self, path: &str) -> Result<(), Error> {
        self.ask("DELETE", path, None).map(drop)
    }

    /// Sends a request to the API, and returns the answer's body.
    fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value, Error> {
        let doing = || format!("{method} {path} {}", body.as_ref().unwrap_or(&Value::Null));
        let system = |error: std::io::Error| {
            let answer = format!("{error}; the server said {}", tail(&self.api.said()));
            Error::refused(doing(), answer)
        };
        let content = body.as_ref().map_or_else(String::new, Value::to_string);
        let mut stream = UnixStream::connect(&self.socket).map_err(system)?;
        stream.set_read_timeout(Some(LIMIT)).map_err(system)?;
        write!(
            stream,
            "{method} /v2.0/{path} HTTP/1.0\r\nHost: neutron\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{content}",
            content.len()
        )
        .map_err(system)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(system)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        // "HTTP/1.1 201 Created"
        if head.split(' ').nth(1).is_none_or(|status| !status.starts_with('2')) {
            return Err(Error::refused(
                doing(),
                format!("{answer}; the server said {}", tail(&self.api.said())),
            ));
        }
        match body {
            "" => Ok(Value::Null),
            _ => serde_json::from_str(body).map_err(|why| Error::refused(doing(), format!("{why}: {body}"))),
        }
    }
}

/// Connects to a service once it listens.
fn connect(socket: &Path, service: &mut Process) -> Result<UnixStream, Error> {
    let doing = || format!("waiting for {}", socket.display());
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Ok(stream) = UnixStream::connect(socket) {
            return Ok(stream);
        }
        if !service.runs() {
            return Err(Error::refused(doing(), service.ending()));
        }
        if Instant::now() > deadline {
            return Err(Error::TimedOut { doing: doing(), limit: LIMIT, said: tail(&service.said()) });
        }
        std::thread::sleep(PAUSE);
    }
}
