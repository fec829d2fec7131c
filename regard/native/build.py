"""Compile the kernels: one object per instruction set, linked into one library by the compiler of PyPI's ziglang.

    python regard/native/build.py

The machine needs no other compiler. The library is written next to this file; ``regard.native.library`` loads it.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE / "source"
LIBRARY = HERE / f"kernels.{'dylib' if platform.system() == 'Darwin' else 'so'}"
SETS = {
    "x86_64": {"amx": "cascadelake+amx_tile+amx_int8", "vnni": "cascadelake", "avx2": "haswell", "plain": "x86_64"},
    "aarch64": {"neon_dot": "generic+dotprod", "plain": "generic"},
}
TARGETS = {
    ("Linux", "x86_64"): "x86_64-linux-gnu.2.17", ("Linux", "aarch64"): "aarch64-linux-gnu.2.17",
    ("Darwin", "x86_64"): "x86_64-macos.11.0", ("Darwin", "aarch64"): "aarch64-macos.11.0",
}  # fmt: skip
# Fused multiply-add within an expression only: sets with and without it then quantize identically, to the bit.
FLAGS = ("-std=c11", "-O3", "-ffp-contract=on", "-fPIC", "-Wall", "-Wextra", "-Wno-psabi")


def this_platform() -> tuple[str, str]:
    """Return the system and processor of this machine, as named in ``TARGETS``."""
    processor = platform.machine().lower()
    return platform.system(), {"amd64": "x86_64", "arm64": "aarch64"}.get(processor, processor)


def is_supported() -> bool:
    """Return whether there are kernels for this machine."""
    return this_platform() in TARGETS


def is_current() -> bool:
    """Return whether the library exists and is no older than its sources."""
    sources = [*SOURCE.iterdir(), Path(__file__)]
    return LIBRARY.is_file() and LIBRARY.stat().st_mtime >= max(source.stat().st_mtime for source in sources)


def build(to: Path = LIBRARY, machine: tuple[str, str] | None = None, extra: tuple[str, ...] = ()) -> Path:
    """Compile for a machine (default: this one) into a file that is complete or absent.

    ``extra``: additional arguments for the compiler.

    Raises:
        OSError: the compiler fails or is missing.
        CalledProcessError: the linker fails.
    """
    machine = machine or this_platform()
    if machine not in TARGETS:
        raise OSError(f"the kernels do not support {' on '.join(machine)}")
    if find_spec("ziglang") is None:  # checked once: each of the compilations below would report it
        raise OSError("the compiler is missing: pip install ziglang")
    compiler = (sys.executable, "-m", "ziglang", "cc", "-target", TARGETS[machine], *extra)
    with tempfile.TemporaryDirectory() as folder:
        jobs: dict[str, tuple[str, ...]] = {
            f"{name}.o": (*FLAGS, f"-mcpu={cpu}", f"-DSET={name}", "-c", str(SOURCE / "kernel.c"))
            for name, cpu in SETS[machine[1]].items()
        }
        jobs |= {f"{name}.o": (*FLAGS, "-c", str(SOURCE / f"{name}.c")) for name in ("dispatch", "checks", "search")}
        objects = [str(Path(folder) / name) for name in jobs]
        running = [
            subprocess.Popen([*compiler, *job, "-o", path]) for job, path in zip(jobs.values(), objects, strict=True)
        ]
        if sum(process.wait() != 0 for process in running):
            raise OSError("the compiler failed (see above)")
        linked = Path(folder) / to.name
        strip = () if extra else ("-s",)
        subprocess.run([*compiler, *strip, "-shared", *objects, "-o", str(linked), "-lpthread", "-lm"], check=True)
        partial = to.with_name(f".{to.name}.new")
        partial.write_bytes(linked.read_bytes())
        partial.replace(to)
    return to


def main() -> None:
    """Build the library if it is missing or older than its sources."""
    try:
        print(LIBRARY if is_current() else build())  # noqa: T201
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"the kernels were not built, so torch computes everything: {error}")


if __name__ == "__main__":
    main()
