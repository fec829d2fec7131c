"""Which head aligns: links that are counted, and a choice that is measured."""

from __future__ import annotations

import json
import random
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from regard.inspection import aligner as module
from regard.inspection.aligner import Aligner, choose_aligner, find_aligner, lexical_links

from .models import translator


def corpus(count: int = 300) -> tuple[list[np.ndarray], list[np.ndarray], list[dict[int, int]]]:
    """Each source piece p has the translation p + 50; a sentence's words are said in the reverse order, of all orders
    the one that a diagonal preference likes least."""
    draw = random.Random(1)
    sources = [np.array(draw.sample(range(4, 40), draw.randint(3, 7))) for _ in range(count)]
    targets = [source[::-1] + 50 for source in sources]
    return sources, targets, [{at: len(source) - 1 - at for at in range(len(source))} for source in sources]


def test_words_that_go_together_are_linked_wherever_they_stand() -> None:
    sources, targets, wanted = corpus()
    found = lexical_links(sources, targets)
    right = sum(
        links.get(at) == source for links, want in zip(found, wanted, strict=True) for at, source in want.items()
    )
    assert right / sum(map(len, wanted)) > 0.75


def test_links_go_both_ways() -> None:
    """Nothing says which of two target pieces a single source piece goes with but its place: one of them at most."""
    (links,) = lexical_links([np.array([5])], [np.array([7, 8])])
    assert len(links) <= 1


class Looking:
    """``decoder.1.source`` head 1 looks at the right piece one step late; everything else at the first."""

    def __init__(self) -> None:
        self.seen: dict[str, torch.Tensor] = {}

    def attention(self, source: Any, target: Any) -> dict[str, torch.Tensor]:
        return {
            "encoder.0.self": torch.zeros(1),
            "decoder.0.source": torch.zeros(1),
            "decoder.1.source": torch.zeros(1),
        }

    @contextmanager
    def observed(self) -> Any:
        yield torch.nn.Identity()

    def log_probabilities(self, sources: Any, targets: Any, *, model: Any) -> None:
        rows, columns = (max(map(len, side)) + 1 for side in (targets, sources))
        for name in ("decoder.0.source", "decoder.1.source"):
            self.seen[name] = torch.zeros(len(sources), 2, rows, columns)
            self.seen[name][..., 0] = 0.4
        for row, source in enumerate(sources):
            for at in range(len(source)):
                self.seen["decoder.1.source"][row, 1, at + 1, len(source) - 1 - at] = 0.5


def test_the_head_that_finds_the_links_is_chosen_with_its_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    looking = Looking()

    @contextmanager
    def seen(model: Any) -> Any:
        yield looking.seen

    monkeypatch.setattr(module, "observe", seen)
    sources, targets, _ = corpus()
    found: Any = choose_aligner(looking, sources, targets)  # type: ignore[arg-type]
    assert (found.attention, found.head, found.shift) == ("decoder.1.source", 1, 1) and found.agreement > 0.75


def test_without_pairs_the_layer_before_the_last_is_named() -> None:
    found = choose_aligner(translator(), [], [])
    assert found == Aligner("decoder.0.source", None, 0, None, 0) and "not measured" in found.why


def test_a_model_without_such_attention_has_none() -> None:
    assert (
        choose_aligner(
            translator(encoder={"kind": "recurrent"}, decoder={"kind": "recurrent", "order": "none"}), [], []
        )
        is None
    )


def test_what_is_kept_is_of_these_weights_and_of_this_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []

    def choose(model: Any, sources: Any, targets: Any) -> Aligner:
        measured.append(model)
        return Aligner("decoder.1.source", 3, 1, 0.5, 10)

    monkeypatch.setattr(module, "choose_aligner", choose)
    run: Any = SimpleNamespace(path=tmp_path, data=tmp_path / "data", weights_path=lambda which: f"step {which}")
    model = translator()
    kept = tmp_path / "alignment.json"
    assert find_aligner(run, model, checkpoint="1") == find_aligner(run, model, checkpoint="1") and len(measured) == 1
    find_aligner(run, model, checkpoint="2")
    assert len(measured) == 2
    for damage in ({"head": 99}, {"attention": "nowhere"}, {"shift": 7}, {"more": 1}):
        kept.write_text(json.dumps(json.loads(kept.read_text()) | damage))
        assert find_aligner(run, model, checkpoint="2") == Aligner("decoder.1.source", 3, 1, 0.5, 10)
    kept.write_text("[]")
    find_aligner(run, model, checkpoint="2")
    assert len(measured) == 7


def test_one_head_is_not_called_all_heads() -> None:
    recurrent = {"encoder": {"kind": "recurrent"}, "decoder": {"kind": "recurrent"}, "heads": 1}
    found = choose_aligner(translator(**recurrent), [], [])
    assert found is not None and "only head" in found.why
