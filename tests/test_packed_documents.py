"""Documents packed into a row: none of them sees another, to the bit, in every part a language model may have."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention.catalog import MECHANISMS
from regard.attention.heads import SelfAttention
from regard.attention.span import Span
from regard.data.packs import PackExamples
from regard.data.windows import TokenBatch
from regard.errors import ConfigError
from regard.models.language_model import LanguageModel
from regard.runs.config import load_config
from regard.tasks.language_model.objective import batch_span
from regard.tasks.language_model.task import TASK
from regard.testing import TASK_LAWS, Draw, TaskCase
from regard.testing.task_case import UPDATES, trained

TYPES = 23
VARIANTS: dict[str, dict[str, Any]] = {
    "rotary": {},
    "half-rotary": {"position": {"kind": "rotary", "layout": "half"}},
    "sinusoidal": {"position": "sinusoidal"},
    "learned": {"position": "learned"},
    "none": {"position": "none"},
    "alibi": {"position": "alibi"},
    "t5": {"position": "t5"},
    "shaw": {"position": "shaw"},
    "grouped": {"key_heads": 1, "qk_norm": True, "attention_gate": True},
    "window": {"mixer": {"kind": "dot", "neighborhood": 3}},
    "residual": {"embedding_residual": True, "norm": "post", "normalization": "rms"},
    "checkpointed": {"execution": "checkpointed"},
    "forgetting": {"position": "forgetting"},
    "value-embedding": {"value_embedding": True},
} | {
    kind: {"mixer": kind, "position": "sinusoidal"}
    for kind in (
        "additive",
        "cosine",
        "differential",
        "gat",
        "gatv2",
        "general",
        "hard",
        "local-m",
        "tanh-dot",
        "top-k",
    )
}


def built(model: dict[str, Any], context: int = 40) -> LanguageModel:
    small = {"layers": 2, "width": 16, "heads": 2, "feed_forward": 16, "dropout": 0.2, "attention_dropout": 0.2}
    config = load_config({
        "task": "language-model", "data": {"train": [], "context": context}, "model": small | model,
        "train": {"batch_tokens": max(context, 4096)},
    })  # fmt: skip
    torch.manual_seed(2)
    net = TASK.build(config, {"types": TYPES})
    assert isinstance(net, LanguageModel)
    return net


def packed(*lengths: int, padding: int = 2) -> Span:
    """A row of documents and padding, as the task reads it from a batch of packs."""
    padded = (*lengths[:-1], lengths[-1] + padding)
    valid = torch.tensor([[True] * sum(lengths) + [False] * padding])
    segment = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(padded))[None]
    position = torch.cat([torch.arange(length) for length in padded])[None]
    tokens = torch.zeros_like(segment)
    batch = TokenBatch(tokens, tokens, valid, torch.arange(1), float(sum(lengths)), segment=segment, position=position)
    return batch_span(batch, None)


def logits(net: LanguageModel, tokens: Tensor, span: Span | None = None) -> Tensor:
    torch.manual_seed(5)  # the same dropout
    return net.head(net(tokens, Span.without_padding(tokens) if span is None else span).features)


def isolated(net: LanguageModel, *lengths: int) -> None:
    """Changing every token of one document leaves the logits of all others bit-identical; its own change."""
    span, ends = packed(*lengths), list(accumulate(lengths))
    tokens = torch.randint(4, TYPES, span.valid.shape, generator=torch.Generator().manual_seed(3))
    one = logits(net, tokens, span)[:, :-2]
    assert bool(one.isfinite().all())
    for begin, end in zip([0, *ends], ends, strict=False):
        other = tokens.clone()
        other[:, begin:end] = 4 + (other[:, begin:end] - 3) % (TYPES - 4)
        changed = (one != logits(net, other, span)[:, :-2]).any(-1)[0]
        assert bool(changed[begin:end].any()) and int(changed.sum()) == int(changed[begin:end].sum())


def drawn(seed: int, length: int) -> list[int]:
    """Lengths of three to six documents, of at most ``length`` tokens each, one of them a single token."""
    source = random.Random(seed)
    lengths = [1, *(source.randint(2, length) for _ in range(source.randint(2, 5)))]
    source.shuffle(lengths)
    return lengths


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_changing_one_document_leaves_the_others_bit_identical(variant: str, training: bool) -> None:
    net = built(VARIANTS[variant]).train(training)
    for seed in range(3):
        isolated(net, *drawn(seed, 7))


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("variant", ["rotary", "window"])
def test_so_it_is_in_the_kernels_of_long_sequences(variant: str, training: bool) -> None:
    """Beyond the short form: torch's fused kernel, whose blocks of keys may be hidden whole, and that of a window."""
    isolated(built(VARIANTS[variant] | {"attention_dropout": 0.0}, 1024).train(training), 500, 128, 1, 200)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_document_in_a_pack_is_what_it_is_alone(variant: str) -> None:
    net, lengths = built(VARIANTS[variant]).double().eval(), drawn(4, 9)
    tokens = torch.randint(4, TYPES, (1, sum(lengths) + 2), generator=torch.Generator().manual_seed(3))
    alone = torch.cat([logits(net, part) for part in tokens[:, :-2].split(lengths, 1)], 1)
    torch.testing.assert_close(logits(net, tokens, packed(*lengths))[:, :-2], alone)


def test_no_gradient_goes_from_one_document_to_another() -> None:
    net, span = built({}), packed(5, 6)
    x = torch.randn(1, 13, 16, requires_grad=True)
    mixer = net.layers[0].mixer
    mixer(x, span, mixer.start(1)).output[:, 5:11].sum().backward()
    assert x.grad is not None and torch.equal(x.grad[:, :5], torch.zeros(1, 5, 16)) and bool(x.grad[:, 5:11].any())


def test_positions_that_begin_anew_isolate_nothing() -> None:
    """The law is of the mask: without segments a document with positions of its own sees the one before it."""

    class NoSegments(LanguageModel):
        def forward(self, inputs: Tensor, span: Span, state: Any = None) -> Any:
            return super().forward(inputs, span._replace(segment=()), state)

    net = built({}).eval()
    net.__class__ = NoSegments
    with pytest.raises(AssertionError):
        isolated(net, 7, 4, 1)


@pytest.mark.parametrize(
    "mixer", ["ssru", "average", "location", {"kind": "hard", "score": {"kind": "location"}}], ids=str
)
def test_what_cannot_keep_documents_apart_is_refused(mixer: Any) -> None:
    net = built({"mixer": mixer, "position": "sinusoidal"})
    assert not net.packs
    with pytest.raises(ValueError, match="does not support rows that pack"):
        net(torch.zeros(1, 13, dtype=torch.int64), packed(5, 6))


def test_every_mixer_is_tried() -> None:
    assert built({}).packs and isinstance(built({}).layers[0].mixer, SelfAttention)
    able: set[str] = set()
    for kind in MECHANISMS:
        try:
            able |= {kind} if built({"mixer": kind, "position": "sinusoidal"}).packs else set()
        except ConfigError:
            continue  # no attention of a decoder
    assert able <= {*VARIANTS, "dot"}


# As a task: every law of tasks holds for packs of documents, some of which have prompts, too


def sample(folder: Path) -> dict[str, Any]:
    words = ["cat", "dog", "hen", "cow", "ant", "bee", "owl", "fox"]
    rows = [{"prompt": f"a {word} says ", "completion": word * (1 + n % 3)} for n, word in enumerate(words * 2)]
    rows += [{"text": f"the {word} sat on the rat"} for word in words]
    lines = [json.dumps(row) for row in rows]
    (folder / "sample.jsonl").write_text("\n".join(lines), encoding="utf-8")
    parts = {"train": [0.0, 0.8], "valid": [0.8, 1.0]}
    texts = {name: [{"source": str(folder / "sample.jsonl"), "share": share}] for name, share in parts.items()}
    return {
        "data": {**texts, "context": 40},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2, "dropout": 0.1},
        "train": {"batch_tokens": 160},
        "generate": {"length": 12},
    }


@pytest.fixture(scope="module")
def case() -> TaskCase:
    return TaskCase(replace(TASK, sample=sample), "language-model")


@pytest.mark.parametrize("law", TASK_LAWS, ids=lambda law: law.name)
def test_packs_of_documents_keep_the_laws_of_tasks(case: TaskCase, law: Any) -> None:
    """Among them: interrupted and resumed is as if never stopped, to the bit, however many workers there are."""
    law.check(case, Draw(random.Random(1)))


def test_the_case_has_what_it_is_to_test(case: TaskCase) -> None:
    batch = case.data.train.collate(case.data.train.batches(0)[0])
    assert isinstance(case.data.train, PackExamples) and bool((batch.segment == 1).any())
    assert 0 < int(batch.loss_mask.sum()) < int(batch.valid.sum()), "prompts do not count"


@pytest.mark.parametrize("packed", [True, False], ids=["packs", "windows"])
def test_a_resumed_run_goes_on_with_the_rest_of_its_epoch_and_then_sees_everything(
    case: TaskCase, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row comes once in each epoch, however often the run stopped; no epoch is the tail of another."""
    of = case if packed else TaskCase(TASK, "language-model")
    monkeypatch.setattr("regard.training.setup.fit_baseline", lambda *_: None)  # it reads the training data, too
    if not packed:
        of.tables["train"] |= {"batch_tokens": 128}
    run, seen, kind = of.run(), [], type(of.data.train)
    collate = kind.collate

    def recording(self: Any, examples: Any) -> Any:
        seen.extend(pair for pair in zip(examples.visit.tolist(), examples.index.tolist(), strict=True) if pair[0])
        return collate(self, examples)

    monkeypatch.setattr(kind, "collate", recording)
    for stop in (1, 3, None):
        trained(of, of.reopened(run), stop)
    plans = [of.data.train.batches(epoch) for epoch in range(UPDATES)]
    made = [batch for plan in plans for batch in plan][:UPDATES]
    assert len(plans[0]) < UPDATES - 1, "more than an epoch"
    wanted = [pair for batch in made for pair in zip(batch.visit.tolist(), batch.index.tolist(), strict=True)]
    assert sorted(seen) == sorted(wanted) and len(set(seen)) == len(seen)
