"""``regard doctor``: report the versions, the hardware and likely problems of this machine."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from regard.commands.options import AsJson, epilog
from regard.core.installation import extra_command, extras
from regard.core.processor import cpu_quota, usable_cores

EPILOG = epilog("regard doctor --markdown", notes="Exit code 6 if the current folder cannot be written.")
PACKAGES = ("numpy", "pydantic", "typer", "rich", "sacrebleu", "safetensors", "sentencepiece", "tokenizers")
WRITTEN = 8 << 20  # bytes of the disk test
LOW = 2 << 30  # bytes of free space below which a warning is printed

Markdown = Annotated[bool, typer.Option("--markdown", help="Print a Markdown table to paste into a report.")]


def register(app: typer.Typer) -> None:
    """Add ``regard doctor`` to the command line."""
    app.command("doctor", epilog=EPILOG)(doctor)


def doctor(*, markdown: Markdown = False, as_json: AsJson = False) -> None:
    """Show versions, processor, threads, devices and disk, and list likely problems."""
    facts: dict[str, str] = {**dict(_versions()), **dict(_machine())}
    problems = [*_odd_machine(), *_missing_kernels()]
    disk, failed = _disk(Path())
    facts |= disk
    problems += failed
    if as_json:
        print(json.dumps({"facts": facts, "problems": problems}, indent=2))
    elif markdown:
        print("\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items())]))
        print("\n" + ("\n".join(f"- {problem}" for problem in problems) or "No problems found."))
    else:
        width = max(map(len, facts))
        print("\n".join(f"{name:<{width}}  {value}" for name, value in facts.items()))
        print("\n" + ("\n".join(f"problem: {problem}" for problem in problems) or "no problems found"))
    if disk["disk write test"] == "failed":
        raise typer.Exit(6)


def _versions() -> Iterator[tuple[str, str]]:
    from regard.core.processor import bfloat16_in_hardware
    from regard.runs.run_folder import environment

    versions = environment()
    yield "regard", versions["regard"]
    yield "python", versions["python"]
    yield "torch", versions["torch"]
    for name in PACKAGES:
        yield name, importlib.metadata.version(name)
    for extra in extras():
        lacking = "" if not extra.missing else f"{', '.join(extra.missing)} missing; {extra_command(extra.name)}"
        yield f"extra {extra.name}", f"for {extra.purpose}: {lacking or 'installed'}"
    yield from _plugins()
    yield "system", versions["system"]
    yield "processor", versions["processor"]
    yield "vector instructions", versions["vector_instructions"]
    yield "bfloat16 products", "in hardware" if bfloat16_in_hardware() else "emulated (slow)"
    yield from _kernels()


def _plugins() -> Iterator[tuple[str, str]]:
    """Yield each installed plugin, with its parts and whether a run folder may use it."""
    from regard.runs.plugins import VARIABLE, installed, is_listed

    parts: dict[tuple[str, str], list[str]] = {}
    for plugin in installed():
        parts.setdefault((plugin.distribution, plugin.version), []).append(plugin.point.name)
    for (name, version), kinds in sorted(parts.items()):
        use = "also for saved runs" if is_listed(name) else f"for new configs only; {VARIABLE}={name} adds saved runs"
        yield f"plugin {name}", f"{version}, with {', '.join(sorted(kinds))}; {use}"


def _kernels() -> Iterator[tuple[str, str]]:
    from regard.native.library import CHOICE, find

    library, reason = find()
    yield "8-bit products", "not available: they need the C kernels" if library is None else "exact, by the C kernels"
    if library is None:
        yield "kernels in C", f"not available: {reason}"
    else:
        why = f"set by {CHOICE}" if os.environ.get(CHOICE) else "the fastest"
        yield "kernels in C", f"for {library.set} ({why} of {', '.join(library.sets)})"


def _missing_kernels() -> Iterator[str]:
    """Report missing kernels, with the command that builds or enables them."""
    from regard.native.build import is_supported
    from regard.native.library import CHOICE, find

    library, reason = find()
    if library is not None or not is_supported():
        return
    cost = "decoding and training are slower, and --engine int8 is not available"
    if os.environ.get(CHOICE):
        yield f"the C kernels are not used: {reason}; {cost}; to fix it: unset {CHOICE}"
    else:
        fact = (reason or "").partition(": python -m")[0]
        compiler = "" if find_spec("ziglang") else "pip install ziglang && "
        yield f"the C kernels are missing: {fact}; {cost}; to fix it: {compiler}python -m regard.native.build"


def _machine() -> Iterator[tuple[str, str]]:
    import torch

    quota = cpu_quota()
    granted = "" if quota is None else f", a quota of {quota:g}"
    yield "cores", f"{os.cpu_count()}, {usable_cores()} usable by this process{granted}"
    yield "threads", f"torch uses {torch.get_num_threads()}"
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        yield "memory", f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GiB"
    cards = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    if cards:
        yield "accelerators", ", ".join(cards) + ("; Regard uses the first" if len(cards) > 1 else "")
    elif torch.backends.mps.is_available():
        yield "accelerators", "Apple mps (not supported); Regard uses the CPU"
    else:
        yield "accelerators", "none; Regard uses the CPU"


def _odd_machine() -> Iterator[str]:
    import torch

    threads, cores = torch.get_num_threads(), usable_cores()
    if threads > cores:
        yield f"torch uses {threads} threads on {cores} usable cores: export OMP_NUM_THREADS={cores}"
    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        yield f"this terminal's encoding is {sys.stdout.encoding}: export PYTHONUTF8=1"


def _disk(folder: Path) -> tuple[dict[str, str], list[str]]:
    """Write, sync and read back a few megabytes, as when a checkpoint is saved."""
    free = shutil.disk_usage(folder).free
    facts = {"folder": str(folder.resolve()), "free space": f"{free / 2**30:.1f} GiB"}
    problems = [] if free >= LOW else [f"only {free / 2**30:.1f} GiB are free in {folder.resolve()}"]
    data = os.urandom(WRITTEN)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            began = time.perf_counter()
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            seconds = time.perf_counter() - began
            file.seek(0)
            whole = file.read() == data
    except OSError as error:
        problems.append(f"{folder.resolve()} is not writable: {error.strerror}")
        whole = False
    else:
        if not whole:
            problems.append(f"{folder.resolve()}: the bytes read back differ from the bytes written")
    facts["disk write test"] = f"{WRITTEN / seconds / 1e6:,.0f} MB/s" if whole else "failed"
    return facts, problems
