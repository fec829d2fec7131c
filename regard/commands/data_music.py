"""``regard data notes`` and ``regard data midi``: convert music to text for a language model, and text to music."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.core.wording import pluralize
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.data.notes import Frame

Steps = Annotated[
    int,
    typer.Option("--steps", min=1, max=48, metavar="N", help="Use N frames per quarter note; 4 gives sixteenth notes."),
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")]


def register(commands: typer.Typer) -> None:
    """Add both commands to ``regard data``."""
    commands.command("notes")(notes)
    commands.command("midi")(midi)


def notes(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="MIDI files, folders of MIDI files, or JSON files.")
    ],
    *,
    output: Output,
    part: Annotated[
        str | None, typer.Option("--part", metavar="NAME", help="Read only this part of a JSON file.")
    ] = None,
    steps: Steps = 1,
    shifts: Annotated[
        int | None,
        typer.Option(
            "--shifts",
            min=0,
            max=11,
            metavar="N",
            help="Add copies of each piece transposed by up to N semitones; the prompt is C4 transposed likewise.",
        ),
    ] = None,
) -> None:
    """Convert music to text, one JSON line per piece, for `regard train`.

    A piece has one line per frame with the names of the sounding pitches, low to high: C3 G3 E4 C5. A JSON file is a
    list of pieces, each a list of frames of MIDI pitches, or an object with one such list per part.
    """
    from regard.core.atomic_files import explain_os_errors, write_bytes_atomically
    from regard.data.music_files import read_pieces
    from regard.data.notes import spell

    pieces = [piece for file in files for piece in read_pieces(file, steps=steps, part=part)]
    if shifts is None:
        rows = [{"text": spell(piece)} for piece in pieces]
    else:
        rows = [row for shift in range(-shifts, shifts + 1) for piece in pieces for row in _at_height(piece, shift)]
    lines = [json.dumps(row) + "\n" for row in rows]
    with explain_os_errors(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        write_bytes_atomically(output, "".join(lines).encode())
    copies = f", {2 * shifts + 1} transpositions" if shifts else ""
    if left := len(pieces) * (2 * (shifts or 0) + 1) - len(rows):
        copies += f", {pluralize(left, 'copy', 'copies')} beyond the MIDI range left out"
    print(f"{output}: {pluralize(len(pieces), 'piece')}, {pluralize(sum(map(len, pieces)), 'frame')}{copies}")


def _at_height(piece: list[Frame], shift: int) -> list[dict[str, str]]:
    """Return the piece transposed by ``shift`` semitones; an empty list if a pitch would leave the MIDI range."""
    from regard.data.notes import MIDDLE_C, shifted, spell

    try:
        return [{"prompt": spell([(MIDDLE_C + shift,)]), "completion": spell(shifted(piece, shift))}]
    except ValueError:
        return []


def midi(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Text of one piece.", show_default="standard input")
    ] = None,
    *,
    output: Output,
    steps: Steps = 1,
    tempo: Annotated[
        int, typer.Option("--tempo", min=1, max=1000, metavar="N", help="Set the tempo in quarter notes per minute.")
    ] = 90,
    draw: Annotated[
        Path | None, typer.Option("--draw", metavar="DIR", help="Draw the piece, pitch over time, to this folder.")
    ] = None,
) -> None:
    """Convert the text of a piece, as written by `regard generate`, to a MIDI file.

    A pitch in consecutive frames becomes one long note.
    """
    from regard.data.midi import write_midi
    from regard.data.notes import frames_of
    from regard.data.text_files import read_lines

    text = sys.stdin.read() if file is None else "".join(f"{line}\n" for line in read_lines(file))
    frames = frames_of(text, where="standard input" if file is None else str(file))
    if not any(frames):
        raise ConfigError("the piece has no notes", where=str(file or "standard input"))
    write_midi(frames, output, steps=steps, tempo=tempo)
    print(f"{output}: {pluralize(len(frames), 'frame')}, {60 * len(frames) / steps / tempo:.0f} s")
    if draw is not None:
        _draw(frames, draw, steps, output.name)


def _draw(frames: list[Frame], folder: Path, steps: int, name: str) -> None:
    from regard.core.atomic_files import explain_os_errors
    from regard.core.figure import Caption, require_drawing, save_figure
    from regard.core.metric_figures import draw_notes

    require_drawing("--draw")
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        caption = Caption(f"notes · {name} · {pluralize(len(frames), 'frame')}", "regard data midi")
        paths = save_figure(lambda figure: draw_notes(figure, frames, steps), folder, caption)
    print(f"wrote {', '.join(path.name for path in paths)} to {folder}")
