"""Options of ``regard recognize --streaming``: words of a pipe of raw sound are printed as they are committed."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from regard.commands.incoming_lines import open_incoming
from regard.commands.setting_options import SharedOption
from regard.commands.spoken_translation import TRANSLATION_OPTIONS, SpokenTranslation
from regard.commands.streaming import PANEL, Agree, refuse_with_streaming, require_streaming
from regard.config.stream_settings import PolicyName
from regard.core.wording import pluralize
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.inference.streamed import Advances
    from regard.tasks.recognition.recognizer import Recognizer
    from regard.tasks.recognition.streaming import SpeechOutput, StreamingRecognizer

Streaming = Annotated[
    bool,
    typer.Option("--streaming", help="Recognize a sound while it is still arriving.", rich_help_panel=PANEL),
]
Raw = Annotated[
    int | None,
    typer.Option(
        "--raw",
        metavar="RATE",
        help="Read 16-bit little-endian PCM with one channel and this number of samples per second.",
        rich_help_panel=PANEL,
    ),
]
PolicyOption = Annotated[
    PolicyName | None,
    typer.Option(
        "--policy",
        help="Commit words by this policy. local-agreement: where two hypotheses agree; alignatt: where attention has "
        "left the last sound.",
        show_default="local-agreement",
        rich_help_panel=PANEL,
    ),
]
Lag = Annotated[
    int | None,
    typer.Option(
        "--lag",
        min=0,
        max=1000,
        metavar="N",
        help="Lag: steps between two hypotheses of local-agreement, last frames of 10 ms that alignatt waits for.",
        show_default="1, 40",
        rich_help_panel=PANEL,
    ),
]
Step = Annotated[
    float | None,
    typer.Option(
        "--step",
        metavar="SECONDS",
        help="Form a hypothesis after each step of sound.",
        show_default="0.5",
        rich_help_panel=PANEL,
    ),
]
Silence = Annotated[
    float | None,
    typer.Option(
        "--silence",
        metavar="SECONDS",
        help="End a segment at a silence of this length.",
        show_default="0.6",
        rich_help_panel=PANEL,
    ),
]
Longest = Annotated[
    float | None,
    typer.Option(
        "--longest",
        metavar="SECONDS",
        help="Cut segments that are longer than this, or than data.max_seconds.",
        show_default="20",
        rich_help_panel=PANEL,
    ),
]


class ListeningRequest(NamedTuple):
    """Requested stream: see the options."""

    streaming: bool = False
    raw: int | None = None
    policy: PolicyName | None = None
    lag: int | None = None
    agree: int | None = None
    step: float | None = None
    silence: float | None = None
    longest: float | None = None
    translate: Path | None = None
    translate_policy: PolicyName | None = None
    translate_lag: int | None = None
    translate_agree: int | None = None

    @property
    def translation(self) -> SpokenTranslation | None:
        """The requested translation. ConfigError for options that contradict each other."""
        return SpokenTranslation.requested(
            self.translate, self.translate_policy, self.translate_lag, self.translate_agree
        )

    def check(self, **options: Any) -> None:
        """Raise ConfigError for options that contradict each other; ``options``: those that streaming excludes."""
        require_streaming(self)
        if not self.streaming:
            return
        if self.raw is None:
            help = "for example: arecord -t raw -f S16_LE -r 16000 | regard recognize RUN - --streaming --raw 16000"
            raise ConfigError("--streaming requires --raw, the rate of the sound", where="--streaming", help=help)
        refuse_with_streaming(**options)


LISTENING_OPTIONS = {
    "streaming": SharedOption(Streaming, False),
    "raw": SharedOption(Raw),
    "policy": SharedOption(PolicyOption),
    "lag": SharedOption(Lag),
    "agree": SharedOption(Agree),
    "step": SharedOption(Step),
    "silence": SharedOption(Silence),
    "longest": SharedOption(Longest),
} | TRANSLATION_OPTIONS


def listen(
    run: Path, model: Recognizer, files: list[Path], request: ListeningRequest, settings: dict[str, Any],
    *, checkpoint: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Recognize raw sound from standard input or one file, and print the words as they are committed.

    Args:
        run: the run folder.
        model: its recognizer.
        files: one file; ``-`` is standard input.
        request: the options.
        settings: changes of the search.
        checkpoint: that of the model; None for the default.
        as_json: print an object for each step.
    """
    from regard.runs.run_folder import RunFolder
    from regard.tasks.recognition.open_streaming import open_streaming
    from regard.tasks.recognition.streaming import SegmentOptions

    translation = request.translation
    if len(files) != 1:
        raise ConfigError("--streaming reads one file, or standard input", where="FILE", help="write - for the input")
    lengths = {"step": request.step, "silence": request.silence, "longest": request.longest}
    options = SegmentOptions(**{name: value for name, value in lengths.items() if value is not None})
    streaming = open_streaming(
        RunFolder.open(run), model, request.policy, request.lag, agree=request.agree, options=options,
        search=model.adjusted(settings), checkpoint=checkpoint,
    )  # fmt: skip
    assert request.raw is not None
    steps = _steps(streaming, None if str(files[0]) == "-" else files[0], request.raw)
    printer = _Json() if as_json else _Words()
    if translation is not None:
        steps = map(_Translation(translation.open()[1]).of, steps)
    closed = Counter[str]()
    for step in steps:
        printer.add(step)
        closed[step.output.closing] += 1
    if closed["length"]:
        limit = f"at the maximum length of {streaming.longest:g} s"
        typer.echo(f"closed {pluralize(closed['length'], 'segment')} {limit}", err=True)


class _Step(NamedTuple):
    """An output, the text to print with its unstable rest, and the seconds of computation."""

    output: SpeechOutput
    committed: str
    new: str
    unstable: str
    elapsed: float


def _steps(streaming: StreamingRecognizer, file: Path | None, rate: int) -> Iterator[_Step]:
    """Yield each step of the sound of a file, or of standard input, as soon as it has arrived."""
    from regard.data.raw_sound import RawSound

    sound, stream, contents = RawSound(rate, streaming.rate), streaming.open(), b" "
    with open_incoming(file, watched=True) as (read, name):
        while contents:
            contents = read()
            samples = sound.add(contents, final=not contents)
            pieces = [samples[first : first + streaming.step] for first in range(0, len(samples), streaming.step)]
            for number, piece in enumerate([*pieces, samples[:0]]):
                begin, final = time.perf_counter(), not contents and number == len(pieces)
                outputs, stream = streaming.advance(stream, piece, final=final)
                elapsed = time.perf_counter() - begin
                for output in outputs:
                    yield _Step(output, output.committed, output.new, output.unstable, elapsed)
    if not sound.is_whole:
        typer.echo(f"{name} ends within a sample; its last byte was dropped", err=True)


class _Translation:
    """Translations of committed words; each is complete at the end of its segment.

    Args:
        model: the streaming translator.
    """

    def __init__(self, model: Advances) -> None:
        from regard.inference.continued_text import ContinuedSegments

        self._model, self._state = model, ContinuedSegments()

    def of(self, step: _Step) -> _Step:
        """Return a step with the translation in place of the recognized words."""
        begin = time.perf_counter()
        output, self._state = self._state.advance(self._model, step.new.strip(), final=step.output.final)
        return step._replace(**output._asdict(), elapsed=step.elapsed + time.perf_counter() - begin)


class _Words:
    """Prints committed text, a line for each segment that has words."""

    def add(self, step: _Step) -> None:
        end = "\n" if step.output.final and step.committed else ""
        sys.stdout.write(step.new.replace("\n", " ").replace("\r", " ") + end)
        sys.stdout.flush()


class _Json:
    """Prints an object for each step."""

    def add(self, step: _Step) -> None:
        output = step.output._replace(committed=step.committed, new=step.new, unstable=step.unstable)
        line = output.as_dict() | {"elapsed": round(step.elapsed, 6)}
        sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
        sys.stdout.flush()
