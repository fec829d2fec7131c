"""Options of search and sampling that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.commands.shared_arguments import SharedOption, taken_together

__all__ = [
    "Beam",
    "CoveragePenalty",
    "EarlyStopping",
    "LengthPenalty",
    "NoRepeatPieces",
    "takes_sampling",
]

LengthPenalty = Annotated[
    float | None,
    typer.Option(
        "--length-penalty",
        metavar="A",
        help="Exponent A of the length penalty: hypotheses rank by log P / ((k + length) / (k + 1))^A, where k is the "
        "run's search.length_offset, 5 by default. 0 ranks by log P.",
    ),
]
EarlyStopping = Annotated[
    bool | None,
    typer.Option(
        "--early-stopping/--no-early-stopping",
        help="End the search of a sentence when as many hypotheses have ended as the beam is wide, as most programs "
        "do: quicker, and now and then not the best of the beam.",
    ),
]
CoveragePenalty = Annotated[
    float | None,
    typer.Option(
        "--coverage-penalty",
        metavar="B",
        help="Weight B of the coverage penalty: adds B times the sum over source pieces of the log of the attention "
        "they received (0.2 in GNMT).",
    ),
]
NoRepeatPieces = Annotated[
    int | None,
    typer.Option(
        "--no-repeat-ngram",
        min=0,
        metavar="N",
        help="Say no N pieces in a row twice: for summaries, 3 (Paulus et al. 2018). 0 allows it.",
    ),
]
Beam = Annotated[int | None, typer.Option("--beam", min=1, metavar="N", help="Beam width; 1 is greedy search.")]
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        min=0,
        metavar="T",
        help="Sample from p^(1/T): tokens with a higher probability for T below 1, more even draws above.",
    ),
]
TopK = Annotated[
    int | None, typer.Option("--top-k", min=1, metavar="K", help="Sample among the K most probable tokens.")
]
TopP = Annotated[
    float | None,
    typer.Option("--top-p", metavar="P", help="Sample among the fewest tokens whose probabilities sum to P."),
]
MinP = Annotated[
    float | None,
    typer.Option(
        "--min-p",
        metavar="P",
        help="Sample among the tokens at least P times as probable as the most probable one, for example 0.1.",
    ),
]
Stop = Annotated[
    list[str] | None,
    typer.Option("--stop", metavar="TEXT", help="End the output before this text; may be repeated. Not with a beam."),
]
RepetitionPenalty = Annotated[
    float | None,
    typer.Option(
        "--repetition-penalty",
        metavar="X",
        help="Multiply log P of tokens that prompt and output already contain by X, for example 1.2. Not with a beam.",
    ),
]
FrequencyPenalty = Annotated[
    float | None,
    typer.Option(
        "--frequency-penalty",
        metavar="X",
        help="Subtract X from a token's logit for each time that it was generated: -2 to 2. Not with a beam.",
    ),
]
PresencePenalty = Annotated[
    float | None,
    typer.Option(
        "--presence-penalty",
        metavar="X",
        help="Subtract X from the logit of a token that was generated: -2 to 2. Not with a beam.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        help="Seed of sampling: an output depends on its input and the seed alone. Another one each time unless given.",
    ),
]


takes_sampling = taken_together(
    "sampling",
    {
        "temperature": SharedOption(Temperature),
        "top_k": SharedOption(TopK),
        "top_p": SharedOption(TopP),
        "min_p": SharedOption(MinP),
        "repetition_penalty": SharedOption(RepetitionPenalty),
        "frequency_penalty": SharedOption(FrequencyPenalty),
        "presence_penalty": SharedOption(PresencePenalty),
        "stop": SharedOption(Stop),
        "seed": SharedOption(Seed),
    },
    dict,  # settings of ``config.settings.ChoiceConfig`` by name, those that were not given as None
)
