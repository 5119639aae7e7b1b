#!/usr/bin/env python3
"""The record of `make test-long`: each step in a file of its own, then all of them in one.

long-record.py step FOLDER NAME COMMAND STATUS SECONDS   keeps a step, whose output is in FOLDER/NAME.log
long-record.py write FOLDER COMMIT NAME...               writes bench-results/long/DATE-COMMIT.json if all of these ran
"""

import datetime
import json
import os
import pathlib
import platform
import re
import sys

LINES = 30
NOISE = re.compile(r"^\s*$|^\s*(Compiling|Finished|Running|Checking|Downloaded|Downloading|Locking|Updating) |^make\[")


def step(folder, name, command, status, seconds):
    """Keeps a step: what ran, when, for how long, how it ended, and the last lines that it printed."""
    text = (folder / f"{name}.log").read_text(errors="replace")
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    # A record says nothing of where its machine keeps things.
    text = text.replace(os.getcwd(), ".").replace(os.path.expanduser("~"), "~")
    lines = [line.rstrip()[:400] for line in text.splitlines() if not NOISE.match(line)]
    entry = {
        "name": name,
        "command": command,
        "ended": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "passed": status == "0",
        "seconds": int(seconds),
        "shown": lines[-LINES:],
    }
    (folder / f"{name}.json").write_text(json.dumps(entry))


def machine():
    """The facts of this machine that its figures depend on."""
    cpu = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    memory = re.search(r"^MemTotal:\s*(\d+) kB", pathlib.Path("/proc/meminfo").read_text(), re.M)
    return {
        "cpu_model": cpu.group(1) if cpu else platform.machine(),
        "cpus": os.cpu_count(),
        "memory_mib": int(memory.group(1)) // 1024 if memory else None,
        "kernel": platform.release(),
    }


def write(folder, commit, *names):
    """Writes the record of all steps, whole or not at all."""
    missing = [name for name in names if not (folder / f"{name}.json").exists()]
    if missing:
        print(f"test-long: no record yet; missing at this commit: {' '.join(missing)}")
        return
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    steps = [json.loads((folder / f"{name}.json").read_text()) for name in names]
    record = {
        "schema": "tautline-long/1",
        "date": today,
        "commit": commit,
        "machine": machine(),
        "steps": steps,
    }
    place = pathlib.Path("bench-results/long")
    place.mkdir(parents=True, exist_ok=True)
    file = place / f"{today}-{commit[:12]}.json"
    new = file.with_suffix(".new")
    new.write_text(json.dumps(record, indent=1) + "\n")
    new.replace(file)
    print(f"test-long: {file}")


if __name__ == "__main__":
    what, place, *rest = sys.argv[1:]
    {"step": step, "write": write}[what](pathlib.Path(place), *rest)
