"""Install commands for messages: how to add an extra to this installation, or to upgrade it.

This project publishes ``regard`` on no package index. There the name belongs to someone else. A command therefore
always names the origin of this installation.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

NAME = "regard"
PURPOSES = {
    "ctranslate2": "export to CTranslate2",
    "demo": "the dictionary of regard demo",
    "dev": "tests and checks of the code",
    "docs": "the docs site",
    "gguf": "export to GGUF",
    "hub": "regard export --push",
    "images": "PNG and JPEG files",
    "import": "import from Joey NMT and Sockeye",
    "mlflow": "reports of a training to MLflow",
    "music": "reading and writing MIDI files",
    "notebooks": "the notebooks of the tutorials",
    "onnx": "export to ONNX",
    "plot": "pictures of studies and comparisons",
    "projection": "pictures of hidden vectors",
    "ray": "bulk processing by actors of Ray Data",
    "serve": "regard serve and the page of regard inspect",
    "speech": "FLAC, OGG and MP3 files, and resampling of sounds",
    "summaries": "ROUGE",
    "tables": "Parquet files",
    "telemetry": "traces of requests of a server",
    "tensorboard": "reports of a training to TensorBoard",
    "trackio": "reports of a training to Trackio",
    "wandb": "reports of a training to Weights & Biases",
}


class Extra(NamedTuple):
    """An extra: name, purpose, and the packages that are not installed."""

    name: str
    purpose: str
    missing: list[str]


def extra_command(name: str) -> str:
    """Return the command that adds an extra to this installation."""
    where = _requirement(f"[{name}]")
    if where is None:  # installed from an index: name the packages of the extra instead
        where = " ".join(shlex.quote(requirement) for requirement in _requirements(name))
    return (
        f"{_pip()} {where}" if where else f"install regard with the extra {name!r} from the origin of this installation"
    )


def package_command(name: str) -> str:
    """Return the command that installs a third-party package into the environment of this installation."""
    return f"{_pip()} {shlex.quote(name)}"


def upgrade_advice() -> str:
    """Return instructions to upgrade this installation."""
    origin = _origin() or {}
    if origin.get("dir_info", {}).get("editable"):
        return f"upgrade regard: git -C {shlex.quote(_path(origin['url']))} pull"
    if "vcs_info" in origin:
        return f"upgrade regard: {_pip()} --upgrade {_requirement('')}"
    return "upgrade regard: install a newer version" + (
        f" in place of {origin['url']}" if "url" in origin else " from the origin of this installation"
    )


def extras() -> list[Extra]:
    """List every extra of this installation."""
    distribution = _distribution()
    names = distribution.metadata.get_all("Provides-Extra") or [] if distribution is not None else []
    return [Extra(name, PURPOSES.get(name, ""), _missing(name)) for name in sorted(names)]


def _requirements(extra: str) -> list[str]:
    """List the requirements of an extra, such as ``fastapi>=0.165``."""
    distribution = _distribution()
    pattern = re.compile(rf"(.*?)\s*;.*\bextra\s*==\s*['\"]{re.escape(extra)}['\"]")
    matches = (
        pattern.fullmatch(requirement)
        for requirement in (distribution.requires or [] if distribution is not None else [])
    )
    return [match[1] for match in matches if match]


def _missing(extra: str) -> list[str]:
    names = (re.split(r"[^\w.-]", requirement)[0] for requirement in _requirements(extra))
    return [name for name in names if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _distribution() -> importlib.metadata.Distribution | None:
    try:
        return importlib.metadata.distribution(NAME)
    except importlib.metadata.PackageNotFoundError:
        return None


def _origin() -> dict[str, Any] | None:
    """Return the origin of this installation as pip records it (PEP 610); None if it came from an index."""
    distribution = _distribution()
    if distribution is None:  # a git clone that was never installed
        clone = Path(__file__).parents[2]
        return {"url": clone.as_uri(), "dir_info": {"editable": True}} if (clone / "pyproject.toml").is_file() else None
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "null")
    except ValueError:
        return None
    return origin if isinstance(origin, dict) and isinstance(origin.get("url"), str) else None


def _requirement(extra: str) -> str | None:
    """Return pip's argument for this installation with an extra, quoted for a shell; None if the origin is unknown."""
    origin = _origin()
    if origin is None:
        return None
    url, inside = origin["url"], f"#subdirectory={origin['subdirectory']}" if "subdirectory" in origin else ""
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        version = vcs.get("requested_revision")
        url = f"{vcs['vcs']}+{url}" + (f"@{version}" if version else "")
    elif url.startswith("file:"):
        editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
        return editable + shlex.quote(_path(url) + extra)
    return shlex.quote(f"{NAME}{extra} @ {url}{inside}")


def _path(url: str) -> str:
    return unquote(urlsplit(url).path)


def _pip() -> str:
    """Return the pip command of the running Python, independent of the active environment."""
    python = Path(sys.executable)
    shown = python.relative_to(Path.cwd()) if python.is_relative_to(Path.cwd()) else python
    return f"{shlex.quote(str(shown))} -m pip install"
