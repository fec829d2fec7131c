"""``regard harmonize``: voices for given voices, by a masked model of music, MIDI in and out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.commands.options import CheckpointName, DeviceName, Run, Threads, epilog, open_predictor
from regard.core.wording import pluralize
from regard.errors import ConfigError

EXAMPLES = epilog(
    "regard harmonize runs/voices three.mid --voice 2 -o four.mid",
    "regard harmonize runs/voices melody.mid --voice 1 --voice 2 --voice 3 -o four.mid",
)


def register(app: typer.Typer) -> None:
    """Add ``regard harmonize`` to the command line."""
    app.command("harmonize", epilog=EXAMPLES)(harmonize)
    app.command("harmonise", epilog=EXAMPLES, hidden=True)(harmonize)  # the earlier name of the verb


def harmonize(
    run: Run,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The given voices: MIDI, or text of one piece.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The MIDI file to write.")],
    voice: Annotated[
        list[int], typer.Option(min=1, max=16, metavar="N", help="A new voice's place, 1 the lowest; may be repeated.")
    ],
    steps: Annotated[
        int, typer.Option(min=1, max=48, metavar="N", help="Frames of a quarter note, as the model learned.")
    ] = 1,
    tempo: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Quarter notes a minute.")] = 90,
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
) -> None:
    """Add voices to a piece, by a masked model of music.

    Every frame that sounds gets a pitch for each new voice, between those of its neighbors; where two neighbors leave
    no room the voices meet. The likeliest pitch of all is set first, and the others are chosen knowing it.
    """
    from regard.commands.progress import progress
    from regard.core.atomic_files import explain_os_errors
    from regard.data.midi import read_midi, write_midi
    from regard.data.notes import frames_of
    from regard.data.text_files import read_lines
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task
    from regard.tasks.masked.harmony import harmonize

    require_task(RunFolder.open(run), "masked")
    if file.suffix.lower() in (".mid", ".midi"):
        frames = read_midi(file, steps)
    else:
        frames = frames_of("".join(f"{line}\n" for line in read_lines(file)), where=str(file))
    if not any(frames):
        raise ConfigError("there is no note to go by", where=str(file))
    model = open_predictor(run, checkpoint=checkpoint, device=device, threads=threads)
    with progress("harmonizing", len(frames), unit="frames") as done:
        found = harmonize(model, frames, voice, done=done)
    with explain_os_errors(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        write_midi(found.frames, output, steps=steps, tempo=tempo)
    met = f"; {found.left_out:,} have no room and meet a neighbor" if found.left_out else ""
    print(
        f"{output}: {pluralize(len(frames), 'frame')}, "
        f"{pluralize(len(found.probabilities), 'new pitch', 'new pitches')}{met}"
    )
