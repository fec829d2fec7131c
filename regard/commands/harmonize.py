"""``regard harmonize``: add voices to a piece with a masked model of music, from MIDI to MIDI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.commands.options import CheckpointName, DeviceName, Run, Threads, epilog, open_predictor
from regard.core.wording import pluralize

EXAMPLES = epilog(
    "regard harmonize runs/voices three.mid --voice 2 -o four.mid",
    "regard harmonize runs/voices melody.mid --voice 1 --voice 2 --voice 3 -o four.mid",
)


File = Annotated[Path, typer.Argument(metavar="FILE", help="Existing voices: MIDI, or the text of one piece.")]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Write to this MIDI file.")]
Voice = Annotated[
    list[int],
    typer.Option(min=1, max=16, metavar="N", help="Add voice N, counted from 1 (the lowest); may be repeated."),
]
Steps = Annotated[int, typer.Option(min=1, max=48, metavar="N", help="Use N frames per quarter note, as in training.")]
Passes = Annotated[
    int,
    typer.Option(min=0, max=100, metavar="N", help="Predict each new pitch again, given all others, up to N times."),
]
Tempo = Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Set the tempo in quarter notes per minute.")]


def register(app: typer.Typer) -> None:
    """Add ``regard harmonize`` to the command line."""
    app.command("harmonize", epilog=EXAMPLES)(harmonize)
    app.command("harmonise", epilog=EXAMPLES, hidden=True)(harmonize)  # the earlier name of the verb


def harmonize(
    run: Run,
    file: File,
    *,
    output: Output,
    voice: Voice,
    steps: Steps = 1,
    tempo: Tempo = 90,
    passes: Passes = 0,
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
) -> None:
    """Add voices to a piece with a masked model of music.

    Each sounding frame gets a pitch for each new voice, between the pitches of the neighboring voices. If no pitch is
    left between them, the new voice takes the pitch of a neighbor. The most probable pitch is set first; the other
    pitches are predicted given those already set. ``--passes`` then predicts each new pitch again.
    """
    from regard.commands.progress import progress
    from regard.data.midi import write_midi
    from regard.data.music_files import read_piece
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task
    from regard.tasks.masked.harmony import harmonize

    require_task(RunFolder.open(run), "masked")
    frames = read_piece(file, steps=steps)
    model = open_predictor(run, checkpoint=checkpoint, device=device, threads=threads)
    with progress("harmonizing", len(frames), unit="frames") as done:
        harmony = harmonize(model, frames, voice, passes=passes, done=done)
    write_midi(harmony.frames, output, steps=steps, tempo=tempo)
    met = f"; {harmony.left_out:,} equal a neighboring voice (no pitch left between)" if harmony.left_out else ""
    print(
        f"{output}: {pluralize(len(frames), 'frame')}, "
        f"{pluralize(len(harmony.probabilities), 'new pitch', 'new pitches')}{met}"
    )
