"""Laws of predictors: what an output depends on, how inputs are passed, and how outputs are written."""

from __future__ import annotations

from collections.abc import Iterable
from json import loads as parse
from typing import Any

import numpy as np

from regard.core.predictor import Predictor, settings_of_call
from regard.errors import ConfigError, DataError
from regard.testing.draw import Draw
from regard.testing.drawn_settings import drawn_settings
from regard.testing.law import Law, law
from regard.testing.task_case import TaskCase

PREDICTOR_LAWS: list[Law] = []
SETTINGS = 6  # random settings per predictor


@law(PREDICTOR_LAWS)
def an_output_knows_nothing_of_other_inputs(case: TaskCase, draw: Draw) -> None:
    """Each output is at the position of its input, and is a function of its input, the settings and the seed.

    Tested with the settings of the run, and with random settings from those that the predictor declares.
    """
    predictor = case.predictor
    inputs = [predictor.read(line) for line in case.task.sample_lines]
    seeded = {"seed": 1} if "seed" in settings_of_call(predictor) else {}
    for settings in ({}, *(drawn_settings(predictor, draw.source) for _ in range(SETTINGS))):
        options: dict[str, Any] = {**settings, **seeded}
        written = [predictor.write(output, json=False) for output in predictor(inputs, **options)]
        assert len(written) == len(inputs), f"{len(inputs)} inputs have {len(written)} outputs"
        order = draw.source.sample(range(len(inputs)), len(inputs))
        reordered = predictor([inputs[number] for number in order], **options)
        expected = [written[number] for number in order]
        assert [predictor.write(output, json=False) for output in reordered] == expected, (
            f"the order matters: {settings}"
        )
        for number, one in enumerate(inputs):
            (separate,) = predictor([one], **options)
            same_output = predictor.write(separate, json=False) == written[number]
            assert same_output, f"the other inputs of a call matter: {settings}"


@law(PREDICTOR_LAWS)
def inputs_are_one_or_any_iterable(case: TaskCase, draw: Draw) -> None:
    """One input gives one output; generators and arrays of inputs give what a list gives; a wrong input is named."""
    predictor = case.predictor
    if not isinstance(predictor, Predictor):
        return
    inputs = [predictor.read(line) for line in case.task.sample_lines]
    seeded: dict[str, Any] = {"seed": 1} if "seed" in settings_of_call(predictor) else {}

    def written(outputs: Iterable[Any]) -> list[str]:
        return [predictor.write(output, json=False) for output in outputs]

    expected = written(predictor(inputs, **seeded))
    array = np.empty(len(inputs), object)
    for number, one in enumerate(inputs):
        array[number] = one
        assert predictor.is_one(one) or not isinstance(one, str), "a text is taken for a list of its letters"
        if predictor.is_one(one):
            assert written([predictor(one, **seeded)]) == [expected[number]], "one input has another output"
    for several in (iter(inputs), array):
        assert written(predictor(several, **seeded)) == expected, "an iterable has other outputs than its list"
    for wrong, where in ((3, ""), ([inputs[0], object()], "input 2")):
        try:
            predictor(wrong, **seeded)
        except DataError as error:
            assert where in str(error.where), f"a wrong input has the location {error.where}"
        else:
            raise AssertionError(f"{wrong!r} is accepted")


@law(PREDICTOR_LAWS)
def an_embedding_is_a_vector_of_its_input(case: TaskCase, draw: Draw) -> None:
    """Each input has a finite vector, which does not depend on the others; the last layer of several is the default."""
    predictor = case.predictor
    if not isinstance(predictor, Predictor):
        return
    inputs = [predictor.read(line) for line in case.task.sample_lines]
    for pooling in ("mean", "max", "first", "last"):
        together = predictor.embed(inputs, pooling=pooling)
        assert together.ndim == 2 and len(together) == len(inputs) and np.isfinite(together).all()
        for number, one in enumerate(inputs):
            (alone,) = predictor.embed([one], pooling=pooling)
            if alone.size:  # the only input is empty
                np.testing.assert_allclose(alone, together[number], rtol=1e-4, atol=1e-5)
    try:
        embedded, last = (predictor.embed(inputs, layer=layer) for layer in (0, -1))
    except ConfigError:
        return  # no Transformer
    np.testing.assert_allclose(last, predictor.embed(inputs), rtol=1e-3, atol=1e-4)
    assert embedded.shape != last.shape or np.abs(embedded - last).max() > 1e-3, "layer 0 is the output"


@law(PREDICTOR_LAWS)
def an_output_is_one_line(case: TaskCase, draw: Draw) -> None:
    """The plain and the JSON form of an output are one line, and the latter is an object."""
    predictor = case.predictor
    for output in predictor([predictor.read(line) for line in case.task.sample_lines]):
        for as_json in (False, True):
            line = predictor.write(output, json=as_json)
            assert not {"\n", "\r"} & set(line), f"an output has several lines: {line!r}"
        assert _is_object(line), f"an output is not a JSON object: {line}"


def _is_object(line: str) -> bool:
    try:
        return isinstance(parse(line), dict)
    except ValueError:
        return False
