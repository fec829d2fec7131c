"""The tree that a beam search grew: what it kept, what it dropped, and what it returned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.config.settings import SearchConfig
from regard.data.tokenizers.catalogue import END
from regard.search.beam import BeamStep, length_normaliser
from regard.search.contract import Hypothesis

__all__ = ["BeamNode", "BeamTree"]


@dataclass
class BeamNode:
    """One token after ``parent``, None for the first. ``score``: of what ended, log P with the length penalty."""

    id: int
    parent: int | None
    step: int
    token: int
    log_probability: float
    total: float
    score: float | None
    state: Literal["live", "ended", "pruned"]
    best: bool = False


class BeamTree:
    """Told the steps of one sentence (``regard.search.beam``), in order."""

    def __init__(self, settings: SearchConfig) -> None:
        self.settings = settings
        self.nodes: list[BeamNode] = []
        self._live: list[int | None] = [None]  # nodes, as the next step numbers them
        self._step = 0

    def __call__(self, number: int, extended: BeamStep) -> None:
        before, ids = self._live, {}
        for place, (total, gain, parent, token) in enumerate(
            zip(extended.total, extended.token_log_prob, extended.parent, extended.token, strict=True)
        ):
            if total == -float("inf"):
                continue
            ends = token == END
            ended, lives = ends and place < self.settings.beam, not ends and place in extended.live
            ids[place] = len(self.nodes)
            self.nodes.append(
                BeamNode(
                    ids[place], before[parent], self._step, token, gain, total,
                    self._score(total) if ended else None, "ended" if ended else "live" if lives else "pruned",
                )
            )  # fmt: skip
        self._live = [ids.get(place) for place in extended.live]
        self._step += 1

    def _score(self, total: float) -> float:
        length = self._step + 1
        return total / length_normaliser(length, self.settings.length_penalty, self.settings.length_offset)

    def mark(self, found: Hypothesis) -> None:
        """The path of the output that was chosen."""
        at: int | None = None
        for token in [*found.tokens, *([END] if found.finished else [])]:
            children = (node for node in self.nodes if node.parent == at and node.token == token)
            node = next((node for node in children if node.state != "pruned"), None)
            if node is None:
                return
            node.best, at = True, node.id
