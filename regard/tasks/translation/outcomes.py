"""The outcomes of a translation model: a row for each line of a test set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from regard.core.outcomes import OutcomeRow, TargetOutcome
from regard.core.untrusted_files import shortened
from regard.data.order import batches_in_order
from regard.data.reading import CorpusConfig, read_pairs
from regard.metrics.text import EvaluationSet, item_counts, sacrebleu_parts
from regard.tasks.translation.translator import Translator

BATCH = 4096  # tokens of the longer side


def line_rows(
    model: Translator, files: Sequence[Path], examples: EvaluationSet, outputs: Sequence[str],
    log_probabilities: Mapping[str, float], language: str | None,
) -> list[OutcomeRow]:  # fmt: skip
    """Return a row for each line: ``target`` is the reference that equals the output, otherwise the first one.

    Args:
        model: the model.
        files: the files of the test set.
        examples: its lines.
        outputs: the output for each line.
        log_probabilities: log P of the output, by source.
        language: the target language, for sacreBLEU.
    """
    config = CorpusConfig(source=files[0], target=files[1] if len(files) > 1 else None)
    line_numbers = [number for number, _, _ in read_pairs(config)]
    references = [
        next((one for one in accepted if one.split() == output.split()), accepted[0])
        for accepted, output in zip(examples.references, outputs, strict=True)
    ]
    losses = reference_losses(model, examples.sources, references)
    exact = item_counts("exact", outputs, examples.references)
    with sacrebleu_parts("chrf", examples.references, language) as (scorer, _):
        chrf = [
            float(scorer.sentence_score(output, accepted).score)
            for output, accepted in zip(outputs, examples.references, strict=True)
        ]
    return [
        OutcomeRow(
            f"{files[0]}:{line}", number, None, None, shortened(source), len(model.source.encode(source)),
            TargetOutcome(
                reference, output, log_probability=log_probabilities.get(source), exact=bool(equal), chrf=score
            ),
            loss,
        )
        for number, (line, source, reference, output, (equal, _), score, loss) in enumerate(
            zip(line_numbers, examples.sources, references, outputs, exact, chrf, losses, strict=True), start=1
        )
    ]  # fmt: skip


def reference_losses(model: Translator, sources: Sequence[str], references: Sequence[str]) -> list[float | None]:
    """Return −log p of each reference in nats per token, with END; None for a pair that is too long for one pass."""
    parts = [model.parts(source) or [[]] for source in sources]
    targets = [model.target.encode(reference) for reference in references]
    scored = [
        number for number, part in enumerate(parts)
        if len(part) == 1 and max(len(part[0]), len(targets[number])) <= model.max_length
    ]  # fmt: skip
    losses: list[float | None] = [None] * len(parts)
    lengths = np.array([max(len(parts[number][0]), len(targets[number])) + 1 for number in scored], np.int64)
    for batch in batches_in_order(lengths, BATCH) if scored else ():
        numbers = [scored[index] for index in batch.tolist()]
        rows = model.scored_ids([parts[number][0] for number in numbers], [targets[number] for number in numbers])
        for number, row in zip(numbers, rows, strict=True):
            losses[number] = -fmean(row)
    return losses
