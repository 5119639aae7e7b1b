"""What each record of a run says of its machine, its day and its commit."""

import datetime
import os
import pathlib
import platform
import re
import subprocess


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


def today():
    """The day in UTC, as YYYY-MM-DD."""
    return datetime.datetime.now(datetime.timezone.utc).date().isoformat()


def commit():
    """The commit of the work tree."""
    return subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def without_places(text):
    """A text without the colours of a terminal and without the folders of this machine."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    return text.replace(os.getcwd(), ".").replace(os.path.expanduser("~"), "~")
