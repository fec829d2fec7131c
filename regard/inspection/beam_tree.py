"""The tree of a beam search: hypotheses that it kept, pruned, and returned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.config.settings import SearchConfig
from regard.data.tokenizers.tokenizer import END
from regard.search.beam import BeamStep, length_normalizer
from regard.search.contract import Hypothesis


@dataclass
class BeamNode:
    """One token of the tree."""

    id: int
    parent: int | None  # the node of the previous token; None for a first token
    step: int
    token: int
    log_probability: float  # of the token, in nats
    total: float  # log P of the path to this node
    score: float | None  # of an ended hypothesis: total with the length penalty
    state: Literal["live", "ended", "pruned"]
    best: bool = False  # on the path of the output that is inspected


class BeamTree:
    """A recorder of one sentence's beam search; called with each step, in order."""

    def __init__(self, settings: SearchConfig) -> None:
        self.settings = settings
        self.nodes: list[BeamNode] = []
        self._live: list[int | None] = [
            None
        ]  # ids of nodes, in the order in which the next step numbers live hypotheses
        self._step = 0

    def __call__(self, sentence: int, step: BeamStep) -> None:
        before, ids = self._live, {}
        for place, (total, token_log_prob, parent, token) in enumerate(
            zip(step.total, step.token_log_prob, step.parent, step.token, strict=True)
        ):
            if total == -float("inf"):
                continue
            ends = token == END
            ended, lives = ends and place < self.settings.beam, not ends and place in step.live
            ids[place] = len(self.nodes)
            self.nodes.append(
                BeamNode(
                    ids[place], before[parent], self._step, token, token_log_prob, total,
                    self._score(total) if ended else None, "ended" if ended else "live" if lives else "pruned",
                )
            )  # fmt: skip
        self._live = [ids.get(place) for place in step.live]
        self._step += 1

    def _score(self, total: float) -> float:
        length = self._step + 1
        return total / length_normalizer(length, self.settings.length_penalty, self.settings.length_offset)

    def mark(self, hypothesis: Hypothesis) -> None:
        """Mark the path of an output as ``best``."""
        parent: int | None = None
        for token in [*hypothesis.tokens, *([END] if hypothesis.finished else [])]:
            children = (node for node in self.nodes if node.parent == parent and node.token == token)
            node = next((node for node in children if node.state != "pruned"), None)
            if node is None:
                return
            node.best, parent = True, node.id
