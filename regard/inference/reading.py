"""TokenChoice of what reads for a classifier or a tagger: torch, or the kernels in float32 or in 8 bits."""

from __future__ import annotations

from typing import Any, get_args

from torch import nn

from regard.engine.native_reading import read_by_kernels, reading_obstacle
from regard.errors import ConfigError
from regard.inference.decoding import Engine


def reading_form(net: Any, engine: Engine | None) -> nn.Module:
    """The network in the form that computes under an engine; its weights as they are now.

    ``float32``, unless given: the kernels where they know its ``encoder``, else the network itself; ``int8``: the
    kernels; ``torch`` and ``reference``: the network itself. ConfigError for others, and for 8 bits without kernels.
    """
    if engine not in (None, "float32", "int8", "torch", "reference"):
        known = f"{engine!r} is no engine" if engine not in get_args(Engine) else f"no label is told in {engine}"
        raise ConfigError(known, where="engine", help="float32, int8, torch or reference")
    if engine in ("torch", "reference") or not hasattr(net, "encoder"):
        return net
    encoder = getattr(net, "encoder", None)
    reason = "it has no encoder" if encoder is None else reading_obstacle(encoder)
    if reason is None:
        return read_by_kernels(net, "int8" if engine == "int8" else "float32")
    if engine == "int8":
        help = "leave it out: float32 gives the model's own outputs; regard doctor tells of the kernels"
        raise ConfigError("this model cannot read in int8", where="engine", why=reason, help=help)
    return net
