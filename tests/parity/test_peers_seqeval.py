"""Entities of tags against seqeval, which does as conlleval does, on a generated corpus."""

from __future__ import annotations

import random

import pytest

from regard.answers.spans import TagSpan, spans

TAGS = ["O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC", "I-ORG"]  # I-ORG begins what it goes on with
IOBES = ["O", "O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in ("PER", "LOC"))]


def corpus(tags: list[str], seed: int, sentences: int) -> list[list[str]]:
    draw = random.Random(seed)
    return [draw.choices(tags, k=draw.randint(1, 12)) for _ in range(sentences)]


@pytest.mark.parametrize("tags", [TAGS, IOBES], ids=["IOB", "IOBES"])
def test_entities_and_their_f1_are_seqevals(tags: list[str]) -> None:
    metrics = pytest.importorskip("seqeval.metrics", reason="needs seqeval: pip install seqeval")
    from seqeval.metrics.sequence_labeling import get_entities

    draw, wanted = random.Random(5), corpus(tags, 1, 400)
    told = [[tag if draw.random() < 0.8 else draw.choice(tags) for tag in sentence] for sentence in wanted]
    for sentence in (*wanted, *told):
        assert spans(sentence) == [TagSpan(kind, begin, last + 1) for kind, begin, last in get_entities(sentence)]
    true, found = ({(at, *span) for at, each in enumerate(part) for span in spans(each)} for part in (wanted, told))
    both = len(true & found)
    assert 0.3 < metrics.f1_score(wanted, told) < 0.9
    assert metrics.f1_score(wanted, told) == pytest.approx(2 * both / (len(true) + len(found)))
    assert metrics.precision_score(wanted, told) == pytest.approx(both / len(found))
    assert metrics.recall_score(wanted, told) == pytest.approx(both / len(true))
