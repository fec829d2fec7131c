"""Engines for networks that read (classifiers, taggers): torch, or the C kernels in float32 or 8 bits."""

from __future__ import annotations

from typing import Any, get_args

from torch import nn

from regard.engine.native_reading import read_by_kernels, reading_obstacle
from regard.errors import ConfigError
from regard.inference.decoding import Engine


def reading_form(net: Any, engine: Engine | None) -> nn.Module:
    """Return the network in the form for an engine, with its current weights.

    ``float32`` (the default): the C kernels if they support its ``encoder``, otherwise the network itself; ``int8``:
    the kernels; ``torch`` and ``reference``: the network itself. ConfigError for other engines, and for int8 without
    kernels.
    """
    if engine not in (None, "float32", "int8", "torch", "reference"):
        what = f"unknown engine {engine!r}" if engine not in get_args(Engine) else f"{engine} is not supported here"
        raise ConfigError(what, where="engine", help="use float32, int8, torch or reference")
    if engine in ("torch", "reference") or not hasattr(net, "encoder"):
        return net
    encoder = getattr(net, "encoder", None)
    reason = "it has no encoder" if encoder is None else reading_obstacle(encoder)
    if reason is None:
        return read_by_kernels(net, "int8" if engine == "int8" else "float32")
    if engine == "int8":
        help = "omit it to use float32, exact up to rounding; regard doctor shows the state of the kernels"
        raise ConfigError("the model cannot read in int8", where="engine", why=reason, help=help)
    return net
