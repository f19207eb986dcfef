"""Make a text of Debian's documentation: English prose of packages, fetched by name with apt-get.

    python -m lab.words.debian_text FOLDER [PACKAGE ...]

Each package is downloaded, its pages (HTML, text, Markdown, reStructuredText, packed or not) are read without being
installed, and FOLDER/PACKAGE.txt.xz is written, a paragraph a line. A paragraph is kept that has 8 words, most of its
characters letters, a fifth of its words among the commonest of English, and that was in no earlier package: pages
repeat each other much. What is there already is not made again. It takes Debian or Ubuntu, and ``apt-get update``
before. The packages named below, if none is named, have their texts under free licences; the text is for measuring
only.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import lzma
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

PACKAGES = """
anarchism aptitude-doc-en axiom-doc bacula-doc bash-doc bind9-doc castle-game-engine-doc cppreference-doc-en-html
csound-doc db5.3-doc debian-edu-doc-en debian-handbook debian-history debian-policy debian-reference-en
developers-reference dict-gcide doc-debian erlang-doc freedombox-doc-en ghc-doc gimp-help-en git-doc gnucash-docs
gnuplot-doc grass-doc harden-doc imagemagick-6-doc installation-guide-amd64 jedit kicad-doc-en lazarus-doc-2.2
libasio-doc libboost1.74-doc libreoffice-help-en-us libsdl2-doc libstdc++-12-doc linux-doc-6.1 maint-guide maxima-doc
mercurial-common nagios4-common ns3-doc octave-doc opencv-doc openjdk-17-doc openms-doc pacemaker-doc petsc3.18-doc
postfix-doc postgresql-doc-15 praw-doc python-astropy-doc python-biopython-doc python-django-doc python-pandas-doc
python-scipy-doc python-sklearn-doc python-sqlalchemy-doc python-statsmodels-doc python-sympy-doc python3.11-doc
qtbase5-doc-html qtdeclarative5-doc-html r-doc-html racket-doc renpy-doc rust-doc sagemath-doc singular-doc sumo-doc
vim-doc virtuoso-vad-doc wesnoth-1.16-data zsh-doc
"""
PAGES = re.compile(r"\.(x?html?|txt|md|rst|cfg|dict)(\.gz|\.dz)?$|/(README|NEWS|HISTORY|FAQ)[^/]*$")
BREAKS = re.compile(
    r"(?is)<(script|style|pre)\b.*?</\1>|</?(p|div|li|td|tr|dd|dt|h\d|br|ul|table|section)\b[^>]*>|\n\s*\n"
)
TAGS = re.compile(r"(?s)<[^>]*>")
COMMON = """
the of and to a in is that it for as with be on by this are or not an from at which you can if have has was will but
all they when one your more its we he his her she had were been their there so no would my me him who what
"""


def fetched(package: str, folder: Path) -> Path | None:
    """Download a package; None if there is none of this name."""
    done = subprocess.run(["apt-get", "download", package], cwd=folder, capture_output=True, text=True, check=False)
    found = list(folder.glob("*.deb"))
    if done.returncode or not found:
        print(f"{package}: {done.stderr.strip().splitlines()[-1:]}", flush=True)
        return None
    return found[0]


def pages(package: Path) -> Iterator[str]:
    """Yield the pages of a package as they are."""
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as packed,
        tarfile.open(fileobj=packed.stdout, mode="r|") as members,
    ):
        for member in members:
            file = members.extractfile(member) if member.isfile() and PAGES.search(member.name) else None
            if file is not None:
                data = gzip.decompress(file.read()) if member.name.endswith("z") else file.read()
                yield data.decode("utf-8", errors="replace")


def paragraphs(page: str) -> Iterator[str]:
    """Yield the paragraphs of a page that are English prose."""
    common = set(COMMON.split())
    for part in BREAKS.sub("\0", page).split("\0"):
        text = " ".join(html.unescape(TAGS.sub(" ", part)).split())
        words = re.findall("[a-z]+", text.lower())
        letters = sum(map(len, words))
        if len(words) >= 8 and letters > 0.7 * len(text) and sum(map(common.__contains__, words)) > len(words) / 5:
            yield text


def main(arguments: list[str]) -> None:
    if not arguments or arguments[0].startswith("-"):
        sys.exit(__doc__)
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    seen: set[bytes] = set()
    total = 0
    for package in arguments[1:] or PACKAGES.split():
        path = folder / f"{package}.txt.xz"
        with tempfile.TemporaryDirectory() as here:
            if path.exists():
                with lzma.open(path, "rt", encoding="utf-8") as lines:
                    texts = [line.rstrip("\n") for line in lines]
            elif deb := fetched(package, Path(here)):
                texts = [text for page in pages(deb) for text in paragraphs(page)]
            else:
                continue
        new = []
        for text in texts:
            key = hashlib.blake2b(text.encode(), digest_size=12).digest()
            if key not in seen:
                seen.add(key)
                new.append(text)
        if not path.exists():
            part = path.with_suffix(".part")
            with lzma.open(part, "wt", encoding="utf-8", preset=1) as out:
                out.writelines(text + "\n" for text in new)
            part.replace(path)
        n_words = sum(text.count(" ") + 1 for text in new)
        total += n_words
        print(f"{package}: {n_words:,} words, {total:,} in all", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
