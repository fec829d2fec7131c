"""``regard data notes`` and ``regard data midi``: music to text that a language model learns, and text to music."""

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
    int, typer.Option("--steps", min=1, max=48, metavar="N", help="Frames of a quarter note: 4 are sixteenths.")
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write.")]


def register(commands: typer.Typer) -> None:
    """Add both commands to ``regard data``."""
    commands.command("notes")(notes)
    commands.command("midi")(midi)


def notes(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="MIDI files, folders of them, or JSON.")],
    *,
    output: Output,
    part: Annotated[str | None, typer.Option("--part", metavar="NAME", help="Part of a JSON file to take.")] = None,
    steps: Steps = 1,
    shifts: Annotated[
        int | None,
        typer.Option(
            "--shifts",
            min=0,
            max=11,
            metavar="N",
            help="Give each piece also up to N semitones higher and lower; a prompt of one pitch, C4 for none, tells.",
        ),
    ] = None,
) -> None:
    """Write music as text, a JSON line a piece, for `regard train`.

    A piece has a line a frame with the names of the pitches that sound, low to high: C3 G3 E4 C5. JSON is a list of
    pieces, each a list of frames of MIDI pitches, or an object of such lists by part.
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
    times = f", at {2 * shifts + 1} heights" if shifts else ""
    if left := len(pieces) * (2 * (shifts or 0) + 1) - len(rows):
        times += f" but {left:,}, beyond the pitches that there are"
    print(f"{output}: {pluralize(len(pieces), 'piece')}, {pluralize(sum(map(len, pieces)), 'frame')}{times}")


def _at_height(piece: list[Frame], shift: int) -> list[dict[str, str]]:
    """The piece so many semitones higher; none where that is beyond the pitches that there are."""
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
    tempo: Annotated[int, typer.Option("--tempo", min=1, max=1000, metavar="N", help="Quarter notes a minute.")] = 90,
    draw: Annotated[
        Path | None, typer.Option("--draw", metavar="DIR", help="Draw the piece into this folder: time by pitch.")
    ] = None,
) -> None:
    """Write the text of a piece, as `regard generate` gives it, as a MIDI file.

    A pitch of two frames in a row is one note that goes on.
    """
    from regard.core.atomic_files import explain_os_errors
    from regard.data.midi import write_midi
    from regard.data.notes import frames_of
    from regard.data.text_files import read_lines

    text = sys.stdin.read() if file is None else "".join(f"{line}\n" for line in read_lines(file))
    frames = frames_of(text, where="standard input" if file is None else str(file))
    if not any(frames):
        raise ConfigError("there is no note to write", where=str(file or "standard input"))
    with explain_os_errors(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        write_midi(frames, output, steps=steps, tempo=tempo)
    print(f"{output}: {pluralize(len(frames), 'frame')}, {60 * len(frames) / steps / tempo:.0f} s")
    if draw is not None:
        _draw(frames, draw, steps)


def _draw(frames: list[Frame], folder: Path, steps: int) -> None:
    from regard.core.atomic_files import explain_os_errors
    from regard.core.figure import can_draw, draw_notes, save_figure
    from regard.core.installation import extra_command

    if not can_draw():
        why, help = "matplotlib is not installed", extra_command("plot")
        raise ConfigError("there is no picture", where="--draw", why=why, help=help)
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        paths = save_figure(lambda figure: draw_notes(figure, frames, steps), folder)
    print(f"in {folder}: {', '.join(path.name for path in paths)}")
