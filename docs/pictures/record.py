"""State of the page's sources when each of its pictures was taken: ``taken.json``. A test fails for older pictures."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

FOLDER = Path(__file__).parent
WEB = FOLDER.parents[1] / "web"
RECORD = FOLDER / "taken.json"


def sources() -> str:
    """Return a checksum of all files from which the page is built."""
    files = [WEB / "index.html", *sorted((WEB / "src").rglob("*")), *sorted((WEB / "public").rglob("*"))]
    total = hashlib.sha256()
    for file in files:
        if file.is_file() and not file.name.startswith("."):
            total.update(f"{file.relative_to(WEB).as_posix()}\n".encode() + file.read_bytes())
    return total.hexdigest()[:16]


def record(name: str) -> None:
    """Note that a picture shows the present page."""
    RECORD.write_text(json.dumps(dict(sorted((recorded() | {name: sources()}).items())), indent=1) + "\n", "utf-8")


def recorded() -> dict[str, str]:
    """Return the checksum of the sources for each picture of the page."""
    checksums: dict[str, str] = json.loads(RECORD.read_text("utf-8")) if RECORD.is_file() else {}
    return checksums


def outdated() -> list[str]:
    """Return the names of pictures that show an older page."""
    present = sources()
    return [name for name, checksum in recorded().items() if checksum != present]
