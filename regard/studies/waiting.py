"""Policies of translation before the end of a source: where they wait, and what it costs, from German to English.

Claim: a model that learned from beginnings, too, translates unfinished sentences better than one that learned from
whole sentences only. Policies that depend on the model (local agreement, AlignAtt) wait where it matters, for example
for a German verb at the end of its clause; wait-k waits equally long everywhere (Ma et al. 2019; Liu et al. 2020; Papi
et al. 2023).

Measured: Multi30k, German to English. Two Transformers have the same size and training. One learns from whole pairs,
the other from pairs of which 30 % are cut to a beginning of both sides. Both translate the first 300 sentences of the
validation part, by which nothing is chosen, word by word with each policy at several lags: BLEU over LAAL in source
words. The figure also shows after how many source words each word of one sentence is committed. Its verb "trägt" is at
the end of a relative clause.

Thresholds: with local agreement at lag 1, the model of cut pairs is at least 1 BLEU better. At a LAAL of 3.5 words, the
better one of local agreement and AlignAtt is at least as good as wait-k. LAAL between two lags is interpolated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from regard.config.stream_settings import DEFAULT_LAG, PolicyName
from regard.core.figure import COLORS, MARKERS
from regard.core.wording import pluralize
from regard.data.text_files import read_lines
from regard.errors import ConfigError
from regard.inference.streamed import Streamed, stream_texts
from regard.inspection.stream_scores import score_streams
from regard.inspection.streams import StreamSettings, open_stream
from regard.runs.run_folder import RunFolder
from regard.studies.study import Findings, Report, at_least, number_of_updates
from regard.tasks.load import load
from regard.tasks.translation.config import translation_config
from regard.tasks.translation.evaluation import TranslationTest
from regard.tasks.translation.translator import Translator
from regard.training.start import train

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UPDATES, SENTENCES, TOGETHER = 600, 300, 50
FILES = ("train.de", "train.en", "val.de", "val.en")  # of multi30k, also compressed (.gz)
MODELS = {"whole pairs": 0.0, "cut pairs": 0.3}
LAGS: dict[PolicyName, tuple[int, ...]] = {
    "wait-k": (1, 3, 5, 7), "local-agreement": (1, 2, 3), "alignatt": (1, 2, 4),
}  # fmt: skip
COMPARED = 3.5  # LAAL at which policies are compared
EXAMPLE = "Eine Frau, die ein blaues Kleid trägt, liest ein Buch."
MODEL: dict[str, Any] = {
    "preset": "tiny", "norm": "pre", "position": "rotary", "activation": "relu2", "qk_norm": True, "zero_output": True,
    "embedding_residual": True,
}  # fmt: skip


class PolicyPoint(NamedTuple):
    """Quality and latency of a policy at one lag."""

    policy: PolicyName
    lag: int
    laal: float
    bleu: float


class MeasuredModel(NamedTuple):
    """The points of a model, its BLEU with whole sources, and the example by policy."""

    points: list[PolicyPoint]
    offline: float
    examples: dict[PolicyName, Streamed]

    def bleu_at(self, policy: PolicyName, laal: float) -> float:
        """Return BLEU of a policy at a LAAL, interpolated between its lags."""
        own = sorted((point.laal, point.bleu) for point in self.points if point.policy == policy)
        return float(np.interp(laal, [lag for lag, _ in own], [bleu for _, bleu in own]))


def run(
    *, seed: int, minimal: bool, report: Report, data: Path | None, folder: Path | None, options: Mapping[str, Any]
) -> Findings:
    """Train and measure both models.

    Args:
        seed: of all random numbers.
        minimal: whether a few generated pairs and two updates suffice.
        report: receives the share of work done.
        data: folder with ``multi30k/train.de`` and the other ``FILES``.
        folder: folder of run folders, from which an interrupted study continues; None: a temporary one.
        options: ``updates`` of each training.
    """
    if data is None and not minimal:
        raise ConfigError("the study waiting requires Multi30k", help=f"--data FOLDER with multi30k/{FILES[0]}")
    updates = 2 if minimal else number_of_updates(options, UPDATES)
    with TemporaryDirectory() as temporary:
        place = Path(temporary) if folder is None or minimal else folder
        lines = _generated() if data is None or minimal else _read(data / "multi30k")
        texts = _write(lines, place / "texts", 4 if minimal else SENTENCES)
        measured = {}
        for number, (name, share) in enumerate(MODELS.items()):
            path = place / f"{name.replace(' ', '-')}-{updates}-{seed}"
            train(config(texts, share, updates, seed, minimal=minimal), path)
            report((number + 0.7) / len(MODELS))
            measured[name] = _measure(path, texts)
            report((number + 1) / len(MODELS))
    return _findings(measured, updates)


def config(texts: Path, share: float, updates: int, seed: int, *, minimal: bool = False) -> dict[str, Any]:
    """Return the config of a model that learns from pairs of which a share is cut."""
    train, valid = ([{"source": str(texts / f"{part}.de"), "target": str(texts / f"{part}.en")}]
                    for part in ("train", "valid"))  # fmt: skip
    small = {"layers": 1, "width": 8, "heads": 1, "feed_forward": 8} if minimal else {}
    tokenizer = {"kind": "character"} if minimal else {"kind": "bpe", "size": 8000}
    return {
        "seed": seed, "task": "translation",
        "data": {"train": train, "valid": valid, "tokenizer": tokenizer, "source_language": "de",
                 "target_language": "en"},
        "model": {**MODEL, **small},
        "train": {"steps": updates, "batch_tokens": 3072, "optimizer": "muon", "learning_rate": 5e-3,
                  "weight_decay": 0.1, "schedule": "linear", "warmup": 100, "clip_norm": 1.0, "prefixes": share,
                  "validate_every": updates, "save_every": 100, "baseline": False},
    }  # fmt: skip


def _read(folder: Path) -> dict[str, list[str]]:
    paths = {name: path for name in FILES for path in (folder / name, folder / f"{name}.gz") if path.is_file()}
    if missing := [name for name in FILES if name not in paths]:
        what = f"{folder} lacks {', '.join(missing)}"
        raise ConfigError(what, where="--data", help="regard data fetch multi30k")
    return {name: list(read_lines(path)) for name, path in paths.items()}


def _generated() -> dict[str, list[str]]:
    """Return pairs of letters and capitals, for the minimal version."""
    sources = [" ".join("abcd"[(number * place) % 4] for place in range(1, 2 + number % 5)) for number in range(40)]
    targets = [line.upper() for line in sources]
    return dict(zip(FILES, (sources, targets, sources, targets), strict=True))


def _write(lines: Mapping[str, Sequence[str]], folder: Path, sentences: int) -> Path:
    """Write the training part, and the sentences of the validation part that are measured."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, own in lines.items():
        part, _, side = name.partition(".")
        chosen, target = (own, f"train.{side}") if part == "train" else (own[:sentences], f"valid.{side}")
        (folder / target).write_text("".join(f"{line}\n" for line in chosen), encoding="utf-8")
    return folder


def _measure(path: Path, texts: Path) -> MeasuredModel:
    model, opened = load(path, Translator), RunFolder.open(path)
    test = TranslationTest(translation_config(opened), model, [texts / "valid.de", texts / "valid.en"])
    search = test.search.model_copy(update={"beam": 1, "nbest": 1})
    offline = test.score("bleu", test.outputs(search)).value
    points, examples = list[PolicyPoint](), dict[PolicyName, Streamed]()
    for policy, lags in LAGS.items():
        for lag in lags:
            stream = open_stream(opened, model, StreamSettings(policy, lag, splits=False), search=search)
            score = score_streams(test, stream, ["bleu"], together=TOGETHER)
            points.append(PolicyPoint(policy, lag, score.words["LAAL"], score.figures["bleu"]))
            if lag == DEFAULT_LAG[policy]:
                (examples[policy],) = stream_texts(stream, [EXAMPLE])
    return MeasuredModel(points, offline, examples)


def _findings(measured: Mapping[str, MeasuredModel], updates: int) -> Findings:
    whole, cut = (measured[name] for name in MODELS)
    first = ("local-agreement", 1)
    gain = next(p.bleu for p in cut.points if p[:2] == first) - next(p.bleu for p in whole.points if p[:2] == first)
    looking = max(cut.bleu_at(policy, COMPARED) for policy in ("local-agreement", "alignatt"))
    return Findings(
        columns=("model", "policy", "lag", "LAAL, words", "BLEU", "BLEU of whole sources"),
        rows=[
            (name, point.policy, point.lag, point.laal, point.bleu, own.offline)
            for name, own in measured.items()
            for point in own.points
        ],
        criteria=[
            at_least("cut pairs − whole pairs, local agreement, lag 1, BLEU", gain, 1),
            at_least(f"local agreement or AlignAtt − wait-k at LAAL {COMPARED}, cut pairs, BLEU",
                     looking - cut.bleu_at("wait-k", COMPARED), 0),
        ],
        remarks=(
            f"Each model learned in {pluralize(updates, 'update')} and searches greedily. Both thresholds were set "
            f"before the first run. One sentence by the model of cut pairs, and the source words that were read when "
            f"each word was committed: {EXAMPLE}",
            *(f"{policy}, lag {DEFAULT_LAG[policy]}: {_with_delays(own)}" for policy, own in cut.examples.items()),
        ),
        draw=lambda figure: _draw(figure, measured),
    )  # fmt: skip


def _with_delays(streamed: Streamed) -> str:
    return " ".join(f"{word} ({delay})" for word, delay in zip(streamed.text.split(), streamed.delays, strict=True))


def _draw(figure: Figure, measured: Mapping[str, MeasuredModel]) -> None:
    curves, steps = figure.subplots(1, 2, width_ratios=(3, 2))
    for (name, own), style in zip(measured.items(), ("--", "-"), strict=True):
        for number, policy in enumerate(LAGS):
            line = sorted((point.laal, point.bleu) for point in own.points if point.policy == policy)
            curves.plot(*zip(*line, strict=True), style, marker=MARKERS[number], color=COLORS[number],
                        label=f"{policy}, {name}")  # fmt: skip
        curves.axhline(own.offline, color="#777777", linewidth=1.0, linestyle=style)
    curves.set(xlabel="LAAL (source words)", ylabel="BLEU; gray: whole sources")
    curves.legend(fontsize="small")
    for number, (policy, example) in enumerate(measured["cut pairs"].examples.items()):
        counts = range(1, len(example.delays) + 1)
        steps.step(example.delays, counts, where="post", marker=MARKERS[number], color=COLORS[number], label=policy)
    words = EXAMPLE.split()
    steps.set_xticks(range(1, len(words) + 1), words, rotation=60, ha="right")
    steps.set(xlabel="source words read", ylabel="committed words")
