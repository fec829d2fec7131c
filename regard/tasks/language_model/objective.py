"""The objective of a language model: cross-entropy of each next token, alone or in a mixture with n-grams."""

from __future__ import annotations

from typing import NamedTuple, cast

from torch import Tensor, nn

from regard.attention.span import Span
from regard.core.state import leaves, rebuilt, reset_rows
from regard.core.task import Carry, LossTerms, Objective
from regard.data.tokenizers.notes import FRAME_END
from regard.data.windows import TokenBatch
from regard.errors import ConfigError
from regard.models.cross_entropy import Loss
from regard.models.head import Head
from regard.models.language_model import LanguageModel, LanguageModelState
from regard.models.ngram_gate import NgramGate
from regard.tasks.language_model.config import LanguageModelConfig


class CountedTargets(NamedTuple):
    """The targets of a batch that count in the loss, row by row.

    Attributes:
        features: (targets, width) outputs of the network before the output projection.
        tokens: (targets,)
        mask: (rows, length) which targets count.
        losses: auxiliary losses of the layers, by name.
        carry: see ``core.task.LossTerms``.
    """

    features: Tensor
    tokens: Tensor
    mask: Tensor
    losses: dict[str, Tensor]
    carry: Carry


def objective(config: LanguageModelConfig) -> Objective:
    """Return the cross-entropy of every next token in nats, with the label smoothing of the config."""
    smoothing, music = config.train.label_smoothing, config.data.tokenizer.kind == "notes"

    def loss(net: nn.Module, batch: TokenBatch, carry: Carry = ()) -> LossTerms:
        model = cast(LanguageModel, net)
        if isinstance(batch.segment, Tensor) and not model.packs:
            raise cannot_pack(config)
        targets = counted_targets(model, batch, carry)
        if isinstance(batch.wide, Tensor):
            assert model.gate is not None
            wide = batch.wide[targets.mask]
            terms = _mixture_loss(model.head, model.gate, targets.features, targets.tokens, wide)
        else:
            terms = model.head.loss(targets.features, targets.tokens, smoothing=smoothing)
        frames = {"frames": (targets.tokens == FRAME_END).sum()} if music else {}
        sums = {"nll": terms.nll.detach(), "tokens": targets.mask.sum(), **frames}
        return LossTerms(sum(targets.losses.values(), terms.smoothed), sums, targets.carry)

    return loss


def counted_targets(model: LanguageModel, batch: TokenBatch, carry: Carry = ()) -> CountedTargets:
    """Read a batch and return its counted targets, with the state of the rows if the batch carries it."""
    state = None
    if isinstance(batch.fresh, Tensor):
        start = model.start(len(batch.input))
        state = reset_rows(rebuilt(start, carry), start, batch.fresh) if carry else start
    features, state, losses = model(batch.input, batch_span(batch, state), state)
    mask = batch.loss_mask if isinstance(batch.loss_mask, Tensor) else batch.valid
    new_carry = tuple(leaves(state)) if isinstance(batch.fresh, Tensor) else ()
    return CountedTargets(features[mask], batch.target[mask], mask, losses, new_carry)


def _mixture_loss(head: Head, gate: NgramGate, features: Tensor, target: Tensor, wide: Tensor) -> Loss:
    """Return the loss of the mixture, whose gradient is that of the network's own loss and of the gate.

    Args:
        head: the output projection.
        gate: the weights of the mixture.
        features: (targets, width).
        target: (targets,)
        wide: (targets, 2) log-probability of the n-grams, and bucket.
    """
    own = head.log_probabilities(features).gather(1, target[:, None])[:, 0]
    mixed = gate(own.detach(), wide[:, 0], wide[:, 1].long())
    nll = -mixed.sum()
    return Loss(nll - own.sum() + own.detach().sum(), nll)


def batch_span(batch: TokenBatch, state: LanguageModelState | None) -> Span:
    """Return the span of a batch whose rows continue from ``state``, or start at position 0 if it is None."""
    span = Span.of(batch.valid) if state is None else Span(state.length, batch.valid)
    return span._replace(segment=batch.segment, given_position=batch.position)


def cannot_pack(config: LanguageModelConfig) -> ConfigError:
    """Return the error of a mixer that cannot separate the documents of a row."""
    kind = config.model.decoder.mixer.kind
    return ConfigError(
        f"the mixer {kind!r} cannot read packed documents",
        where="model.decoder.mixer.kind",
        why="it does not support several documents per row",
        help="--set model.mixer=dot, or --set data.documents=stream for one stream per text",
    )
