"""The processor: the cores that this process may use, and bfloat16 multiplication in hardware."""

from __future__ import annotations

import math
import os
import platform
from contextlib import suppress
from pathlib import Path, PurePosixPath

GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
THREADS = "OMP_NUM_THREADS"


def usable_cores() -> int:
    """Return the number of cores that this process may use: the smaller one of affinity and quota, at least 1."""
    cores, quota = _affinity(), cpu_quota()
    return cores if quota is None else min(cores, max(1, math.ceil(quota)))


def cpu_quota(groups: Path = GROUPS, own: Path = OWN_GROUPS) -> float | None:
    """Return the cores' time that control groups grant this process, such as 0.5 in a container; None for no limit.

    The smallest quota of the group and of those that contain it holds. A container may see its own group as the root.

    Args:
        groups: the file system of control groups, of version 1 or 2.
        own: the file with the groups of this process.
    """
    quotas = []
    with suppress(OSError, ValueError):  # not Linux, or a form that is not known
        for line in own.read_text("utf-8").splitlines():
            _, controllers, name = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            root = groups / controllers if controllers else groups
            path = PurePosixPath(name.lstrip("/"))
            for group in (path, *path.parents):
                quotas.append(_quota_of_version_1(root / group) if controllers else _quota_of_version_2(root / group))
    return min((quota for quota in quotas if quota is not None), default=None)


def limit_threads(number: int | None = None) -> None:
    """Let torch use ``number`` threads, or by default no more than the quota has cores: more of them only wait.

    OMP_NUM_THREADS changes the default.
    """
    if number is not None:
        import torch

        torch.set_num_threads(number)
    elif THREADS not in os.environ and cpu_quota() is not None:
        import torch

        torch.set_num_threads(min(torch.get_num_threads(), usable_cores()))


def _affinity() -> int:
    """Return the number of cores on which this process may run; all if the system does not report it (macOS)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _quota_of_version_1(group: Path) -> float | None:
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (float((group / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
        return quota / period if quota > 0 else None
    return None


def _quota_of_version_2(group: Path) -> float | None:
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (group / "cpu.max").read_text().split()
        return float(quota) / float(period) if quota != "max" else None
    return None


def bfloat16_in_hardware() -> bool:
    """Return whether the CPU multiplies bfloat16 in hardware; otherwise torch widens it, slower than float32."""
    import torch

    if not torch.backends.mkldnn.is_available() or not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    if platform.machine() not in ("x86_64", "AMD64"):
        return True
    # oneDNN also reports bfloat16 as supported if AVX-512 can only emulate it.
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
