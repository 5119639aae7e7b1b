#!/usr/bin/env python3
"""The switch tester of os-ken (OpenStack's OpenFlow library), with Open vSwitch and with `tautline switch` as the target.

    os_ken.py WORK [VERSION[/FOLDER]…]

The tester is a controller of two switches that are joined by three cables. For each case it writes the case's flows, groups
or meters into the target, reads them back, sends a frame into it by the other switch, and compares what comes back. The
other switch, and the first target, are Open vSwitch. VERSION is of10, of13 or of14, FOLDER one of the tester's, such as
match. The result is WORK/results.json: [{"version", "file", "name", "number", "openvswitch", "tautline"}…], where the
value of a switch is "ok" or what the tester said, and the number counts cases of the same name.

Environment: OVS_PROGRAMS is a folder with Open vSwitch's programs, OVS_VSWITCHD its ovs-vswitchd, OVS_SCHEMA its schema,
OS_KEN a Python that has os-ken, TAUTLINE the switch under test, JOBS how many runs go on at once.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

VERSIONS = {"of10": "OpenFlow10", "of13": "OpenFlow13", "of14": "OpenFlow14"}
SWITCHES = ("openvswitch", "tautline")
CONTROLLER = "tcp:127.0.0.1:6653"
# A run in which no case ends for so long is broken; the longest case sends frames for 30 s.
PATIENCE = 120

# Runs in the Python that has os-ken. A failed assertion of the tester ends a case, not the whole run.
TESTER = """
import subprocess, sys, traceback
from os_ken.lib import hub
hub.patch(thread=False)
from os_ken import cfg, flags, log
log.early_init_log(30)
from os_ken.base.app_manager import AppManager
from os_ken.controller import controller
from os_ken.tests.switch import tester
version, folder, *settle = sys.argv[1:]
original = tester.OfTester._test_execute
def execute(self, test, description):
    try:
        return original(self, test, description)
    except AssertionError:
        self.waiter = None
        self.logger.info('    %-100s ERROR', test.description)
        self.logger.info('        assertion of the tester: %s', traceback.format_exc().splitlines()[-2].strip())
        return 'assertion'
tester.OfTester._test_execute = execute
send = tester.OfTester._one_time_packet_send
def settled(self, packet):
    subprocess.run(settle, check=True, stdout=subprocess.DEVNULL)
    send(self, packet)
tester.OfTester._one_time_packet_send = settled
cfg.CONF(['--ofp-listen-host=127.0.0.1', '--ofp-tcp-listen-port=6653', '--test-switch-dir=' + folder,
          '--test-switch-target-version=' + version, '--test-switch-tester-version=' + version,
          '--test-switch-interval=0'], project='os_ken', version='0')
log.init_log()
AppManager.run_apps(['os_ken.tests.switch.tester', 'os_ken.controller.ofp_handler'])
"""


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout


class Switch:
    """A switch with a database of its own."""

    def __init__(self, folder, program, *options):
        self.folder, self.processes = folder, []
        folder.mkdir(parents=True)
        self.programs = os.environ["OVS_PROGRAMS"]
        self.environment = {**os.environ, "OVS_RUNDIR": str(folder), "OVS_LOGDIR": str(folder), "OVS_DBDIR": str(folder)}
        self.database = f"unix:{folder}/db.sock"
        run(f"{self.programs}/ovsdb-tool", "create", str(folder / "conf.db"), os.environ["OVS_SCHEMA"])
        self.start("ovsdb", f"{self.programs}/ovsdb-server", f"--remote=p{self.database}", str(folder / "conf.db"))
        wait(self.answers, f"the database, see {folder}/ovsdb.log")
        self.start("switch", program, *options, self.database)

    def add_bridge(self, bridge, identity, version, *kind):
        self.ask("add-br", bridge, "--", "set", "Bridge", bridge, "datapath_type=netdev", "fail-mode=secure",
                 f"protocols={VERSIONS[version]}", "other-config:disable-in-band=true",
                 f"other-config:datapath-id={identity:016x}")
        for port in (1, 2, 3):
            name = f"{bridge}{port}"
            self.ask("add-port", bridge, name, "--", "set", "Interface", name, f"ofport_request={port}", *kind)
        self.ask("set-controller", bridge, CONTROLLER)

    def start(self, name, *words):
        with open(self.folder / f"{name}.log", "w") as log:
            self.processes.append(subprocess.Popen(words, stdout=log, stderr=log, env=self.environment))

    def answers(self):
        try:
            self.ask("--no-wait", "init")
        except subprocess.CalledProcessError:
            return False
        return True

    def ask(self, *words):
        return run(f"{self.programs}/ovs-vsctl", "--timeout=30", f"--db={self.database}", *words, env=self.environment)

    def end(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait(30)


def wait(ready, what):
    deadline = time.monotonic() + 30
    while not ready():
        if time.monotonic() > deadline:
            sys.exit(f"waited in vain for {what}")
        time.sleep(0.02)


def inside(switch, version, folder, work):
    """One run, in a network namespace of its own."""
    pathlib.Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    run("ip", "link", "set", "lo", "up")
    for port in (1, 2, 3):
        run("ip", "link", "add", f"target{port}", "type", "veth", "peer", "name", f"tester{port}")
        for name in (f"target{port}", f"tester{port}"):
            run("ip", "link", "set", name, "up")
    # Two processes of Open vSwitch in one namespace would both make the interface ovs-netdev.
    switches = [Switch(work / "tester", os.environ["OVS_VSWITCHD"], "--pidfile")]
    if switch == "tautline":
        switches.append(Switch(work / "target", os.environ["TAUTLINE"], "switch", "--control", str(work / "control"), "--ovsdb"))
    switches[-1].add_bridge("target", 1, version, *(["type=afxdp"] if switch == "tautline" else []))
    switches[0].add_bridge("tester", 2, version)
    control = next((work / "tester").glob("ovs-vswitchd.*.ctl"))
    settle = [f"{os.environ['OVS_PROGRAMS']}/ovs-appctl", f"--target={control}", "revalidator/wait"]
    words = [os.environ["OS_KEN"], "-c", TESTER, VERSIONS[version].lower(), folder, *settle]
    with open(work / "said", "w") as said:
        tester = subprocess.Popen(words, stdout=said, stderr=said, env={**os.environ, "OSKEN_HUB_TYPE": "eventlet"})
    last, size = time.monotonic(), 0
    while tester.poll() is None:
        time.sleep(0.2)
        now = (work / "said").stat().st_size
        if now != size:
            last, size = time.monotonic(), now
        if time.monotonic() - last > PATIENCE:
            tester.kill()
            tester.wait()
            (work / "said").open("a").write(f"\nno case ended for {PATIENCE} s\n")
    for one_of in switches:
        one_of.end()


def cases(text):
    """The cases of a run: file, name, and "ok" or what the tester said."""
    file, found = "", []
    for line in text.splitlines():
        if match := re.match(r"    (\S.*?) +(OK|ERROR)$", line):
            found.append([file, match[1], "ok" if match[2] == "OK" else ""])
        elif line.startswith("        ") and found and found[-1][2] == "":
            found[-1][2] = line.strip()
        elif match := re.match(r"(action|match|group|meter)s?: .*", line):
            file = line.strip()
        elif line.startswith("---  Test end"):
            return found
    raise SystemExit("the tester did not come to its end:\n" + text[-2000:])


def one(switch, version, folder, work):
    work = work / "-".join([version, *pathlib.Path(folder).parts[-1:], switch])
    run("rm", "-rf", str(work))
    words = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, __file__]
    subprocess.run([*words, "--inside", switch, version, folder, str(work)], check=True)
    return cases((work / "said").read_text(errors="replace"))


def main():
    if sys.argv[1] == "--inside":
        switch, version, folder, work = sys.argv[2:]
        inside(switch, version, folder, pathlib.Path(work))
        return
    work, wanted = pathlib.Path(sys.argv[1]), sys.argv[2:] or list(VERSIONS)
    root = pathlib.Path(run(os.environ["OS_KEN"], "-c", "import os_ken.tests as t; print(t.__path__[0])").strip()) / "switch"
    runs = [(switch, *(part + "/").split("/", 1)) for part in wanted for switch in SWITCHES]
    results = {}
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "3"))) as pool:
        futures = [pool.submit(one, switch, version, str(root / version / rest.strip("/")), work) for switch, version, rest in runs]
        for (switch, version, _), future in zip(runs, futures):
            seen = {}
            for file, name, said in future.result():
                # Some names occur twice in a file.
                seen[file, name] = number = seen.get((file, name), 0) + 1
                results.setdefault((version, file, name, number), {})[switch] = said
    rows = [{"version": key[0], "file": key[1], "name": key[2], "number": key[3], **said} for key, said in sorted(results.items())]
    (work / "results.json").write_text(json.dumps(rows, indent=1) + "\n")
    for switch in SWITCHES:
        print(f"{switch}: {sum(row.get(switch) == 'ok' for row in rows)} of {len(rows)}")
    for row in rows:
        if row.get("openvswitch") == "ok" and row.get("tautline") != "ok":
            print(f"{row['version']} {row['file']} | {row['name']}\n    {row.get('tautline')}")


main()
