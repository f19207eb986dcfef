"""List the licences in a CycloneDX file; fail if a package has none that is known to be compatible.

``python .ci/licences.py dist/nearfar.cdx.json``
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

FREE = re.compile(r"BSD|MIT|Apache|PSF|Python Software Foundation|ISC|Zlib|CC0|MPL-2\.0|0BSD|HPND|Unlicense")
NOT_FREE = re.compile(r"AGPL|Affero|(?<!L)GPL(?!-\d\.\d-with)|Proprietary|Commercial")


def licences(component: dict) -> str:
    """Return what a component says, in one line."""
    found = []
    for entry in component.get("licenses", []):
        told = entry.get("expression") or entry["license"].get("id") or entry["license"].get("name", "")
        found.append(" ".join(told.split())[:60])
    return ", ".join(dict.fromkeys(found)) or "none"


def main(path: str) -> int:
    """Print name, version and licence of each component."""
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    bad = 0
    for component in sorted(content["components"], key=lambda each: each["name"].lower()):
        told = licences(component)
        fine = FREE.search(told) is not None and (NOT_FREE.search(told) is None or "exception" in told)
        bad += not fine
        sys.stdout.write(
            f"{component['name']:24} {component.get('version', ''):16} {told}{'' if fine else '  <- look'}\n"
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
