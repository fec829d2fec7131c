"""The study of hashed attention: who collides and who does not, and where it fails."""

from __future__ import annotations

import pytest
import torch

from regard.studies import hashes
from regard.studies.hashes import DuplicationSize, copied, duplication_model
from regard.studies.study import Findings, ignore_report

SIZE = DuplicationSize(word=3, symbols=3, width=8, buckets=2, chunk=4, updates=2, batch=4)
FALLING = [1.0, 0.9, 0.7, 0.5, 0.3, 0.1, 0.01, 0.0, 0.0]


def failed(found: Findings) -> set[str]:
    return {criterion.what.split(" ")[0] for criterion in found.criteria if not criterion.holds}


def judged(collisions: list[float], *rows: tuple[float, ...]) -> set[str]:
    table = {
        rounds: dict(zip((None, 8, 4, 2, 1), row, strict=True)) for rounds, row in zip((None, 4), rows, strict=True)
    }
    return failed(hashes._findings(collisions, table, SIZE))


GOOD = (1.0, 1.0, 0.999, 0.95, 0.7)


def test_it_holds_for_the_figures_of_the_paper() -> None:
    assert judged(FALLING, (1.0, 0.948, 0.925, 0.769, 0.525), (0.008, 1.0, 0.999, 0.994, 0.85)) == set()


@pytest.mark.parametrize(
    "collisions, row, first",
    [
        ([1.0, 0.9, 0.9, *FALLING[3:]], GOOD, "collisions:"),
        (FALLING, (1.0, 1.0, 0.98, 0.95, 0.7), "LSH-4"),
        (FALLING, (1.0, 0.97, 0.999, 0.95, 0.7), "largest"),
        (FALLING, (1.0, 1.0, 1.0, 1.0, 0.95), "smallest"),
    ],
)
def test_it_fails(collisions: list[float], row: tuple[float, ...], first: str) -> None:
    assert judged(collisions, GOOD, row) == {first}


def test_rotations_that_ignore_the_vectors_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets drawn at random collide equally often at all angles."""
    monkeypatch.setattr(
        hashes, "hash_positions", lambda x, drawn, factors: torch.randint(16, (1, 1, drawn.shape[2], x.shape[2]))
    )
    assert "collisions:" in failed(hashes.run(seed=1, minimal=True, report=ignore_report, trained=(4,), size=SIZE))


def test_a_new_model_guesses() -> None:
    """A word of 3 symbols, and evaluation leaves the mixer as it was."""
    model = duplication_model(SIZE, 4, seed=1)
    mixer = hashes._mixer(model)
    before = mixer.factors, mixer.chunk, mixer.evaluation_rounds
    assert 0.1 < copied(model, SIZE, None, seed=1) < 0.7
    assert (mixer.factors, mixer.chunk, mixer.evaluation_rounds) == before == ((2,), 4, 4)


def test_sequences_are_a_word_twice() -> None:
    tokens = hashes._words(SIZE, 5, (1, 2))
    assert torch.equal(tokens[:, :4], tokens[:, 4:]) and not tokens[:, 0].any() and bool((tokens[:, 1:4] > 0).all())
    assert torch.equal(tokens, hashes._words(SIZE, 5, (1, 2))) and not torch.equal(
        tokens, hashes._words(SIZE, 5, (1, 3))
    )
