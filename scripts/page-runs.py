#!/usr/bin/env python3
"""Runs whose figures a page has, kept with their commit and machine, and the tables that pages make of them.

page-runs.py run [NAME...]   makes each run anew (all without a name), keeps it in bench-results/pages/NAME.json.gz
                             and writes its part of its page
page-runs.py write [NAME...] writes the parts of the pages from the kept runs
page-runs.py pages           prints the pages with such parts
page-runs.py check           exit status 1 if a page has a part that does not follow from its kept run; a run that
                             was never kept has none

A part stands between `<!-- run: NAME -->` and `<!-- run: end -->`. The runs need the release program and a machine
without other work; `make page-runs` calls this. Schema tautline-page-run/1, described in docs/results-schema.md.
"""

import dataclasses
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import records

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "bench-results/pages"


@dataclasses.dataclass(frozen=True)
class Run:
    """The commands behind a part of a page, and how the part is made of what they print."""

    page: str
    # For the shell; {folder} is a folder of the run's own.
    commands: tuple[str, ...]
    part: Callable[[list[str]], str]


def table(heading, rows):
    """A table of Markdown."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def tables(printed):
    """The tables of a text, by the title above each: the heading and the rows, each a list of cells."""
    lines, found = printed.splitlines(), {}
    for index, line in enumerate(lines):
        if index < 2 or not re.fullmatch(r"─+", line.strip()):
            continue
        begins = [match.start(1) for match in re.finditer(r"(?:^ ?|  +)(\S)", lines[index - 1])]
        cells = lambda row: [row[a:b].strip() for a, b in zip(begins, [*begins[1:], None])]
        rows = []
        for row in lines[index + 1 :]:
            # A table ends at an empty line, or at its remark.
            if not row.strip() or not re.search(r"\S  +\S", row):
                break
            rows.append(cells(row))
        found[lines[index - 2].strip()] = (cells(lines[index - 1]), rows)
    return found


def packet_cost(printed):
    """Three of the tables of `compare --only net`."""
    found, parts = tables(printed[0]), []
    for title in ("UDP stream, 64 bytes", "UDP stream, 390 bytes, 1000 connections", "UDP round trip, 64 bytes"):
        heading, rows = found[title]
        parts.append(f"{title}:\n\n{table(heading, rows)}")
    return "\n".join(parts)


def users(printed):
    """The numbers of users that fit, by interval and environment."""
    rows = []
    for title, text in zip(("1 ms, at most 20 of 1000 missed", "50 ms, at most 50 of 1000 missed"), printed):
        names, fit = (re.split(r"  +", line.strip()) for line in re.search(r"^ users.*$\n─+\n(?: .*$)", text, re.M)[0].splitlines()[::2])
        of = dict(zip(names[1:], fit[1:]))
        emulated = f"{of['vm']} †" if "vm" in of else ""
        rows.append([title, of["host"], of["container"], emulated])
    return table(["a tick every", "users that fit on the host", "in containers", "in guests"], rows)


def beside_cyclictest(printed):
    """The medians of `make check-tti`."""
    rows = []
    for block in re.split(r"^(?=\S.*, load \w+, µs: median of)", printed[0], flags=re.M)[1:]:
        where = re.match(r"(\w+), load (\w+)", block)
        figures = re.findall(r"^  .*? p50 +([\d.]+) p99 +([\d.]+)", block, re.M)
        rows.append([f"{where[1]}, {where[2]}", *(f"{p50}, {p99}" for p50, p99 in figures)])
    heading = ["where, load", "`--wait timer` p50, p99", "cyclictest p50, p99", "another CPU's tick p50, p99"]
    return table(heading, rows)


def printed_as_it_is(printed):
    """The tables that `make torture-peers` prints are those of the page."""
    text = "\n".join(printed)
    lines = [line for line in text.splitlines() if line.startswith("|") or re.match(r"(DPDK|ovs|Open vSwitch)", line)]
    named = [line if line.startswith("|") else f"\n**{line}**\n" for line in lines]
    return "\n".join(named).strip() + "\n"


def sums(printed):
    """The lines in which the tests of `make recovery` sum up."""
    found = []
    for text in printed:
        for line in text.splitlines():
            if re.search(r"\d (kills|take-overs)[,:;]|\(median of \d+, emulated\)|: \d+ frames, \d+ lost", line):
                found.append(re.sub(r"^test \S+ \.\.\. ", "", line.strip()))
    return "```text\n" + "\n".join(found) + "\n```\n"


# Rows of `kvm costs` beside those of the ARM study, table II: its name, cycles on Arm, cycles on x86.
ARM_STUDY = {
    "hypercall": ("Hypercall", "6,500", "1,300"),
    "interrupt-controller": ("Interrupt Controller Trap", "7,370", "2,384"),
    "ioeventfd-to-thread": ("I/O Latency Out", "6,024", "560"),
    "inject-irqfd-spinning": ("I/O Latency In", "13,872", "18,923"),
    "eoi": ("Virtual IRQ Completion", "71", "1,556"),
    "ipi-spinning": ("Virtual IPI", "11,557", "5,230"),
    "vm-switch": ("VM Switch", "10,387", "4,812"),
}


def vhe(printed):
    """The table of `make bench-vhe`, beside published figures."""
    text = "\n".join(printed)
    lines = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in text.splitlines() if line.startswith("| ")]
    count = lambda text: f"{int(text):,}"
    among = lambda least, most: count(least) if least == most else f"{count(least)} to {count(most)}"
    rows, spreads, same = [], [], 0
    for row, *vhe, ratio in lines[1:]:
        modes = vhe[:4], vhe[4:]
        same += all(least == most for least, _, most, _ in modes)
        spreads.append(max(float(spread) for *_, spread in modes))
        name, arm, x86 = ARM_STUDY.get(row, ("", "", ""))
        cells = [cell for least, middle, most, spread in modes for cell in (count(middle), among(least, most))]
        rows.append([f"`{row}`", name, *cells, ratio, arm, x86])
    boots = re.search(r"of (\d+) boots with VHE and (\d+) without", text)
    heading = ["row", "ARM study", "VHE", "least to most", "without", "least to most", "ratio", "published: Arm, cycles", "published: x86, cycles"]
    remark = (
        f"Medians of 200 samples: the middle one of {boots[1]} boots with VHE and of {boots[2]} without, and the least and "
        f"the most. {same} of {len(rows)} rows had the same median in all boots of a mode; the largest spread of a row is "
        f"{max(spreads):.1f} %."
    )
    return f"{table(heading, rows)}\n{remark}\n"


TAUTLINE = "target/{host}/release/tautline"
RUNS = {
    "packet-cost": Run(
        "docs/what-does-a-packet-cost.md",
        (
            f"{TAUTLINE} compare --quick --only net --environments host,container --output {{folder}}/net.json "
            f">{{folder}}/log 2>&1 && {TAUTLINE} report {{folder}}/net.json --format text",
        ),
        packet_cost,
    ),
    "scenarios": Run(
        "docs/scenarios.md",
        (
            f"{TAUTLINE} scenario base-station --environments host,container --repeat 6 --time 500ms "
            "--missed-per-thousand 20 --output {folder}/fast.json",
            f"{TAUTLINE} scenario --list | sed '/control-loop.toml/,$d; s/^interval_us.*/interval_us = 50000/; "
            "s/^deadline_us.*/deadline_us = 50000/' >{folder}/slow.toml && "
            f"{TAUTLINE} scenario {{folder}}/slow.toml --environments host,container,vm:accel=tcg --repeat 6 --time 2s "
            "--missed-per-thousand 50 --output {folder}/slow.json",
        ),
        users,
    ),
    "tti": Run("docs/tti.md", ("make check-tti",), beside_cyclictest),
    "torture": Run("docs/torture.md", ("make torture-peers SECONDS=5",), printed_as_it_is),
    "vhe": Run("docs/kvm.md", ("make bench-vhe",), vhe),
    "upgrade": Run("docs/upgrade.md", ("make recovery",), sums),
}


def kept(name):
    """Where a run is kept."""
    return KEPT / f"{name}.json.gz"


def make(name):
    """Makes a run and keeps it."""
    host = re.search(r"^host: (.*)$", subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout, re.M)[1]
    done = []
    with tempfile.TemporaryDirectory() as folder:
        for command in RUNS[name].commands:
            print(f"page-runs: {name}: {command}", flush=True)
            line, began = command.format(folder=folder, host=host), time.monotonic()
            printed = []
            with subprocess.Popen(
                line, shell=True, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
            ) as running:
                for text in running.stdout:
                    print(text, end="", flush=True)
                    printed.append(text)
            if running.returncode:
                sys.exit(f"page-runs: {name} is not kept: `{line}` ended with {running.returncode}")
            done.append(
                {
                    "command": re.sub(r"\S*/release/tautline", "tautline", command).replace("{folder}/", ""),
                    "seconds": round(time.monotonic() - began),
                    "printed": records.without_places("".join(printed)).replace(folder, ""),
                }
            )
        results = {file.stem: json.loads(file.read_text()) for file in sorted(pathlib.Path(folder).glob("*.json"))}
    run = {
        "schema": "tautline-page-run/1",
        "name": name,
        "date": records.today(),
        "commit": records.commit(),
        "machine": records.machine(),
        "commands": done,
        "results": results,
    }
    KEPT.mkdir(parents=True, exist_ok=True)
    kept(name).write_bytes(gzip.compress(json.dumps(run, ensure_ascii=False, indent=1).encode(), mtime=0))


def part(name):
    """The text that a page has of its kept run."""
    run = json.loads(gzip.decompress(kept(name).read_bytes()))
    machine, commands = run["machine"], run["commands"]
    seconds = sum(command["seconds"] for command in commands)
    link = os.path.relpath(kept(name), (ROOT / RUNS[name].page).parent)
    head = (
        f"Run of {run['date']} at commit {run['commit'][:8]} ([kept]({link})): {machine['cpu_model']}, "
        f"{machine['cpus']} CPUs, kernel {machine['kernel']}, {seconds} s."
    )
    return f"{head}\n\n{RUNS[name].part([command['printed'] for command in commands])}"


def written(name):
    """The page, and the page with the part of its kept run."""
    page = ROOT / RUNS[name].page
    text = page.read_text()
    begin, end = f"<!-- run: {name} -->\n", "<!-- run: end -->"
    before, found, rest = text.partition(begin)
    if not found or end not in rest:
        sys.exit(f"page-runs: {RUNS[name].page} has no part between `{begin.strip()}` and `{end}`")
    return text, f"{before}{begin}\n{part(name)}\n{end}{rest.partition(end)[2]}"


def main(what, *names):
    os.chdir(ROOT)
    if what == "pages":
        print("\n".join(run.page for run in RUNS.values()))
        return
    unknown = [name for name in names if name not in RUNS]
    if unknown or what not in ("run", "write", "check"):
        sys.exit(f"page-runs: {' '.join(unknown) or what} is unknown; the runs are {' '.join(RUNS)}")
    differing = []
    for name in names or RUNS:
        if what == "run":
            make(name)
        if not kept(name).exists():
            continue
        was, now = written(name)
        if was != now and what == "check":
            differing.append(RUNS[name].page)
        elif was != now:
            (ROOT / RUNS[name].page).write_text(now)
    if differing:
        sys.exit(f"page-runs: `scripts/page-runs.py write` would change {' '.join(differing)}")


if __name__ == "__main__":
    main(*sys.argv[1:] or ["check"])
