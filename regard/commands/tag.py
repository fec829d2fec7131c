"""``regard tag``: the tag of each word of sentences, by a trained tagger."""

from __future__ import annotations

from typing import Any

import typer

from regard.commands.bulk import Bulk, Folder, takes_bulk
from regard.commands.options import CheckpointName, DeviceName, ReadingEngine, Run, Threads, epilog
from regard.commands.predict import AsJson, Input, Settings, answer

__all__ = ["register"]

EXAMPLES = epilog(
    "echo 'The dog runs' | regard tag runs/tags",
    "regard tag runs/tags --json < sentences.txt > tags.jsonl",
    "regard tag runs/tags -o tagged/ part-*.txt",
)


def register(app: typer.Typer) -> None:
    """Add ``regard tag`` to the command line."""
    app.command("tag", epilog=EXAMPLES)(tag)


@takes_bulk
def tag(
    run: Run,
    files: Input = None,
    *,
    output: Folder = None,
    as_json: AsJson = False,
    set_: Settings = None,
    bulk: Bulk = Bulk(),
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
    engine: ReadingEngine = None,
) -> None:
    """Tell the tag of each word, by a trained tagger.

    A sentence a line, words with spaces between them or a JSON list of words, gives word/TAG with spaces between.
    --json has the tags with their probabilities, and spans where tags are B-X and I-X.
    """
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task

    require_task(RunFolder.open(run), "tagging")
    opened: dict[str, Any] = {"checkpoint": checkpoint, "device": device, "threads": threads, "engine": engine}
    answer(run, files, {}, output, as_json, set_, bulk, **opened)
