#!/usr/bin/env python3
"""The records of `make test-long`: each step in a file of its own, then those of one commit in one.

long-record.py step FOLDER NAME COMMAND STATUS SECONDS   keeps a step, whose output is in FOLDER/NAME.log
long-record.py write FOLDER COMMIT NAME...               writes those of these steps that ran into
                                                         bench-results/long/DATE-COMMIT.json, DATE the commit's
long-record.py check                                     exit status 1 if a step of scripts/test-long.sh has no record,
                                                         one older than 150 commits, or failed when last run
"""

import datetime
import json
import pathlib
import re
import subprocess
import sys

import records

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "bench-results/long"
# How many commits a step's last record may be behind.
BEHIND = 150
LINES = 30
NOISE = re.compile(r"^\s*$|^\s*(Compiling|Finished|Running|Checking|Downloaded|Downloading|Locking|Updating) |^make\[")


def step(folder, name, command, status, seconds):
    """Keeps a step: what ran, when, for how long, how it ended, and the last lines that it printed."""
    text = records.without_places((folder / f"{name}.log").read_text(errors="replace"))
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


def git(*arguments):
    """What git prints of this repository."""
    return subprocess.run(["git", "-C", ROOT, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def write(folder, commit, *names):
    """Writes the record of the steps that ran at this commit, and says which did not."""
    files = {name: folder / f"{name}.json" for name in names}
    record = {
        "schema": "tautline-long/1",
        "date": records.today(),
        "commit": commit,
        "machine": records.machine(),
        "steps": [json.loads(file.read_text()) for file in files.values() if file.exists()],
    }
    KEPT.mkdir(parents=True, exist_ok=True)
    file = KEPT / f"{git('show', '-s', '--format=%cs', commit)}-{commit[:12]}.json"
    new = file.with_suffix(".new")
    new.write_text(json.dumps(record, indent=1) + "\n")
    new.replace(file)
    missing = [name for name, file in files.items() if not file.exists()]
    print(f"test-long: {file.relative_to(ROOT)}; " + (f"not run at this commit: {' '.join(missing)}" if missing else "whole"))


def check():
    """Ends with the steps whose last record is missing, too old or names a failure."""
    names = re.findall(r"^step (\S+)", (ROOT / "scripts/test-long.sh").read_text(), re.M)
    last = {}
    for file in KEPT.glob("*.json"):
        record = json.loads(file.read_text())
        behind = int(git("rev-list", "--count", f"{record['commit']}..HEAD"))
        for step in record["steps"]:
            one = (behind, step["ended"], step["passed"])
            last[step["name"]] = min(last.get(step["name"], one), one)
    wrong = []
    for name in names:
        behind, ended, passed = last.get(name, (None, None, None))
        if behind is None:
            wrong.append(f"{name} has no record")
        elif behind > BEHIND:
            wrong.append(f"{name} ran {behind} commits ago, at most {BEHIND} are allowed")
        elif not passed:
            wrong.append(f"{name} failed at {ended}")
    if wrong:
        sys.exit("test-long: " + "; ".join(wrong) + f'; remedy: make test-long STEPS="…", and commit {KEPT.relative_to(ROOT)}')


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "check":
        check()
    else:
        {"step": step, "write": write}[what](pathlib.Path(rest[0]), *rest[1:])
