"""Compile the kernels: one object for each instruction set, joined to one library, by the compiler of PyPI's ziglang.

    python regard/native/build.py

needs no compiler on the machine. The library lies beside this file; ``regard.native.library`` loads it.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
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
# Fused within an expression alone: sets that fuse and those that cannot then quantize alike, to the bit.
FLAGS = ("-std=c11", "-O3", "-ffp-contract=on", "-fPIC", "-Wall", "-Wextra", "-Wno-psabi")


def platform_of_this() -> tuple[str, str]:
    """System and processor of this machine, under the names of ``TARGETS``."""
    found = platform.machine().lower()
    return platform.system(), {"amd64": "x86_64", "arm64": "aarch64"}.get(found, found)


def known() -> bool:
    """Return whether there are kernels for this machine."""
    return platform_of_this() in TARGETS


def current() -> bool:
    """Return whether the library is there and no older than its sources."""
    sources = [*SOURCE.iterdir(), Path(__file__)]
    return LIBRARY.is_file() and LIBRARY.stat().st_mtime >= max(each.stat().st_mtime for each in sources)


def build(to: Path = LIBRARY, machine: tuple[str, str] | None = None, extra: tuple[str, ...] = ()) -> Path:
    """Compile for a machine, this one unless given, into a file that is whole or absent.

    ``extra``: more arguments for the compiler. OSError or CalledProcessError where it fails.
    """
    machine = machine or platform_of_this()
    if machine not in TARGETS:
        raise OSError(f"there are no kernels for {' on '.join(machine)}")
    compiler = (sys.executable, "-m", "ziglang", "cc", "-target", TARGETS[machine], *extra)
    with tempfile.TemporaryDirectory() as folder:
        jobs: dict[str, tuple[str, ...]] = {
            f"{name}.o": (*FLAGS, f"-mcpu={cpu}", f"-DSET={name}", "-c", str(SOURCE / "kernel.c"))
            for name, cpu in SETS[machine[1]].items()
        }
        jobs |= {f"{name}.o": (*FLAGS, "-c", str(SOURCE / f"{name}.c")) for name in ("dispatch", "checks", "search")}
        objects = [str(Path(folder) / name) for name in jobs]
        running = [
            subprocess.Popen([*compiler, *job, "-o", made]) for job, made in zip(jobs.values(), objects, strict=True)
        ]
        if sum(process.wait() != 0 for process in running):
            raise OSError("the compiler failed, see above, or is not there: pip install ziglang")
        linked = Path(folder) / to.name
        strip = () if extra else ("-s",)
        subprocess.run([*compiler, *strip, "-shared", *objects, "-o", str(linked), "-lpthread", "-lm"], check=True)
        partial = to.with_name(f".{to.name}.new")
        partial.write_bytes(linked.read_bytes())
        partial.replace(to)
    return to


def main() -> None:
    """Build what is not built, or is older than its sources."""
    try:
        print(LIBRARY if current() else build())  # noqa: T201
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"the kernels are not built, and torch computes alone: {error}")


if __name__ == "__main__":
    main()
