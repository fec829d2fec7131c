"""The base of all predictors: one rule for inputs, predictions for tables, and copies for other processes."""

from __future__ import annotations

import inspect
import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, NamedTuple, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt

from regard.core.columns import columns_of, is_table, naming_rows, with_columns, write_rows
from regard.core.task import Indices, MetricSums, not_interrupted
from regard.errors import ConfigError, DataError, RegardError

Output = TypeVar("Output")
Table = TypeVar("Table")
Shown = str | int | float | bool | None


class LoadCall(NamedTuple):
    """The call that loaded a predictor: another process repeats it.

    Attributes:
        load: the function.
        run: the run, a ``runs.run_folder.RunFolder``.
        options: the keyword arguments.
    """

    load: Callable[..., Any]
    run: Any
    options: Mapping[str, Any]


class Predictor(ABC, Generic[Output]):
    """A trained network with its codecs, used by commands, evaluation, servers and Python.

    Call it with one input, which gives one output, or with any iterable of inputs, which gives a list: a list, an
    array, a Series, a generator. A table (pandas, polars, pyarrow, Hugging Face datasets, or a dict of columns) gives
    the same table with the predictions as further columns: see ``map``.

    A predictor that ``regard.load`` returned can be pickled and copied: the copy is loaded from the run folder, with
    the same options. It may be called from several threads.
    """

    origin: LoadCall | None = None

    def __repr__(self) -> str:
        run = "" if self.origin is None else f"{self.origin.run.config.task.kind}, run={str(self.origin.run.path)!r}"
        return f"{type(self).__name__}({run})"

    @overload
    def __call__(self, inputs: str | bytes, **settings: Any) -> Output: ...

    @overload
    def __call__(self, inputs: list[Any] | Iterator[Any], **settings: Any) -> list[Output]: ...

    @overload
    def __call__(self, inputs: Any, **settings: Any) -> Any: ...

    def __call__(self, inputs: Any, **settings: Any) -> Any:
        """Return the output of one input, a list of the outputs of an iterable, or a table with further columns.

        Args:
            inputs: one input, an iterable of inputs, or a table.
            settings: those of ``predict``.

        Raises:
            ConfigError: for an invalid setting.
            DataError: for an invalid input, with its number.
        """
        if self.is_one(inputs):
            return self.predict([inputs], **settings)[0]
        return self.map(inputs, **settings) if is_table(inputs) else self.predict(self.listed(inputs), **settings)

    @abstractmethod
    def predict(self, inputs: Sequence[Any], **settings: Any) -> list[Output]:
        """Return one output for each input of a list, in order.

        Outputs do not depend on the other inputs. ``settings`` are the predictor's own. A predictor that samples takes
        ``seed``: each output is then a function of its input and the seed.
        """

    @abstractmethod
    def read(self, line: str) -> Any:
        """Return the input of a line of text or JSON. Raises ValueError or RegardError if the line is invalid."""

    @abstractmethod
    def write(self, output: Any, *, json: bool) -> str:
        """Return an output as exactly one line, without a line end: readable text, or a JSON object."""

    @abstractmethod
    def measure(
        self, examples: Any, indices: Indices, names: Sequence[str], interrupted: Callable[[], bool] = not_interrupted
    ) -> MetricSums:
        """Return sums of the metrics ``names`` over these examples, such as counts over decoded outputs.

        Sums over parts of the examples add up to those of the whole, for any partition: values of several examples,
        such as a repeated input, count at the first of them. A long computation polls ``interrupted`` and raises
        KeyboardInterrupt when it returns True.
        """

    def embed(self, inputs: Any, *, layer: int | None = None, pooling: str = "mean") -> npt.NDArray[np.float32]:
        """Return a vector for each input, (inputs, width); for one input, (width,).

        Args:
            inputs: one input, an iterable of inputs, or a table, as in a call.
            layer: the states after this number of layers of a Transformer; negative numbers count from the end.
                Default: the output of the encoder, or of a language model before its output layer.
            pooling: ``mean`` or ``max`` over the positions of an input, or its ``first`` or ``last`` position.

        Raises:
            ConfigError: for an unknown layer or pooling.
            DataError: for an invalid input, with its number.
        """
        values = self.embeddings(self.listed(inputs, embedding=True), layer, pooling)
        return values[0] if self.is_one(inputs) else values

    def embeddings(self, inputs: Sequence[Any], layer: int | None, pooling: str) -> npt.NDArray[np.float32]:
        """Return the vectors of a list of inputs: see ``embed``. Raises ConfigError for a model without states."""
        raise ConfigError(f"a {type(self).__name__} has no embeddings")

    def read_for_embedding(self, line: str) -> Any:
        """Return the input of a line for ``embed``: that of ``read``, unless a prediction needs more than the input."""
        return self.read(line)

    def is_one(self, inputs: Any) -> bool:
        """Return whether an argument of a call is one input; any other iterable holds several."""
        return isinstance(inputs, str)

    def listed(self, inputs: Any, columns: Sequence[str] = (), *, embedding: bool = False) -> list[Any]:
        """Return the argument of a call as a list of inputs.

        Args:
            inputs: one input, an iterable of inputs, or a table.
            columns: the columns of a table with the inputs. Default: those of training.
            embedding: whether the inputs are for ``embed``.

        Raises:
            DataError: for another object.
        """
        if self.is_one(inputs):
            return [inputs]
        if is_table(inputs):
            return self._row_inputs(inputs, columns, self.read_for_embedding if embedding else self.read)
        if isinstance(inputs, str | bytes | Mapping) or not isinstance(inputs, Iterable):
            what = f"expected an input of the model or an iterable of inputs, found {type(inputs).__name__}"
            raise DataError(what, help="model(input), or model([input, input])")
        to_list = getattr(inputs, "to_pylist", None)  # arrays of pyarrow, whose elements are no Python values
        return list(inputs) if to_list is None else list(to_list())

    @overload
    def map(
        self, table: dict[str, list[Any]], column: str | Sequence[str] | None = None, **settings: Any
    ) -> dict[str, list[Any]]: ...

    @overload
    def map(self, table: Table, column: str | Sequence[str] | None = None, **settings: Any) -> Table: ...

    def map(self, table: Any, column: str | Sequence[str] | None = None, **settings: Any) -> Any:
        """Return a table with the predictions for its rows as further columns: ``model.map(frame, column="review")``.

        The new columns have the names of the fields of an output in ``--json``, such as ``predicted_label``. Fields
        with more than one level are left out.

        Args:
            table: of pandas, polars, pyarrow or Hugging Face datasets, or a dict of columns.
            column: the name of the column with the inputs, or the names of several. Default: those of training.
            settings: settings of the predictor.

        Raises:
            ConfigError: if the predictor was not loaded from a run, or its task does not read rows.
            DataError: for an invalid row, with its number.
        """
        named = [column] if isinstance(column, str) else list(column or ())
        outputs = self.predict(self._row_inputs(table, named, self.read), **settings)
        return with_columns(table, self._output_columns(outputs))

    def _row_inputs(self, table: Any, columns: Sequence[str], read: Callable[[str], Any]) -> list[Any]:
        """Return the input of each row of a table, read like those of a file."""
        if self.origin is None:
            what, why = "this predictor cannot read tables", "it was not loaded from a run, which names the columns"
            raise ConfigError(what, why=why, help='pass a list of inputs, or use regard.load("runs/…")')
        run = self.origin.run
        if run.task.row_inputs is None:
            what = f"{run.config.task.kind} models cannot read rows of tables"
            raise ConfigError(what, help="pass a list of inputs")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "table.jsonl"
            write_rows(file, columns_of(table))
            with naming_rows(file.parent, "table"):
                return [read(line) for _, line in run.task.row_inputs(run.config, file, columns)]

    def _output_columns(self, outputs: Sequence[Any]) -> dict[str, list[Any]]:
        """Return a column for each field of the outputs that holds a text, a number or a list of them."""
        rows = [json.loads(self.write(output, json=True)) for output in outputs]
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {f"predicted_{name}": [row.get(name) for row in rows] for name in names}
        return {name: values for name, values in columns.items() if all(map(_is_flat, values))}

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.origin is None:  # built by hand
            return super().__reduce_ex__(protocol)
        load, run, options = self.origin
        return _load_again, (load, str(run.path.absolute()), dict(options))

    def __copy__(self) -> Self:
        """Return a predictor that shares all attributes."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other


@contextmanager
def input_number(number: int) -> Iterator[None]:
    """Add the number of an input, from 1, to an error without a location."""
    try:
        yield
    except RegardError as error:
        error.where = error.where or f"input {number}"
        raise


def require_texts(inputs: Sequence[Any]) -> list[str]:
    """Return the inputs; raise DataError, with its number, for the first one that is not a text."""
    for number, text in enumerate(inputs, start=1):
        if not isinstance(text, str):
            raise DataError(f"expected a text, found {type(text).__name__}", where=f"input {number}")
    return list(inputs)


def settings_of_call(predictor: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a predictor's settings by name; of kind ``VAR_KEYWORD`` for settings of a config."""
    parameters = inspect.signature(predictor.predict if isinstance(predictor, Predictor) else predictor).parameters
    return dict(list(parameters.items())[1:])


def _load_again(load: Callable[..., Any], path: str, options: Mapping[str, Any]) -> Any:
    return load(path, **options)


def _is_flat(value: Any) -> bool:
    """Return whether a value is a text, a number, None, or a list of these."""
    return isinstance(value, Shown) or (isinstance(value, list) and all(isinstance(part, Shown) for part in value))
