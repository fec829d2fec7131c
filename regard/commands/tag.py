"""``regard tag``: the tag of each word of sentences, by a trained tagger."""

from __future__ import annotations

import typer

from regard.commands.options import ReadingEngine, Run, epilog
from regard.commands.predict import Answering, answer, answers_lines

EXAMPLES = epilog(
    "echo 'The dog runs' | regard tag runs/tags",
    "regard tag runs/tags --json < sentences.txt > tags.jsonl",
    "regard tag runs/tags -o tagged/ part-*.txt",
)


def register(app: typer.Typer) -> None:
    """Add ``regard tag`` to the command line."""
    app.command("tag", epilog=EXAMPLES)(tag)


@answers_lines
def tag(
    run: Run,
    *,
    asked: Answering,
    engine: ReadingEngine = None,
) -> None:
    """Tell the tag of each word, by a trained tagger.

    A sentence a line, words with spaces between them or a JSON list of words, gives word/TAG with spaces between.
    --json has the tags with their probabilities, and spans where tags are B-X and I-X.
    """
    answer(run, asked, task="tagging", opened={"engine": engine})
