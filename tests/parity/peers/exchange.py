"""The peers' side of the talk: build each case, take weights, run it forward and backward, write what came out.

In a folder, ``cases.json`` maps a case's name to {kind, options, dtype} and ``given.safetensors`` holds its tensors
as "case input x" and "case weight y". The answer, ``answer.safetensors``, has "case output x", "case gradient x" of
the sum of all squared outputs, for inputs and weights, and "case weight y". A case for which no weights are given
keeps random ones.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

__all__ = ["Kind", "parameters", "serve"]


def parameters(module: nn.Module) -> dict[str, Tensor]:
    """The weights of a torch module, by the names it gives them."""
    return dict(module.named_parameters())


class Kind(NamedTuple):
    """One class of a peer: how it is built from a case's options, run on its inputs, and what weights it has."""

    build: Callable[..., nn.Module]
    run: Callable[..., dict[str, Tensor]]  # (module, **inputs) -> outputs
    weights: Callable[[nn.Module], dict[str, Tensor]] = parameters


def serve(kinds: Mapping[str, Kind]) -> None:
    """Answer every case in the folder that the first argument names."""
    folder = Path(sys.argv[1])
    given = load_file(folder / "given.safetensors")
    answer: dict[str, Tensor] = {}
    for name, case in json.loads((folder / "cases.json").read_text(encoding="utf-8")).items():
        torch.manual_seed(1)
        torch.set_default_dtype(getattr(torch, case["dtype"]))
        tensors = {key.removeprefix(f"{name} "): tensor for key, tensor in given.items() if key.startswith(f"{name} ")}
        kind = kinds[case["kind"]]
        for key, tensor in _run(kind, kind.build(**case["options"]), _of(tensors, "input"), _of(tensors, "weight")):
            answer[f"{name} {key}"] = tensor.detach().clone().contiguous()
    save_file(answer, folder / "answer.safetensors")


def _of(tensors: Mapping[str, Tensor], what: str) -> dict[str, Tensor]:
    return {key.split(" ")[1]: tensor for key, tensor in tensors.items() if key.startswith(what)}


def _run(
    kind: Kind, module: nn.Module, inputs: dict[str, Tensor], given: dict[str, Tensor]
) -> Iterator[tuple[str, Tensor]]:
    weights = kind.weights(module)
    if given and given.keys() != weights.keys():
        raise ValueError(f"the peer has weights {sorted(weights)}, given were {sorted(given)}")
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(given[name]) if given else weight.normal_(std=0.4)
    for tensor in inputs.values():
        tensor.requires_grad_(tensor.is_floating_point())
    outputs = kind.run(module, **inputs)
    yield from ((f"output {name}", output) for name, output in outputs.items())
    yield from ((f"weight {name}", weight) for name, weight in weights.items())
    asked = weights | {name: tensor for name, tensor in inputs.items() if tensor.requires_grad}
    if asked and any(output.requires_grad for output in outputs.values()):
        loss = torch.stack([output.square().sum() for output in outputs.values()]).sum()
        gradients = torch.autograd.grad(loss, list(asked.values()), allow_unused=True, materialize_grads=True)
        yield from ((f"gradient {name}", gradient) for name, gradient in zip(asked, gradients, strict=True))
