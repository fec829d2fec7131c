"""Lightning: a reporter takes the place of a callback. It logs, and stops a training early."""

import csv
from pathlib import Path

import regard
from regard.training.progress import NullReporter, Outcome, TrainingProgress, TrainingStart, Validation


class LogAndStop(NullReporter):
    """Write a row of CSV for each validation; stop after `patience` validations without a better one."""

    def __init__(self, file: Path, patience: int) -> None:
        self.file, self.patience, self.waited = file, patience, 0

    def started(self, start: TrainingStart) -> None:
        print(f"{start.parameters} parameters, from step {start.step}")

    def validated(self, progress: TrainingProgress, validation: Validation, best: bool) -> bool:
        with self.file.open("a", newline="") as file:
            csv.writer(file).writerow([progress.step, validation.loss, validation.metrics.get("accuracy")])
        self.waited = 0 if best else self.waited + 1
        return self.waited >= self.patience

    def finished(self, outcome: Outcome) -> None:
        print(f"{outcome.reason} at step {outcome.progress.step}")


texts, labels = ["a fine film", "a dull film"] * 40, ["good", "bad"] * 40
wrong = (texts[:8], ["bad", "good"] * 4)  # the training makes this loss worse
settings = {"steps": 100, "validate_every": 5, "learning_rate": 0.01, "threads": 1, "workers": 1}
reporter = LogAndStop(Path("log.csv"), patience=2)
run = regard.train(texts, labels, valid=wrong, task="classification", name="early", train=settings, reporter=reporter)
print(Path("log.csv").read_text())
