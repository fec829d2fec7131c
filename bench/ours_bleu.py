"""Regard's worker: the trainer itself, which stops every so many updates to decode a test set.

python bench/ours_bleu.py RUN_FOLDER JOB.json OUTPUTS.json
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path

import torch
from bleu_work import Stretch
from serving import Served
from torch import Tensor

from regard.attention.span import Span
from regard.data.pairs import pad_sources
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD
from regard.engine.transformer import FastEncoderDecoder
from regard.models.encoder_decoder import EncoderDecoder
from regard.runs.run_folder import RunFolder
from regard.search.batch_search import in_order, search
from regard.search.contract import Symbols
from regard.search.rows import start_rows
from regard.training.progress import TrainingProgress, Validation
from regard.training.setup import set_up
from regard.training.trainer import Trainer


class Answers:
    """The trainer's reporter, and its question whether to stop, which is where a stretch begins."""

    def __init__(self, served: Served, stretch: Stretch, model: EncoderDecoder) -> None:
        self.served, self.stretch = served, stretch
        self.model = deepcopy(model).float().eval()  # what a checkpoint would hold is decoded: the float32 weights
        self.weights: Callable[[], dict[str, Tensor]] = dict
        self.waits = True

    def updated(self, place: TrainingProgress, steps: int | None, figures: dict[str, float]) -> None:
        self.waits = self.stretch.updated(figures["loss"])
        if self.waits:
            self.stretch.answer(self.decode)

    def validated(self, place: TrainingProgress, validation: Validation, best: bool) -> None: ...
    def log(self, message: str) -> None: ...

    def interrupted(self) -> bool:
        if self.waits:
            if not self.served.asked():
                raise SystemExit  # leave at once: nothing of this run is to be saved
            self.waits = False
            self.stretch.begin()
        return False

    @torch.no_grad()
    def decode(self, sources: Sequence[Sequence[int]]) -> list[list[int]]:
        self.model.load_state_dict(self.weights(), strict=False)
        fast = FastEncoderDecoder(self.model.encoder, self.model.decoder, self.model.head.weight)
        longest = torch.tensor([len(source) + self.stretch.longest for source in sources])
        live = start_rows(range(len(sources)), Symbols(BEGIN, END, suppressed=(PAD, BEGIN)), max_lengths=longest)
        source, valid = pad_sources([list(source) for source in sources])
        session = fast.session(source, Span.of(valid))
        return [best[0].tokens for best in in_order(search(fast.chunked_step, (live, session)), len(sources))]


def main(folder: Path, job: Path, outputs: Path) -> None:
    served = Served()
    run = RunFolder.open(folder)
    ready = set_up(run, log=lambda message: None)
    answers = Answers(served, Stretch(served, job, outputs), ready.net)
    trainer = Trainer(
        run, ready.net, ready.data, steps=None, reporter=answers, interrupted=answers.interrupted,
    )  # fmt: skip
    answers.weights = trainer.optimizer.weights
    served.answer(torch=torch.__version__, threads=torch.get_num_threads())
    trainer.fit()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
