"""ESPnet's attention of recurrent decoders, several steps of it, each reading the weights of the step before."""

from __future__ import annotations

import torch
from espnet.nets.pytorch_backend.rnn import attentions
from torch import Tensor, nn

from .exchange import Kind, serve

ALONE = ("AttForward", "AttLocRec")  # whose result depends on how far a sentence's neighbors are padded
# What stands for the weights of the step before: nothing, one tensor, a list of all so far, a list of heads.
CLASSES = {
    "AttDot": "single",
    "AttAdd": "single",
    "AttLoc": "single",
    "AttLoc2D": "window",
    "AttLocRec": "recurrent",
    "AttCov": "sum",
    "AttCovLoc": "sum",
    "AttForward": "single",
    "AttMultiHeadDot": "heads",
    "AttMultiHeadAdd": "heads",
    "AttMultiHeadLoc": "heads",
    "AttMultiHeadMultiResLoc": "heads",
}


def steps(module: nn.Module, query: Tensor, source: Tensor, length: Tensor) -> dict[str, Tensor]:
    """All queries in turn, from the module's own start."""
    form, contexts, weights = CLASSES[type(module).__name__], [], []
    module.reset()
    before = start(form, module, source, length)
    for asked in query.unbind(1):
        context, before = module(source, length.tolist(), asked, before)
        contexts.append(context)
        weights.append(looked(form, before))
    return {"context": torch.stack(contexts, 1), "weights": torch.stack(weights, 2)}


def start(form: str, module: nn.Module, source: Tensor, length: Tensor) -> object:
    """None: the module begins as it likes. Some build that in single precision only, then here in double."""
    if source.dtype == torch.float32 or form == "single":
        return None
    uniform = (torch.arange(source.shape[1]) < length[:, None]).to(source) / length[:, None]
    match form:
        case "sum":
            return [uniform]
        case "heads":
            return [uniform] * module.aheads
        case "window":
            return uniform[:, None].expand(-1, module.att_win, -1)
    nothing = source.new_zeros(len(source), module.att_dim)
    return uniform, (nothing, nothing)


def looked(form: str, after: object) -> Tensor:
    """The weights of this step, (batch, heads, source)."""
    match form:
        case "heads":
            return torch.stack(after, 1)
        case "sum":
            return after[-1][:, None]
        case "window":
            return after[:, -1:]
        case "recurrent":
            return after[0][:, None]
    return after[:, None]


def alone(module: nn.Module, query: Tensor, source: Tensor, length: Tensor) -> dict[str, Tensor]:
    """Every sentence by itself."""
    rows = []
    for row, n in enumerate(length.tolist()):
        got = steps(module, query[row : row + 1], source[row : row + 1, :n], length[row : row + 1])
        padding = (0, source.shape[1] - n)
        rows.append((got["context"], nn.functional.pad(got["weights"], padding)))
    contexts, weights = zip(*rows, strict=True)
    return {"context": torch.cat(contexts), "weights": torch.cat(weights)}


if __name__ == "__main__":
    serve({name: Kind(getattr(attentions, name), alone if name in ALONE else steps) for name in CLASSES})
