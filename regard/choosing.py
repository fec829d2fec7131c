"""A config for a corpus nobody wrote a recipe for: sizes that suit its size, each choice with its reason."""

from __future__ import annotations

from typing import Any, NamedTuple

from regard.data.corpora import CorpusConfig, read_pairs

__all__ = ["Choice", "choose"]


class Choice(NamedTuple):
    """A config as nested tables, and what to tell the user about it."""

    config: dict[str, Any]
    reasons: list[str]


class _Size(NamedTuple):
    """Up to so many pairs: this preset, vocabulary, learning rate, warm-up and epochs."""

    pairs: float
    preset: str
    vocabulary: int
    learning_rate: float
    warmup: int
    epochs: int


# Small corpora want small models and strong dropout (Multi30k: bigger is worse); large ones the paper's.
SIZES = (
    _Size(5_000, "tiny", 8_000, 3e-3, 400, 100),
    _Size(100_000, "tiny", 8_000, 3e-3, 1_000, 60),
    _Size(500_000, "small", 16_000, 1.5e-3, 2_000, 40),
    _Size(5_000_000, "base", 32_000, 7e-4, 4_000, 20),
    _Size(float("inf"), "big", 32_000, 5e-4, 4_000, 10),
)
HELD_OUT_SHARE, HELD_OUT_PAIRS = 0.02, 2_000  # for validation where no data is given: whichever is fewer
FEWEST_PAIRS = 200  # with fewer than these, a held out share could be nothing at all
CHARACTERS_A_SIDE = 30  # below this mean length the sides are words rather than sentences


def choose(train: CorpusConfig, valid: CorpusConfig | None) -> Choice:
    """Read the corpus once and choose. Raises the reader's DataErrors."""
    pairs = characters = words = 0
    for _, source, target in read_pairs(train):
        pairs += 1
        characters += len(source) + len(target)
        words += len(source.split()) + len(target.split())
    size = next(size for size in SIZES if pairs <= size.pairs)
    tokenizer = _tokenizer(size, pairs, characters)
    parts, reason = _parts(train, valid, pairs)
    every = 250 if pairs < 100_000 else 1_000
    settings: dict[str, Any] = {
        "learning_rate": size.learning_rate,
        "warmup": size.warmup,
        "epochs": size.epochs,
        "validate_every": every,
        "save_every": every,
    }
    if "valid" in parts:
        settings["early_stopping"] = 10
    data = {**parts, "joint": True, "tokenizer": tokenizer}
    reasons = [
        f"{pairs:,} pairs, {words / max(2 * pairs, 1):.0f} words a side: preset {size.preset}, "
        f"{_pieces(tokenizer)} for both sides, at most {size.epochs} epochs",
        reason,
    ]
    return Choice({"data": data, "model": {"preset": size.preset, "norm": "pre"}, "train": settings}, reasons)


def _parts(train: CorpusConfig, valid: CorpusConfig | None, pairs: int) -> tuple[dict[str, Any], str]:
    """The tables ``train`` and ``valid``, and why they are so."""
    reason = "training ends early after 10 validations without a lower loss"
    if valid is None:
        if pairs < FEWEST_PAIRS:
            return {"train": [_table(train)]}, (
                f"fewer than {FEWEST_PAIRS} pairs: none are held out, so there is no validation and no early stopping; "
                "--valid names data for it"
            )
        share = min(HELD_OUT_SHARE, HELD_OUT_PAIRS / pairs)
        valid = train.model_copy(update={"share": (0.0, share)})
        train = train.model_copy(update={"share": (share, 1.0)})
        reason = f"no validation data given: about {share * pairs:,.0f} pairs are held out; {reason}"
    return {"train": [_table(train)], "valid": [_table(valid)]}, reason


def _table(corpus: CorpusConfig) -> dict[str, Any]:
    return corpus.model_dump(mode="json", exclude_none=True)


def _pieces(tokenizer: dict[str, Any]) -> str:
    if tokenizer["kind"] == "character":
        return "characters"
    return f"{tokenizer['size']:,} bpe pieces" if "size" in tokenizer else "up to 8,000 bpe pieces"


def _tokenizer(size: _Size, pairs: int, characters: int) -> dict[str, Any]:
    if characters < CHARACTERS_A_SIDE * pairs:
        return {"kind": "character"}
    # A size is exact; without one the vocabulary has 8,000 pieces, or as many as a small corpus allows.
    return {"kind": "bpe"} if size.vocabulary == 8_000 else {"kind": "bpe", "size": size.vocabulary}
