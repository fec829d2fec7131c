"""Inputs and outputs of supervised tasks for requests and forms, from their fields and answer."""

from __future__ import annotations

from regard.core.predictor_interface import MAX_CHOICES, InputForm
from regard.core.wording import pluralize
from regard.tasks.supervised_codecs import SupervisedCodecs

TAKES = {"graph": "a graph, as a JSON object", "frames": "frames, as a JSON list of lists of numbers"}  # others: a text
GIVES = {
    "label": "its label, with the probability of each label", "labels": "its labels, with the probability of each",
    "number": "a number", "tag": "a tag for each word", "item": "the next items",
}  # fmt: skip


def describe_inputs(codec: SupervisedCodecs) -> str:
    """Return the inputs in words, such as ``a text``."""
    fields = tuple(codec.fields.values())
    if codec.answer.per_position:
        return "a sentence, with spaces between its words"
    if len(fields) > 1:
        return f"{pluralize(len(fields), 'text')}, separated by tabs"
    return TAKES.get(fields[0].kind, "a text")


def describe_outputs(codec: SupervisedCodecs) -> str:
    """Return the outputs in words, such as ``a tag for each word``."""
    return GIVES.get(codec.answer.kind, "the answer")


def input_form(codec: SupervisedCodecs) -> InputForm:
    """Return the form of an input, with the known items."""
    fields = tuple(codec.fields.values())
    if len(fields) > 1:
        columns = [column for field in fields for column in field.columns]
        names = [
            str(column) if isinstance(column, str) else f"text {number}" for number, column in enumerate(columns, 1)
        ]
        return InputForm("text", tuple(name.replace("_", " ") for name in names))
    if fields[0].kind == "items":
        return InputForm("items", choices=codec.answer.class_names[:MAX_CHOICES])
    return InputForm("json" if fields[0].reads_json else "text")
