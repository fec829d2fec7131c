"""The language model of another run as a scorer of a search for text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.state import State
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer
from regard.errors import ConfigError
from regard.runs.run_folder import RunFolder
from regard.tasks.load import load


class SpeechLanguageModel:
    """A language model whose pieces are renumbered as those of a recognizer.

    Args:
        model: the model, with ``start`` and ``step``.
        ids: its number of each piece of the recognizer.
    """

    def __init__(self, model: Any, ids: Int[Tensor, "types"]) -> None:
        self.model, self.ids = model, ids

    @classmethod
    def open(cls, path: str, tokenizer: Tokenizer) -> SpeechLanguageModel:
        """Open a run. ConfigError if its pieces are not those of the recognizer."""
        task = RunFolder.open(Path(path)).task.name
        if task != "language-model":
            help = "train one on the transcripts: regard train TEXTS.txt --set data.tokenizer.kind=character"
            raise ConfigError(
                f"{path} is not a language model", where="search.lm", why=f"its task is {task}", help=help
            )
        generator: Any = load(path)
        ids = matching_ids(tokenizer, generator.tokenizer)
        if isinstance(ids, str):
            raise ConfigError(
                "the language model has another vocabulary", where="search.lm", why=ids,
                help="train it on the transcripts with the same data.tokenizer: "
                f"--set data.tokenizer.kind={tokenizer.config.kind}",
            )  # fmt: skip
        return cls(generator.decoding.model, ids.to(generator.device))

    def start(self, rows: int) -> State:
        """Return the state before the first piece."""
        return self.model.start(rows)

    def step(
        self, tokens: Int[Tensor, "rows length"], state: State
    ) -> tuple[Float[Tensor, "rows length types"], State]:
        """Return the log-probabilities of the recognizer's pieces after each one, and the new state."""
        log_p, state = self.model.step(self.ids[tokens], state)
        return log_p[..., self.ids], state


def matching_ids(own: Tokenizer, other: Tokenizer) -> Int[Tensor, "types"] | str:
    """Return the number in ``other`` of each piece of ``own``; or the reason why some have no equal."""
    if own.config.model_dump(exclude={"size"}) != other.config.model_dump(exclude={"size"}):
        return f"its tokenizer is {other.config.kind}, and that of the recognizer is {own.config.kind}"
    if own.config.kind not in ("character", "word"):
        return torch.arange(len(own)) if own.digest() == other.digest() else "its subword pieces differ"
    numbers = {piece: number for number, piece in enumerate(other.pieces(range(len(other))))}
    pieces = own.pieces(range(len(own)))
    missing = [piece for piece in pieces[len(SPECIALS) :] if piece not in numbers]
    if missing:
        return f"it lacks {', '.join(missing[:10])}"
    return torch.tensor([numbers[piece] for piece in pieces])
