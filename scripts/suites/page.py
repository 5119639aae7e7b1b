#!/usr/bin/env python3
"""Reads what a suite of autotest has logged, and writes docs/results/suites.json and docs/suites.md.

page.py os-ken FOLDER: FOLDER has the results of scripts/suites/os_ken.py, which go to docs/results/os-ken.json.
page.py SUITE FOLDER: SUITE is a key of SUITES; FOLDER has what the suite printed (`output`), its `list` of cases, and `testsuite.dir`.
page.py: the page again, from the results. page.py goals: exit status 1 too if fewer cases pass than must.
"""

import datetime
import json
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs/results/suites.json"
TESTER = ROOT / "docs/results/os-ken.json"
PAGE = ROOT / "docs/suites.md"
SUITES = {
    "ovn": "ovn.at and ovn-controller.at of OVN 26.03: simulated chassis",
    "ovn-system": "system-ovn.at of OVN 26.03: namespaces, with the datapath in user space",
    "ovs-system": "system-traffic.at of Open vSwitch 4.0: namespaces, with AF_XDP",
}
MEGAFLOW = "`ofproto/trace` has no line of Open vSwitch's megaflow"
NO_COPY = "`dpctl/dump-flows` shows no flow, because flows have no copy in a datapath"
# Reasons by what the log of a failed case has, the most precise first.
REASONS = [
    (r"encap\(mpls|decap\(", "`encap` and `decap` of MPLS are neither read nor executed"),
    (r"the switch has no interfaces of type (\w+)", "the switch has no interfaces of type `{0}`"),
    (r"encap\(nsh|_nsh|nsh_", "NSH is neither read nor executed"),
    (r"setting (invalid_ttl_to_controller) failed", "the switch does not have the setting `{0}` of OpenFlow"),
    (r"connections are selected by zone alone", "`dpctl/flush-conntrack` selects connections by zone alone"),
    (r'"([\w/-]+)" is not a valid command of this switch', "the switch has no command `{0}`"),
    (r"(?m)^-recirc_id\(|^/\S+: ovs-appctl dpctl/dump-flows.*\n(?:(?!/).*\n)*/\S+: exit code was", NO_COPY),
    (r"(?m)^-(?:Megaflow|ct_state|recirc_id)", MEGAFLOW),
    (r"(?m)^-actions:", NO_COPY),
    (r"(?m)^-NXT_PACKET_IN2.*\n.*\n?.*\+NXT_PACKET_IN2", "a packet-in has a cookie where Open vSwitch has none, and no `eth_type` beside the connection's addresses"),
    (r"(sa_addr inet_ntop\(\) failed)", "curl of this machine cannot announce a port over IPv6: {0}"),
    (r"Error: Unknown device type", "this kernel has no such kind of interface"),
    (r"no such counter: coverage/show", "the run was before counters of Open vSwitch's code were answered with 0"),
    (r"open interface \S+ by AF_XDP: (.{0,60})", "AF_XDP on this interface: {0}"),
    (r"open interface \S+: (No such device)", "the case adds an interface that comes later: {0}"),
    (r"\|WARN\|(failed to initialize representor VIF plug)", "the run was before this warning of Debian's OVN was silenced: {0}"),
    (r"timeval\|WARN\|(Unreasonably long)", "the machine was busy: {0}"),
    (r'column error.*?"([^"]{5,80})', "the switch refuses an interface: {0}"),
    (r"(ovstest|test-\w+): (?:command )?not found", "needs a program of the build tree, `{0}`"),
    (r"(ovn-trace|ovn-ic|ovs-sandbox|ovn-northd-ddlog|ovs-testcontroller|ovn-controller-vtep): (?:command )?not found",
     "needs a program that is not in Debian's packages that set-up fetches, `{0}`"),
    (r"exit code was 127", "the case needs modules of the kernel, which this kernel does not load"),
    (r"No module named '?(\w+)", "needs the Python module `{0}`"),
]

# Reasons that were found by hand, by a case's name.
LOG = "the case counts messages in ovs-vswitchd's log, which the switch does not write"
TRACE = "`ofproto/trace` ends at a patch port"
PACKET_OUT = "fragments that a controller sends are not put together"
MAX_LEN = "an output with `max_len` does not shorten the frame"
MTU = "a port whose `mtu_request` is lower drops longer frames, a simulated interface of Open vSwitch takes them"
KNOWN = {
    "external logical port": "a frame whose source is a group address, such as ff:10:00:00:00:01, is dropped; Open vSwitch forwards it",
    "ovn-controller - Chassis other_config": "the case deletes the rows of a chassis while ovn-controller creates them, which collides; with Open vSwitch it fails here, too",
    "ovn-controller - br-int remote": "a simulated switch has a network namespace of its own, so a controller at 127.0.0.1 does not reach it",
    "nsh - decap header": "NSH is neither read nor executed",
    "conntrack - all-zero IP SNAT": "a connection that both ends have closed is in the state `CLOSING`, in Open vSwitch in `TIME_WAIT`",
    "vtep: 3 HVs, 1 VIFs/HV, 1 GW, 1 LS": "needs ovs-vtep and ovn-controller-vtep, which set-up does not fetch",
    "router - check packet length - icmp defrag": "the case expects that `ofproto/trace` sends a frame to the controller, which answers it: here a trace has no effects",
    "conntrack - IPv4 fragmentation with fragments specified": PACKET_OUT,
    "conntrack - IPv4 fragmentation out of order": PACKET_OUT,
    "conntrack - IPv6 fragmentation with fragments specified": PACKET_OUT,
    "conntrack - IPv6 fragmentation out of order": PACKET_OUT,
    "conntrack - IPv6 fragmentation, multiple extension headers": PACKET_OUT,
    "conntrack - IPv6 fragmentation, multiple extension headers + out of order": PACKET_OUT,
    "conntrack - IPv6 fragmentation, multiple extension headers 2": PACKET_OUT,
    "conntrack - IPv6 fragmentation, multiple extension headers 2 + out of order": PACKET_OUT,
    "conntrack - SNAT with icmp_id": "a translation takes a free identifier of ICMP at random, Open vSwitch the next one",
    "QoS - basic configuration": "`qos` of other types than `linux-noop` is refused",
    "datapath - push mpls decap mpls actions": "`encap` and `decap` of MPLS are neither read nor executed",
    "conntrack - zone-based timeout policy": "timeout policies of zones (CT_Timeout_Policy) have no effect",
    "Mirror - remote": "the switch has no command `tnl/neigh/set`, by which the case names the next hop of a tunnel to another network; it has no interfaces of type `erspan` either",
    "ovn mirroring": "mirrored frames are lost until the switch knows a new address and its next hop, up to a second; it has no interfaces of type `erspan` either",
    "Mirror - local": "a frame of a controller is not mirrored as one of its input port",
    "1 HVs, 1 lport/HV, localnet ports, RARP": "a bridge without ports with VLANs learns addresses without their tags",
    "Logical router policy packet marking": "`pkt_mark` does not pass a patch port",
    "Migration of CT zone from UUID to name": LOG,
    "NXT_CT_FLUSH_ZONE count": LOG,
    "datapath - ping6 between two ports IPv6 later fragments": NO_COPY,
    "datapath - basic truncate action": MAX_LEN,
    "datapath - truncate and output to gre tunnel by simulated packets": MAX_LEN,
    "pod to pod with localnet_learn_fdb": LOG,
    "Check default openflow flows": "a request for a number that another port has does not take it away",
    "spine-leaf: 3 HVs, 3 LSs, connected via distributed spine switch": TRACE,
    "multiple encap ips selection for localnet packets": TRACE,
    "IPv6 switching - megaflow check for IPv6 src/dst matches": MEGAFLOW,
    "IPv4/v6 routing to external - megaflow check for src/dst matches": MEGAFLOW,
    "localnet connectivity with multiple requested-chassis, path mtu discovery (ip=ipv4, tunnel=geneve, mtu=1424)": MTU,
    "localnet connectivity with multiple requested-chassis, path mtu discovery (ip=ipv4, tunnel=vxlan, mtu=1432)": MTU,
    "localnet connectivity with multiple requested-chassis, path mtu discovery (ip=ipv6, tunnel=geneve, mtu=1404)": MTU,
    "localnet connectivity with multiple requested-chassis, path mtu discovery (ip=ipv6, tunnel=vxlan, mtu=1412)": MTU,
    "conntrack - IPv6 fragmentation": LOG,
    "conntrack - IPv4 fragmentation": "the switch has no command `dpctl/ipf-get-status`",
    "conntrack - IPv4 fragmentation expiry": "the switch has no command `dpctl/ipf-get-status`",
    "conntrack - ICMP from different source related with NAT": "`reset_counts` of flows that were added in OpenFlow 1.0 is not shown",
    "Big Load Balancer": "the machine was busy: the switch was built without optimization",
}


def outcomes(folder):
    """The cases that ended: number, file, name, outcome, place."""
    files = dict(re.findall(r"^ *(\d+): (\S+?):\d+\b", (folder / "list").read_text(), re.M))
    end = re.compile(r"^ *(\d+): (.*?) +(ok|FAILED|skipped|expected failure)\b *(.*)$", re.M)
    for number, name, outcome, place in end.findall((folder / "output").read_text(errors="replace")):
        yield int(number), files.get(number, ""), name.split(" -- parallelization")[0].strip(), outcome, place


def reason(folder, number):
    """Why a case failed: by its log, or the check that failed first."""
    texts = []
    for path in sorted(folder.glob(f"testsuite.dir/{number:0>4}/testsuite.log")) + sorted(
        folder.glob(f"testsuite.dir/{number}/testsuite.log")
    ) + sorted(folder.glob(f"testsuite.dir/{number:0>3}/testsuite.log")):
        texts.append(path.read_text(errors="replace"))
    text = "\n".join(texts)
    for pattern, words in REASONS:
        if match := re.search(pattern, text):
            return words.format(*match.groups())
    checks = re.findall(r"^(?:\./|/\S*/)?(\S+?\.at):(\d+): (.*)$", text, re.M)
    if not checks:
        return "not analysed: nothing logged"
    waited = re.search(r"(\S+\.at):(\d+): wait failed", text)
    if waited:
        # A case may wait several times at the line where it begins.
        begun = rf"(?s){re.escape(waited[1])}:{waited[2]}: waiting ((?:(?!: waiting ).)*?)\.\.\.$"
        said = re.findall(begun, text[: waited.start()], re.M)
        words = " ".join(said[-1].split()) if said else ""
        return f"not analysed: {waited[1].rsplit('/')[-1]}:{waited[2]} waited in vain {words}"
    file, line, words = checks[-1]
    return f"not analysed: {file}:{line}: {words}"


def read(suite, folder):
    if "## Test results. ##" not in (folder / "output").read_text(errors="replace"):
        sys.exit(f"suites: {suite} ended before its last case: see {folder}/output")
    cases = []
    for number, file, name, outcome, place in outcomes(folder):
        case = {"number": number, "file": os.path.basename(file), "name": name, "outcome": outcome}
        if outcome == "FAILED":
            case["reason"] = reason(folder, number)[:220]
        elif outcome == "skipped":
            case["reason"] = f"the suite skips it here {place}".strip()
        cases.append(case)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known = {case["number"]: case for case in results.get(suite, {}).get("cases", [])}
    known.update({case["number"]: case for case in cases})
    cases = [known[number] for number in sorted(known)]
    for case in cases:
        if case["outcome"] == "FAILED":
            case["reason"] = KNOWN.get(case["name"], case["reason"])
    results[suite] = {"date": datetime.date.today().isoformat(), "cases": cases}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def read_tester(folder):
    """The cases of os-ken's switch tester: which switch passes, and why Tautline does not if Open vSwitch does."""
    rows = json.loads((folder / "results.json").read_text())
    known = json.loads(TESTER.read_text())["cases"] if TESTER.exists() else []
    known = {tuple(case[:4]): case for case in known}
    for row in rows:
        passes = tuple(row.get(switch) == "ok" for switch in ("openvswitch", "tautline"))
        case = [row["version"], row["file"], row["name"], row["number"], PASSED[passes]]
        if passes == (True, False):
            said = row.get("tautline")
            case.append("not run" if said is None else said[:220] or "no reason was printed")
        known[tuple(case[:4])] = case
    lines = ",\n".join(json.dumps(known[key]) for key in sorted(known))
    TESTER.write_text(f'{{"date": "{datetime.date.today().isoformat()}", "cases": [\n{lines}\n]}}\n')


PASSED = {(True, True): "both", (True, False): "Open vSwitch", (False, True): "Tautline", (False, False): "neither"}


def tester_page():
    """The part of the page about os-ken's switch tester."""
    results = json.loads(TESTER.read_text())
    lines = [
        "", "## The switch tester of os-ken", "",
        "os-ken is OpenStack's OpenFlow library. Its switch tester writes flows, groups and meters into a switch, reads them "
        "back, sends frames by a second switch, and compares what comes back. `make suites SUITES=os-ken` runs it with Open "
        "vSwitch 4.0 and with `tautline switch`, each joined to the second switch, an Open vSwitch, by three veths "
        f"(AF_XDP at Tautline's end). These are the results of {results['date']}, all cases in "
        "[os-ken.json](results/os-ken.json). Cases of groups and meters compare rates within 10 %; the tester sends too little "
        "for them where the machine has other work.", "",
        "| OpenFlow | cases | both pass | only Open vSwitch passes | only Tautline passes | neither passes |",
        "|---|---|---|---|---|---|",
    ]
    for version, name in (("of10", "1.0"), ("of13", "1.3"), ("of14", "1.4")):
        cases = [case for case in results["cases"] if case[0] == version]
        counts = [sum(case[4] == who for case in cases) for who in ("both", "Open vSwitch", "Tautline", "neither")]
        lines.append(f"| {name} | {len(cases)} | " + " | ".join(map(str, counts)) + " |")
    reasons = {}
    for case in results["cases"]:
        if case[4] == "Open vSwitch":
            reasons.setdefault(case[5], []).append(f"{case[0]} {case[1]}: {case[2]}")
    if reasons:
        lines += ["", "What Open vSwitch passes and Tautline does not:", "", "| what the tester says | cases |", "|---|---|"]
        for why, of in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0])):
            lines.append(f"| {cell(why)} | {'; '.join(cell(name) for name in of)} |")
    return lines


def cell(text):
    return text.replace("|", "\\|").replace("<", "\\<").replace("\n", " ")


def page(results):
    lines = [
        "# The suites of OVN and Open vSwitch", "",
        "The own test suites of OVN and Open vSwitch, of Debian's source packages, run with `tautline switch` in the place of "
        "ovs-vswitchd; all other programs are Debian's. A program between the switch and its database "
        "(`scripts/suites/ovs-vswitchd.py`) is the other end of simulated interfaces (`--enable-dummy`): of vhost-user ports, "
        "and of TAPs for the interfaces of bridges. It leaves one thing out of the captures that the cases compare: ARP between "
        "the ends of tunnels, for which this switch asks before the first frame and Open vSwitch with it. This page is made from [suites.json](results/suites.json).", "",
        "<!-- test: parse, it takes hours -->", "```sh", 'make suites', 'make suites SUITES="ovn"', "```", "",
        "| suite | cases run | pass | fail | the suite skips | day |", "|---|---|---|---|---|---|",
    ]
    for suite, words in SUITES.items():
        cases = results.get(suite, {}).get("cases", [])
        if not cases:
            lines.append(f"| `{suite}`: {words} | not run yet | | | | |")
            continue
        count = lambda outcome: sum(case["outcome"] == outcome for case in cases)
        lines.append(
            f"| `{suite}`: {words} | {len(cases)} | {count('ok')} | {count('FAILED')} | {count('skipped')} | "
            f"{results[suite]['date']} |"
        )
    for suite in SUITES:
        cases = [case for case in results.get(suite, {}).get("cases", []) if case["outcome"] == "FAILED"]
        if not cases:
            continue
        lines += ["", f"## What fails in `{suite}`", ""]
        reasons = {}
        for case in cases:
            reasons.setdefault(case["reason"], []).append(case)
        lines += ["| reason | cases |", "|---|---|"]
        for why, of in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0])):
            names = "; ".join(cell(f"{case['number']} {case['name']}") for case in of)
            lines.append(f"| {cell(why)} | {names} |")
    if TESTER.exists():
        lines += tester_page()
    PAGE.write_text("\n".join(lines) + "\n")


# How many cases of a file pass at least. The variants of a case for other settings of OVN do not run.
GOALS = {"ovn.at": 240, "system-ovn.at": 60, "system-traffic.at": 70}


def check_goals():
    """Ends with 1 if fewer cases pass."""
    cases = [case for suite in json.loads(RESULTS.read_text()).values() for case in suite["cases"]]
    missed = False
    for file, goal in GOALS.items():
        passed = sum(case["file"] == file and case["outcome"] == "ok" for case in cases)
        print(f"{file}: {passed} cases pass, of which {goal} must")
        missed |= passed < goal
    sys.exit(missed)


def main():
    if sys.argv[1:2] == ["os-ken"]:
        read_tester(pathlib.Path(sys.argv[2]))
    elif len(sys.argv) == 3:
        read(sys.argv[1], pathlib.Path(sys.argv[2]))
    page(json.loads(RESULTS.read_text()))
    if sys.argv[1:] == ["goals"]:
        check_goals()


main()
