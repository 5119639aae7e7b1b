#!/usr/bin/env python3
"""`make docs`: all pages as a site in target/docs/book, by mdBook, and every link in it followed.

docs.py MDBOOK   the program; what it reads is made in target/docs
docs.py --check FOLDER   follows the links of a site that is there
"""

import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "target/docs"
SOURCES = FOLDER / "src"
BEFORE, AFTER = "README.md", ["CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md", "MAINTAINERS.md", "ARCHITECTURE.md"]
LINK = re.compile(r"\]\(([^)\s]+)\)")
BOOK = """[book]
title = "Tautline"
src = "src"
language = "en"
[build]
build-dir = "book"
create-missing = false
[output.html]
input-404 = ""
default-theme = "light"
preferred-dark-theme = "navy"
[output.html.print]
enable = false
[output.html.playground]
runnable = false
[output.html.fold]
enable = true
"""


def kept(pattern):
    names = subprocess.run(["git", "ls-files", "-z", pattern], cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in names.stdout.split("\0") if name]


def is_outside(link):
    return "://" in link or link.startswith(("#", "mailto:"))


def title(page):
    for line in page.splitlines():
        if line.startswith("# "):
            return line[2:].strip()
    return "Untitled"


def listing(folder):
    """A page for a folder that has none: the pages in it, or the names of its files."""
    pages = sorted(SOURCES / name for name in kept(f"{folder}/*.md"))
    lines = [f"- [{title(page.read_text())}]({page.relative_to(SOURCES / folder)})" for page in pages]
    lines = lines or [f"- `{name}`" for name in kept(f"{folder}/*")]
    return f"# {folder}\n\n" + "\n".join(lines) + "\n"


def complete(name, pages):
    """Gives a page what it links to: files of the repository are copied, folders get a page of their own."""
    path = SOURCES / name
    text = path.read_text()

    def lead(match):
        link = match.group(1)
        file, hash_mark, heading = link.partition("#")
        target = pathlib.Path(os.path.normpath(pathlib.Path(name).parent / file))
        if is_outside(link) or not file or str(target).startswith(".."):
            return match.group(0)
        if (ROOT / target).is_dir():
            page = str(target / "README.md")
            if page not in pages:
                pages.append(page)
                (SOURCES / target).mkdir(parents=True, exist_ok=True)
                (SOURCES / page).write_text(listing(target))
            target = target / "README.md"
        copy = SOURCES / target
        if not copy.exists() and (ROOT / target).is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / target, copy)
        # mdBook makes index.html of README.md, and leaves links to it as they are.
        shown = target.with_name("index.md") if target.name == "README.md" else target
        return f"]({os.path.relpath(shown, pathlib.Path(name).parent)}{hash_mark}{heading})"

    path.write_text(LINK.sub(lead, text))


def summary(pages):
    """The contents: by task as docs/README.md has them, then every other page."""
    lines, left = ["# Summary\n", f"[Tautline]({BEFORE})"], [page for page in pages if page != BEFORE]

    def entry(page, name=None):
        left.remove(page)
        return f"- [{name or title((SOURCES / page).read_text())}]({page})"

    lines.append(entry("docs/README.md")[2:])
    for line in (SOURCES / "docs/README.md").read_text().splitlines():
        if line.startswith("## "):
            lines.append(f"\n# {line[3:]}\n")
        for link in LINK.findall(line):
            page = os.path.normpath(pathlib.Path("docs") / link.partition("#")[0])
            if page in left and page not in AFTER:
                lines.append(entry(page))
    lines.append("\n# The project\n")
    lines += [entry(page) for page in AFTER]
    lines.append("\n# Records and decisions\n")
    lines += [entry(page) for page in sorted(left)]
    return "\n".join(lines) + "\n"


def make(mdbook):
    shutil.rmtree(FOLDER, ignore_errors=True)
    pages = [name for name in kept("*.md") if not name.startswith(".github/")]
    for name in pages:
        (SOURCES / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, SOURCES / name)
    for name in list(pages):
        complete(name, pages)
    (SOURCES / "SUMMARY.md").write_text(summary(pages))
    (FOLDER / "book.toml").write_text(BOOK)
    subprocess.run([mdbook, "build", FOLDER], check=True)
    return FOLDER / "book", len(pages)


class Page(html.parser.HTMLParser):
    """The anchors of a page, and what it links to."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = {""}, []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors.update(found[name] for name in ("id", "name") if found.get(name))
        self.links += [found[name] for name in ("href", "src") if found.get(name)]


def dead_links(book):
    pages = {path.resolve(): Page(path) for path in book.rglob("*.html")}
    dead, followed = [], 0
    for path, page in pages.items():
        for link in page.links:
            at = urllib.parse.urlsplit(link)
            if at.scheme or at.netloc:
                continue
            followed += 1
            target = (path.parent / urllib.parse.unquote(at.path)).resolve() if at.path else path
            target = target / "index.html" if target.is_dir() else target
            anchors = pages[target].anchors if target in pages else {""}
            if not target.is_file() or target in pages and urllib.parse.unquote(at.fragment) not in anchors:
                dead.append(f"{path.relative_to(book.resolve())}: {link}")
    return sorted(set(dead)), followed, len(pages)


def main(arguments):
    if arguments[:1] == ["--check"]:
        book, least = pathlib.Path(arguments[1]), 1
    else:
        book, least = make(arguments[0])
    dead, followed, pages = dead_links(book)
    print(f"{book}: {pages} pages, {followed} links followed, {len(dead)} dead")
    print("\n".join(dead), end="\n" if dead else "")
    return 1 if dead or pages < least or not followed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
