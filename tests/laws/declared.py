"""Every field and answer, with rows to learn from; and the modules that define them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from regard.answers.forecast import FuturePoints, FutureValues
from regard.answers.label_set import SeveralLabels
from regard.answers.next_item import NextItem
from regard.answers.number import Number
from regard.answers.one_class import OneClass
from regard.answers.plain_class import PlainClass
from regard.answers.tag_sequence import TagSequence
from regard.answers.tagged_tokens import TaggedTokens
from regard.core.answer import InputContext
from regard.data.graph_lines import graph_of
from regard.data.image_options import ImageOptions
from regard.data.recordings import SoundFeatures, Speaker
from regard.data.rows import Row
from regard.data.series_files import SeriesColumns, read_table
from regard.data.sound_options import SoundOptions
from regard.data.time_series import Series, SeriesWindow
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.data.wav_files import write_wav
from regard.fields.frames import Frames
from regard.fields.graphs import Graphs
from regard.fields.image import Images
from regard.fields.items import Items
from regard.fields.series import SeriesWindows
from regard.fields.sound import Sounds
from regard.fields.text import Text
from regard.fields.tokens import Tokens
from regard.metrics.forecast import Gaussian, Point, Quantiles
from regard.testing import AnswerCase, FieldCase
from tests.laws.images_task import bar
from tests.laws.sounds_task import RATE, tone
from tests.structure import ROOT, modules

__all__ = ["ANSWERS", "FIELDS", "STATED", "defined_in"]

BACK, AHEAD, ENDS = 6, 3, range(6, 22, 3)
TABLE = "date,load,heat\n" + "".join(f"2020-01-{day:02d},{day % 5}.25,{30 - day}\n" for day in range(1, 25))
(SERIES,) = read_table(TABLE, "table.csv", SeriesColumns())
WINDOWS = [
    Row({"future": SeriesWindow(SERIES, end, BACK, AHEAD)}, Path("table.csv"), end)  # type: ignore[dict-item]
    for end in ENDS
]


def stated_window(output: Any) -> SeriesWindow:
    """A window whose future is the forecast."""
    points = {name: values for name, values in output.columns.items() if "-lo-" not in name and "-hi-" not in name}
    values = np.array([*points.values()], np.float32).T
    series = Series("table.csv", tuple(points), values, values[:, :0], values[:, :0], borders=(0, 0, 0))
    return SeriesWindow(series, 0, 0, len(values))


# The value that a prediction of each answer states.
STATED: dict[type[Any], Callable[[Any], Any]] = {
    OneClass: lambda output: (output.label,),
    PlainClass: lambda output: (output.label,),
    SeveralLabels: lambda output: output.labels,
    Number: lambda output: (f"{output.value:.10f}",),
    FutureValues: stated_window,
    FuturePoints: stated_window,
    NextItem: lambda output: output.items[:1],
    TagSequence: lambda output: TaggedTokens(output.tokens, output.tags),
}


def defined_in(folder: str, method: str) -> dict[str, str]:
    """Return the module of each public class in a folder whose body defines ``method``."""
    return {
        node.name: module
        for module, text in modules(ROOT).items()
        if module.startswith(f"regard.{folder}.")
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        for part in node.body
        if isinstance(part, ast.FunctionDef) and part.name == method
    }


def rows(*cells: Any) -> list[Row]:
    return [
        Row(dict(enumerate(row if isinstance(row, tuple) else (row,), 1)), Path("rows.tsv"), number)
        for number, row in enumerate(cells, 1)
    ]


def tokenized(kind: str) -> Any:
    """The config of a run that learns this tokenizer from its own texts."""
    return SimpleNamespace(start=None, data=SimpleNamespace(tokenizer=TokenizerConfig(kind=kind)))


TEXTS = rows("a fine film", "dull", "it is a film that is long", " fine ", "", "a  dull film", "long and dull and long")
PAIRS = rows(
    ("a fine film", "it is"), ("dull", "a dull film"), ("", "fine"), ("fine fine", ""), ("it is long", "it is dull")
)  # fmt: skip
STRANDS = rows("ACGTAC", "GATTACA", "C", "TTTTGGGG", "CCATG")


def text(columns: tuple[int, ...] = (1,), **options: Any) -> Callable[[], Text]:
    return lambda: Text(columns, **{"max_length": 5, **options})


FRAMES = rows(
    *(np.random.default_rng(length).normal(3, 2, (length, 3)).astype(np.float32) for length in (3, 1, 7, 2, 5))
)


def sounds(*speakers: str, **options: Any) -> Callable[[], FieldCase]:
    """Recordings of different lengths, by these speakers in turn."""
    chosen = SoundOptions(rate=RATE, channels=40, **options)
    features, known = SoundFeatures(chosen), {name: Speaker() for name in speakers}
    recordings = [features.recording(write_wav(tone(n, length=0.02 + 0.015 * n), RATE), f"{n}.wav") for n in range(5)]
    for number, recording in enumerate(recordings if speakers else ()):
        recording.speaker = speaker = known[speakers[number % len(speakers)]]
        speaker.recordings.append(recording)
    config = SimpleNamespace(start=None)
    return lambda: FieldCase(lambda: Sounds((1,), chosen, max_length=4), rows(*recordings), config)


PICTURES = rows(*(bar(number, size=(5, 7)) for number in range(5)))


def images(patch: int, **options: Any) -> Callable[[], FieldCase]:
    made = lambda: Images((1,), ImageOptions(**options), patch=patch, max_length=35)  # noqa: E731
    return lambda: FieldCase(made, PICTURES, SimpleNamespace(start=None))


RING = [[0, 1], [1, 2], [2, 0]]
GRAPHS = rows(
    *(graph_of(graph, where="graphs.jsonl:1") for graph in (
        {"edges": RING, "features": [[1.5, 0], [0.1, 0], [-2, 0]]},
        {"edges": [[0, 1]], "features": [[1e-3, 0], [7, 0]]},
        {"edges": [], "features": [[3, 0]]},
        {"edges": [[0, 1], [0, 2], [0, 3]], "features": [[2, 0], [0, 0], [1, 0], [1, 0]]},
        {"edges": [[1, 0]], "features": [[0, 0], [0, 0], [0.3, 0]]},
    ))
)  # fmt: skip
MOLECULES = rows(
    *(graph_of(graph) for graph in (
        {"edges": RING, "nodes": ["C", "C", "Ö"]}, {"edges": [[0, 1]], "nodes": ["O", "C"]},
        {"edges": [], "nodes": ["a b"]}, {"edges": [[1, 0]], "nodes": ["O", "C"]},
        {"edges": [[0, 1], [2, 1]], "nodes": ["C", "O", "C"]},
    ))
)  # fmt: skip


SESSIONS = [
    Row({"items": tuple(items.split())}, Path("sessions.txt"), number)
    for number, items in enumerate(("a b c", "b a", "c d a b c d a", "[1] a", "[1]", "d a b c"), 1)
]


class SeriesCase(FieldCase):
    """A row also holds the rows to be forecast, which no network reads."""

    def positions(self, row: Any) -> int:
        return sum(map(len, self.field.parts(row)))


def series_windows(*, together: bool) -> SeriesWindows:
    return SeriesWindows(back=BACK, ahead=AHEAD, together=together, columns=SeriesColumns())


NUMBERS_OF_SERIES = np.random.default_rng(1).normal(0, 1, (6, BACK, 2)).round(3).tolist()
HISTORIES = [
    Row({"history": series_windows(together=False).accept(numbers)}, Path("table.csv"), number)  # type: ignore[dict-item]
    for number, numbers in enumerate(([[None if x > 1.2 else x, y] for x, y in rows] for rows in NUMBERS_OF_SERIES), 1)
]


FIELDS: dict[str, Callable[[], FieldCase]] = {
    "Text": lambda: FieldCase(text(), TEXTS, tokenized("word")),
    "Text that drops words": lambda: FieldCase(
        text(word_dropout=0.4, subword_features=50), TEXTS, tokenized("word")
    ),
    "Text in windows": lambda: FieldCase(
        text(windows=3, max_length=2, word_dropout=0.4, subword_features=20), TEXTS, tokenized("word")
    ),
    "Text of pairs": lambda: FieldCase(text((1, 2), word_dropout=0.3), PAIRS, tokenized("character")),
    "Text of pairs apart": lambda: FieldCase(
        text((1, 2), separate=True, subword_features=20), PAIRS, tokenized("word")
    ),
    "Frames": lambda: FieldCase(
        lambda: Frames((1,), max_length=5), FRAMES, SimpleNamespace(start=None, data=SimpleNamespace(train=()))
    ),
    "Sounds": sounds(),
    "Sounds by speaker": sounds(
        "a", "b", normalization="speaker", trim=20, speeds=(0.9, 1.0, 1.1), shift=2, warp=0.1
    ),
    "Sounds by recording": sounds(normalization="recording", speeds=(1.1,), channel_masks=1, time_masks=2),
    "Images": images(2),
    "Images that move": images(3, shift=1, angle=10, channels=3),
    "Images of another size": images(1, shift=1, size=(4, 4)),
    "Tokens": lambda: FieldCase(
        lambda: Tokens((1,), max_length=4, word_dropout=0.3), TEXTS, tokenized("word")
    ),
    "Items": lambda: FieldCase(lambda: Items(("items",), max_length=4), SESSIONS, tokenized("word")),
    "Tokens of characters": lambda: FieldCase(
        lambda: Tokens((1,), max_length=9, subword_features=30), TEXTS, tokenized("character")
    ),
    "SeriesWindows": lambda: SeriesCase(lambda: series_windows(together=False), HISTORIES),
    "SeriesWindows together": lambda: SeriesCase(lambda: series_windows(together=True), HISTORIES),
    "Graphs": lambda: FieldCase(lambda: Graphs((1,), degrees=3, walks=3), GRAPHS),
    "Graphs with noise": lambda: FieldCase(lambda: Graphs((1,), noise=2), GRAPHS),
    "Graphs of labeled nodes": lambda: FieldCase(lambda: Graphs((1,), directed=True, degrees=1, noise=1), MOLECULES),
    "Text of strands": lambda: FieldCase(
        text(other_strand=True, word_dropout=0.2, max_length=20), STRANDS, tokenized("character")
    ),
}  # fmt: skip

LABELS = rows("good", "bad", "good", " bad", "so so", "good")
SETS = rows("red,round", "", "red", "large , round", "large,red,round", "round")
MARKS = [row._replace(cells={"toxic": mark, "rude": other}) for row, (mark, other) in
         zip(LABELS, ["10", "11", "00", "01", "10", "11"], strict=True)]  # fmt: skip
WORDS = rows(("the", "O"), ("Rome", "B-LOC"), ("Ann", "B-PER"), ("sees", "O"), ("Rome", "B-PER"), ("a", "O"))
NUMBERS = rows("3", "-1.5", "2e1", "0", "7.25", "4")


def answer(make: Callable[[], Any], rows: Sequence[Row]) -> Callable[[], AnswerCase]:
    return lambda: AnswerCase(make, rows, stated=STATED[type(make())])


def forecasts(kind: Any) -> AnswerCase:
    answer = FuturePoints if kind.numbers == 1 else FutureValues
    context = InputContext(values=(SeriesWindow(SERIES, BACK, BACK, AHEAD),))
    tolerance = {1: 1e-3, 2: 2.0, 3: 0.2}[kind.numbers]  # a small deviation makes the loss of a Gaussian steep
    return AnswerCase(
        lambda: answer(kind, ahead=AHEAD), WINDOWS, stated=stated_window, context=context, tolerance=tolerance
    )


ANSWERS: dict[str, Callable[[], AnswerCase]] = {
    "OneClass": answer(lambda: OneClass((1,)), LABELS),
    "OneClass that is balanced": answer(lambda: OneClass((1,), balanced=True), LABELS),
    "PlainClass": answer(lambda: PlainClass((1,)), LABELS),
    "SeveralLabels": answer(lambda: SeveralLabels((1,)), SETS),
    "SeveralLabels of columns": answer(lambda: SeveralLabels(("toxic", "rude"), marked=True), MARKS),
    "NextItem": lambda: AnswerCase(lambda: NextItem(("items",)), SESSIONS, tokenized("word"), stated=STATED[NextItem]),
    "TagSequence": answer(lambda: TagSequence((1, 2)), WORDS),
    "Number": answer(lambda: Number((1,)), NUMBERS),
    **{
        f"forecast of {type(kind).__name__}": lambda kind=kind: forecasts(kind)  # type: ignore[misc]
        for kind in (Point(), Quantiles((0.1, 0.5, 0.9)), Gaussian())
    },
}
