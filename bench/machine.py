"""What a figure depends on beside the software: the processor, and which of its instructions matter here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.runs.run_folder import environment

INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8")


def machine() -> dict[str, Any]:
    """``regard.runs.run_folder.environment`` and the matrix instructions that Linux names in /proc/cpuinfo."""
    information = Path("/proc/cpuinfo")
    flags: set[str] = set()
    if information.exists():
        lines = [line for line in information.read_text().splitlines() if line.startswith("flags")]
        flags = set(lines[0].split()) if lines else set()
    return environment() | {"instructions": [name for name in INSTRUCTIONS if name in flags]}
