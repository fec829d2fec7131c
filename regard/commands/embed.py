"""``regard embed``: a vector for each input of a trained model, as a NumPy array or a table."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from regard.commands.options import CheckpointName, DeviceName, EncoderEngine, Run, Threads, epilog, open_predictor
from regard.core.installation import extra_command
from regard.core.wording import pluralize
from regard.errors import ConfigError

EPILOG = epilog(
    "regard embed runs/reviews texts.txt -o vectors.npy",
    "regard embed runs/book < lines.txt -o vectors.npy",
    "regard embed runs/bert reviews.csv --column body --layer -2 -o vectors.parquet",
)

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE",
        help="Inputs: files of lines or rows, or files that are one input each, such as sounds.",
        show_default="standard input",
    ),
]
Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write the vectors to this file: .npy (inputs, width), or .parquet."
    ),
]
Layer = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Take the states after N layers of a Transformer: 0 is its input, −1 the last layer, −2 the one before.",
        show_default="the output of the encoder or language model",
    ),
]
Pooling = Annotated[
    str, typer.Option(metavar="NAME", help="mean or max over the positions of an input, or its first or last position.")
]
Column = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="NAME", help="Read the input from this column; may be repeated."),
]
BATCH = 1024  # inputs


def register(app: typer.Typer) -> None:
    """Add ``regard embed`` to the command line."""
    app.command("embed", epilog=EPILOG)(embed)


def embed(
    run: Run,
    files: Files = None,
    *,
    output: Output,
    layer: Layer = None,
    pooling: Pooling = "mean",
    column: Column = None,
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
    engine: EncoderEngine = None,
) -> None:
    """Write a vector for each input of a trained model of any task: an embedding.

    A vector is the mean of the hidden states of the input's positions, or another pooling of them. Inputs that are
    close in the model have vectors with a large cosine.
    """
    import numpy as np

    from regard.commands.progress import progress
    from regard.core.atomic_files import replacing
    from regard.tasks.input_files import inputs_of
    from regard.tasks.prediction import read_inputs

    write = _writer(output)
    model = open_predictor(run, checkpoint=checkpoint, device=device, threads=threads, engine=engine)
    if files:
        inputs = inputs_of(model, run, list(files), column, embedding=True)
    else:
        inputs, failure = read_inputs(
            model, [line.rstrip("\n") for line in sys.stdin], name="standard input", read=model.read_for_embedding
        )
        if failure is not None:
            raise failure
    vectors = []
    with progress("embedding", len(inputs), unit="inputs") as advance:
        for start in range(0, len(inputs), BATCH):
            vectors.append(model.embed(inputs[start : start + BATCH], layer=layer, pooling=pooling))
            advance(len(vectors[-1]))
    table = np.concatenate(vectors) if vectors else np.zeros((0, 0), np.float32)
    with replacing(output) as file:
        write(table, file)
    print(f"{output}: {pluralize(len(table), 'vector')} of {pluralize(table.shape[1], 'number')}")


def _writer(output: Path) -> Callable[[Any, BinaryIO], None]:
    """Return the function that writes vectors in the format of a file. Raises ConfigError for another ending."""
    import numpy as np

    if output.suffix == ".npy":
        return lambda table, file: np.save(file, table)
    if output.suffix != ".parquet":
        raise ConfigError(f"the format of {output.name} is unknown", where="-o", help="end it in .npy or .parquet")
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        help = extra_command("tables")
        raise ConfigError("Parquet files need pyarrow", where="-o", why="it is not installed", help=help) from error

    def write(table: Any, file: BinaryIO) -> None:
        rows = pyarrow.FixedSizeListArray.from_arrays(table.reshape(-1), max(table.shape[1], 1))
        pyarrow.parquet.write_table(pyarrow.table({"embedding": rows}), file)

    return write
