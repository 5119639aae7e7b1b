#!/usr/bin/env python3
"""The pictures of docs/pictures: a page of `compare` at three widths and in its dark form, and a run's last screen.

pictures.py PAGE SCREEN   PAGE is what --html wrote; SCREEN what `tautline --color always compare` printed
"""

import collections
import html
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zlib

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "docs/pictures"
PAGES = {"page-390": (390, 1290), "page-800": (800, 1180), "page-1400": (1400, 1150)}
DARK = "page-dark", (1400, 800)
# What a terminal shows of the program's colours.
COLORS = {"1": "#cd3131", "9": "#f14c4c", "2": "#0dbc79", "10": "#23d18b", "3": "#e5e510", "11": "#f5f543", "8": "#8a8a8a"}
TERMINAL = "<meta charset=utf-8><style>body { margin: 0; background: #16191d; color: #d6d9dc } pre { margin: 0; padding: 14px 16px; font: 14px/1.3 'DejaVu Sans Mono', monospace }</style><pre>"


# Chromium leaves the lowest rows of its window blank.
BLANK = 100


def shoot(page, width, height, dark=False):
    """What Chromium shows of a page, as a small PNG."""
    with tempfile.TemporaryDirectory() as folder:
        picture = pathlib.Path(folder, "picture.png")
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
        command += [f"--user-data-dir={folder}/profile", f"--screenshot={picture}", f"--window-size={width},{height + BLANK}"]
        command += ["--blink-settings=preferredColorScheme=0"] if dark else []
        subprocess.run([*command, f"file://{pathlib.Path(page).resolve()}"], check=True, capture_output=True)
        return small(pixels(picture.read_bytes())[:height])


def pixels(png):
    """Rows of (red, green, blue) of a PNG of 8 bits a channel, not interlaced, as Chromium writes it."""
    at, header, data = 8, None, b""
    while at < len(png):
        (length,), kind = struct.unpack(">I", png[at : at + 4]), png[at + 4 : at + 8]
        chunk = png[at + 8 : at + 8 + length]
        header = chunk if kind == b"IHDR" else header
        data += chunk if kind == b"IDAT" else b""
        at += 12 + length
    width, height, depth, color, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    assert depth == 8 and color in (2, 6) and not interlaced, header
    each = 3 if color == 2 else 4
    raw, rows, above = zlib.decompress(data), [], bytearray(width * each)
    for row in range(height):
        start = row * (width * each + 1)
        method, line = raw[start], bytearray(raw[start + 1 : start + 1 + width * each])
        for index in range(len(line)) if method else ():
            left = line[index - each] if index >= each else 0
            corner = above[index - each] if index >= each else 0
            up = above[index]
            near = min((abs(up - corner), 0, left), (abs(left - corner), 1, up), (abs(left + up - 2 * corner), 2, corner))[2]
            line[index] = line[index] + (0, left, up, (left + up) // 2, near)[method] & 255
        rows.append([tuple(line[place : place + 3]) for place in range(0, len(line), each)])
        above = line
    return rows


def small(rows):
    """A PNG with the 128 colours that occur most often; others become the nearest of these."""
    counts = collections.Counter(pixel for row in rows for pixel in row)
    palette = [color for color, _ in counts.most_common(128)]
    distance = lambda one, other: sum((a - b) ** 2 for a, b in zip(one, other))
    place = {color: min(range(len(palette)), key=lambda at: distance(color, palette[at])) for color in counts}
    data = b"".join(b"\0" + bytes(place[pixel] for pixel in row) for row in rows)
    chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)
    colors = b"".join(bytes(color) for color in palette)
    whole = chunk(b"IHDR", header) + chunk(b"PLTE", colors) + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + whole


def terminal(text):
    """A page that looks as a terminal does; control sequences other than colours are left out."""
    page, open_spans = TERMINAL, 0
    for piece in re.split(r"(\x1b\[[0-9;]*[A-Za-z])", text.rstrip("\n")):
        if not piece.startswith("\x1b["):
            page += html.escape(piece)
            continue
        if not piece.endswith("m"):
            continue
        codes = piece[2:-1].split(";")
        styles = ["font-weight: bold; color: #fff"] if codes == ["1"] else []
        color = codes[2] if codes[:2] == ["38", "5"] and len(codes) > 2 else codes[0][1:] if re.fullmatch("3[0-7]", codes[0]) else None
        styles += [f"color: {COLORS[color]}"] if color in COLORS else []
        if styles:
            page, open_spans = page + f'<span style="{"; ".join(styles)}">', open_spans + 1
        else:
            page, open_spans = page + "</span>" * open_spans, 0
    return page + "</span>" * open_spans + "</pre>"


def main(page, screen):
    FOLDER.mkdir(exist_ok=True)
    made = {name: shoot(page, *size) for name, size in PAGES.items()}
    made[DARK[0]] = shoot(page, *DARK[1], dark=True)
    text = pathlib.Path(screen).read_text()
    with tempfile.NamedTemporaryFile("w", suffix=".html") as file:
        file.write(terminal(text))
        file.flush()
        lines = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text.rstrip("\n")).splitlines()
        width = round(max(map(len, lines)) * 8.43) + 32
        made["terminal"] = shoot(file.name, width, round(len(lines) * 18.2) + 30)
    for name, png in made.items():
        file = FOLDER / f"{name}.png"
        file.write_bytes(png)
        print(f"{file}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
