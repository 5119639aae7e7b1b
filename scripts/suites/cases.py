#!/usr/bin/env python3
"""Prints the numbers of the cases of a suite that start a switch, one of the variants of each.

cases.py SOURCE FILE…: reads what `testsuite --list` prints from its standard input. SOURCE is the folder of the suite's
sources, FILE the name of a part of it, such as ovn.at.
"""

import pathlib
import re
import sys

SWITCH = re.compile(r"\b(sim_add|net_add|ovn_attach|OVS_VSWITCHD_START|OVS_TRAFFIC_VSWITCHD_START)\b")


def main():
    source, files = pathlib.Path(sys.argv[1]), sys.argv[2:]
    texts = {file: (source / file).read_text().splitlines() for file in files}
    chosen = {}
    for line in sys.stdin:
        match = re.match(r" *(\d+): (\S+?):(\d+)\b", line)
        if match and match[2] in texts:
            # The last variant is that without further options.
            chosen[match[2], int(match[3])] = match[1]
    for (file, first), number in chosen.items():
        text = texts[file][first - 1 :]
        end = next((at for at, line in enumerate(text) if line.startswith("AT_CLEANUP")), len(text))
        if SWITCH.search("\n".join(text[:end])):
            print(number)


main()
