"""The blocks of a network from input to output, with the shapes of their outputs for one input."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from regard.attention.observe import attention_name
from regard.core.observation import AttentionMap
from regard.core.wording import pluralize
from regard.models.input import Input

Shapes = dict[str, tuple[int, ...]]  # by path of a module, in the order of the first calls

MAX_BLOCKS = 30
OUTPUTS = ("head", "output", "outer", "forecast_head")
PARTS = {"embedding", "mixer", "reader", "feed_forward", "norm", "compare", "transform", "copying", "pooling", "inner",
         "key", *OUTPUTS}  # fmt: skip
WORDS = {"norm": "norm", "transform": "linear layer and norm", "compare": "comparison of both texts",
         "copying": "copying of source pieces", "inner": "linear layer", "key": "attention pooling"}  # fmt: skip
FRAMES = {"PostNorm": "residual connection, then norm", "PreNorm": "norm first, residual connection"}


@contextmanager
def recorded_shapes(network: nn.Module) -> Iterator[Shapes]:
    """Record the shape of the output of every module that is called inside the block."""
    shapes: Shapes = {}
    handles = []

    def watch(path: str, module: nn.Module) -> None:
        def began(*_: Any) -> None:
            shapes.setdefault(path, ())

        def ended(module: nn.Module, positional: Any, output: Any) -> None:
            shapes[path] = _shape(output)

        handles.append(module.register_forward_pre_hook(began))
        handles.append(module.register_forward_hook(ended))

    for path, module in network.named_modules():
        watch(path, module)
    try:
        yield shapes
    finally:
        for handle in handles:
            handle.remove()


def network_blocks(network: nn.Module, shapes: Shapes, maps: Sequence[AttentionMap]) -> list[dict[str, Any]]:
    """Return ``name``, ``text``, ``shape`` and ``attention`` of each block, at most ``MAX_BLOCKS``.

    Args:
        network: the network.
        shapes: the shapes of its outputs, from ``recorded_shapes``.
        maps: the attention maps; ``attention`` is the name of the first map of a block, or null.
    """
    modules = dict(network.named_modules())
    place_of: dict[str, str] = {}
    for attention in maps:
        if attention.source is not None:
            place_of.setdefault(attention.source.name, attention.place)
    side = maps[0].side if maps else "layer"
    blocks = [_block(path, modules, shapes[path], place_of, side) for path in _chosen(shapes, modules)]
    left_out = len(blocks) - MAX_BLOCKS + 1
    if left_out > 1:
        half = MAX_BLOCKS // 2
        middle = blocks[half : half + left_out]
        blocks[half : half + left_out] = [
            {"name": "…", "text": pluralize(len(middle), "more block"), "shape": middle[-1]["shape"], "attention": None}
        ]
    return blocks


def _chosen(shapes: Shapes, modules: Mapping[str, nn.Module]) -> list[str]:
    """Return the paths of the blocks in the order of their calls; none is inside another one."""
    parts = [path for path in shapes if _is_part(path) and shapes[path]]
    numbered = [path for path in shapes if path.rpartition(".")[2].isdecimal() and not _inside(path, parts)]
    layers = [path for path in numbered if shapes[path] and not any(part.startswith(f"{path}.") for part in parts)]
    chosen = [path for path in (*parts, *layers) if not _inside(path, [*parts, *layers])]
    # A part whose layers are functions, such as recurrent cells, is one block after its embedding.
    for path in shapes:
        inner = [part for part in chosen if part.startswith(f"{path}.")]
        if path and inner and not any(part.rpartition(".")[2] in ("mixer", "feed_forward") for part in inner):
            if not any(part.rpartition(".")[2].isdecimal() for part in inner) and any(
                part == f"{path}.embedding" for part in inner
            ):
                chosen.append(path)
    order = {path: number for number, path in enumerate(shapes)}
    last = {
        path: max(order[other] for other in shapes if other == path or other.startswith(f"{path}.")) for path in chosen
    }
    return [path for path in sorted(chosen, key=last.__getitem__) if not isinstance(modules[path], nn.Identity)]


def _is_part(path: str) -> bool:
    parent, _, last = path.rpartition(".")
    return last in PARTS and not parent.rpartition(".")[2].startswith("around_")


def _inside(path: str, paths: Sequence[str]) -> bool:
    return any(path.startswith(f"{other}.") for other in paths)


def _block(
    path: str, modules: Mapping[str, nn.Module], shape: tuple[int, ...], place_of: Mapping[str, str], side: str
) -> dict[str, Any]:
    name = attention_name(path)
    place = next((place for own, place in place_of.items() if name == own or name.endswith(f".{own}")), None)
    shown = place.partition(" of ")[0] if place else f"{side}.{name}" if name[0].isdecimal() else name
    return {"name": shown, "text": _text(path, modules), "shape": " × ".join(map(str, shape)), "attention": place}


def _text(path: str, modules: Mapping[str, nn.Module]) -> str:
    """Return the type and the sizes of a block, with the residual connection and the norm around it."""
    parent, _, last = path.rpartition(".")
    module = modules[path]
    frame = FRAMES.get(type(getattr(modules[parent], f"around_{last}", None)).__name__, "")
    return ", ".join(text for text in (_own_text(last, module), frame) if text)


def _own_text(last: str, module: nn.Module) -> str:
    matrices = [weight for weight in module.parameters() if weight.dim() == 2]
    heads = _heads(module)
    if isinstance(module, Input):
        return module.description
    if last == "feed_forward" and matrices:
        inner, width = matrices[0].shape
        return f"feed-forward, {width} → {inner} → {width}"
    if last in OUTPUTS and matrices:
        return f"output, {matrices[0].shape[1]} → {matrices[0].shape[0]}"
    if last in WORDS:
        return WORDS[last]
    names = {"mixer": "self-attention", "reader": "attention to the source"}
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", type(module).__name__).lower()
    if heads is None:
        return words
    return f"{names.get(last, words)}, {pluralize(heads, 'head')}"


def _heads(module: nn.Module) -> int | None:
    """Return the number of heads of an attention; None for any other block."""
    own = getattr(module, "attention", module)
    heads = getattr(own, "heads", None)
    return heads if isinstance(heads, int) else None


def _shape(output: Any) -> tuple[int, ...]:
    """Return the shape of the first tensor of an output, without the batch if it is one row."""
    if isinstance(output, Tensor):
        shape = tuple(output.shape)
        return shape[1:] if len(shape) > 1 and shape[0] == 1 else shape
    if isinstance(output, tuple):
        return next((shape for shape in map(_shape, output) if shape), ())
    return ()
