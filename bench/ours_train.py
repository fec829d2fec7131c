"""Regard's worker: the trainer itself, held between updates until it is asked to go on.

python bench/ours_train.py RUN_FOLDER [UPDATES A TURN]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from serving import Served

from regard.runs.run_folder import RunFolder
from regard.training.progress import TrainingProgress, Validation
from regard.training.setup import set_up
from regard.training.trainer import Trainer


class Answers:
    """The trainer's reporter and its question whether to stop: answers after so many updates, then waits."""

    def __init__(self, served: Served, updates: int = 1) -> None:
        self.served, self.updates, self.made, self.tokens = served, updates, 0, 0.0

    def updated(self, place: TrainingProgress, steps: int | None, figures: dict[str, float]) -> None:
        self.made, self.tokens = self.made + 1, self.tokens + figures["tokens"]
        if self.made == self.updates:
            self.served.answer(tokens=self.tokens, loss=figures["loss"])
            self.made, self.tokens = 0, 0.0

    def validated(self, place: TrainingProgress, validation: Validation, best: bool) -> None: ...
    def log(self, message: str) -> None: ...

    def interrupted(self) -> bool:
        if not self.made and not self.served.asked():
            raise SystemExit  # leave at once: nothing of this run is to be saved
        return False


def main(folder: Path, updates: int) -> None:
    served = Served()
    answers = Answers(served, updates)
    run = RunFolder.open(folder)
    ready = set_up(run, log=answers.log)
    trainer = Trainer(
        run,
        ready.net,
        ready.data,
        steps=None,
        reporter=answers,
        interrupted=answers.interrupted,
    )
    parameters = sum(parameter.numel() for parameter in ready.net.parameters())
    served.answer(torch=torch.__version__, threads=torch.get_num_threads(), parameters=parameters)
    trainer.fit()


def _nothing(model: Any) -> dict[str, float]:
    return {}


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
