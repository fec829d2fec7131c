"""``regard recognize``: write the text of recordings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from regard.commands.listening import LISTENING_OPTIONS, ListeningRequest, listen
from regard.commands.options import CheckpointName, DeviceName, Run, Threads, epilog, open_predictor
from regard.commands.predict import AsJson, Settings
from regard.commands.setting_options import option_group

TOGETHER = 16  # recordings recognized together

Recordings = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="Sounds (.wav, .flac, .ogg, .mp3), lists of sounds (.jsonl, .tsv, .csv), folders, or .npz of frames.",
        show_default=False,
    ),
]
Format = Annotated[
    Literal["text", "srt", "vtt", "tsv", "json"],
    typer.Option("--format", help="Print a line of text for each recording, subtitles, a table, or JSON."),
]
LanguageModel = Annotated[
    Path | None,
    typer.Option(
        "--lm",
        metavar="RUN",
        help="Add the scores of this language model, trained on texts with the same tokenizer (search.lm_weight).",
        rich_help_panel="Model",
    ),
]
EXAMPLES = epilog(
    "regard recognize runs/speech a.wav b.wav",
    "regard recognize runs/speech --format srt talk.mp3 > talk.srt",
    "regard recognize runs/speech --json recordings.jsonl > texts.jsonl",
    "regard recognize runs/speech --lm runs/letters --set lm_weight=0.5 a.wav",
    "arecord -t raw -f S16_LE -r 16000 | regard recognize runs/speech - --streaming --raw 16000",
)


def register(app: typer.Typer) -> None:
    """Add ``regard recognize`` to the command line."""
    app.command("recognize", epilog=EXAMPLES)(recognize)


@option_group("stream", LISTENING_OPTIONS, ListeningRequest)
def recognize(
    run: Run,
    files: Recordings,
    *,
    as_json: AsJson = False,
    format: Format = "text",
    lm: LanguageModel = None,
    stream: ListeningRequest = ListeningRequest(),
    set_: Settings = None,
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
) -> None:
    """Write the text of recordings with a trained recognizer.

    Each recording gives one line, in order. --json prints an object with the file, the text, and the seconds of each
    word. --format prints subtitles (srt, vtt), a table of segments (tsv) or one object with segments (json). A long
    recording is cut at its quietest places and keeps its times.

    With --streaming, words are printed as they are committed, while the sound is still arriving: a line for each
    segment, which ends at a silence. --json prints an object for each step.
    """
    from regard.config.toml_layers import parse_override
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task
    from regard.tasks.prediction import require_settings
    from regard.tasks.recognition.subtitles import FORMATS

    stream.check(format=format != "text")
    require_task(RunFolder.open(run), "recognition")
    settings = {".".join(map(str, key)): value for key, value in map(parse_override, set_ or [])}
    options: dict[str, Any] = {} if lm is None else {"lm": lm}
    model = open_predictor(run, checkpoint=checkpoint, device=device, threads=threads, **options)
    require_settings(model, settings)
    if stream.streaming:
        return listen(run, model, files, stream, settings, checkpoint=checkpoint, as_json=as_json)
    inputs_left = _inputs(model, files)
    while group := list(islice(inputs_left, TOGETHER)):
        names, inputs = zip(*group, strict=True)
        for name, transcript in zip(names, model(inputs, **settings), strict=True):
            if as_json:
                typer.echo(_with_file(name, transcript))
            elif format == "text":
                typer.echo(transcript.text)
            else:
                typer.echo(FORMATS[format](transcript), nl=False)


def _inputs(model: Any, files: Sequence[Path]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the input of each recording. DataError if one cannot be read."""
    from regard.data.file_names import named_files
    from regard.data.utterance import Utterance
    from regard.tasks.recognition.data_config import RecordingFiles
    from regard.tasks.recognition.recordings import read_recordings

    for path in (path for file in files for path in named_files(file)):
        if path.suffix.lower() in model.suffixes:
            recordings: Iterator[Utterance] = iter([Utterance(str(path), None, path=path)])
        else:
            recordings = read_recordings([RecordingFiles(source=path)], labeled=False)
        for recording in recordings:
            yield recording.where, model.hear(recording)


def _with_file(name: str, transcript: Any) -> str:
    from json import dumps

    return dumps({"file": name, **transcript.as_dict()}, ensure_ascii=False)
