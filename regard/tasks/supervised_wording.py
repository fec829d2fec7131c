"""Descriptions of the inputs, the outputs and the purpose of a supervised model."""

from __future__ import annotations

from typing import NamedTuple

from regard.core.field import FileField
from regard.core.predictor_interface import MAX_CHOICES, InputForm
from regard.core.wording import listed, pluralize
from regard.tasks.supervised_codecs import SupervisedCodecs


class Wording(NamedTuple):
    """Words for messages and API descriptions: a position of an input, and the inputs and outputs of requests.

    ``takes`` and ``gives``: empty for those of the fields and the answer.
    """

    position: str = "token"
    takes: str = ""
    gives: str = ""


class Description(NamedTuple):
    """See ``core.predictor_interface.PredictorInterface``."""

    takes: str
    gives: str
    purpose: str
    classes: tuple[str, ...]
    form: InputForm


PLAIN = Wording()
TAKES = {
    "graph": "a graph, as a JSON object", "frames": "frames, as a JSON list of lists of numbers",
    "audio": 'a sound, as {"audio": BASE64} with the contents of a file',
    "image": 'an image, as {"image": BASE64} with the contents of a file',
}  # others: a text  # fmt: skip
GIVES = {
    "label": "its label, with the probability of each label", "labels": "its labels, with the probability of each",
    "number": "a number", "tag": "a tag for each word", "item": "the next items",
}  # fmt: skip
CLASSIFIES = ("label", "labels", "tag")  # kinds of answers that are classes
INPUTS = {
    "graph": "a graph", "frames": "a series of frames", "items": "a session", "audio": "a recording",
    "image": "an image",
}  # others: texts  # fmt: skip
PURPOSES = {
    "label": "Classifies {input} as {labels}.", "labels": "Finds the labels of {input}: {labels}.",
    "number": "Predicts a number for {input}.", "tag": "Tags each word of a sentence as {labels}.",
    "item": "Recommends the next item of {input}.",
}  # fmt: skip
MAX_LISTED = 6  # labels in the purpose of a model


def described(codecs: SupervisedCodecs, wording: Wording) -> Description:
    """Return the description of a model."""
    fields, kind = tuple(codecs.fields.values()), codecs.answer.kind
    labels = codecs.answer.class_names
    source = fields[0].contents if isinstance(fields[0], FileField) else fields[0].kind
    takes = TAKES.get(source, "a text")
    texts = sum(len(field.columns) for field in fields)
    if codecs.answer.per_position:
        takes = "a sentence, with spaces between its words"
    elif texts > 1 and fields[0].kind == "tokens":
        takes = f"{pluralize(texts, 'text')}, separated by tabs"
    input = INPUTS.get(source, "a text" if texts == 1 else "two texts" if texts == 2 else "several texts")
    counted = f"one of {pluralize(len(labels), 'label')}: " if len(labels) > MAX_LISTED else ""
    purpose = PURPOSES.get(kind, "").format(input=input, labels=counted + listed(labels, limit=MAX_LISTED))
    return Description(
        wording.takes or takes, wording.gives or GIVES.get(kind, "the answer"), purpose,
        labels if kind in CLASSIFIES else (), input_form(codecs),
    )  # fmt: skip


def input_form(codecs: SupervisedCodecs) -> InputForm:
    """Return the form of an input, with the known items."""
    fields = tuple(codecs.fields.values())
    columns = [column for field in fields for column in field.columns]
    if len(columns) > 1 and fields[0].kind == "tokens":
        names = (f"text {number}" if isinstance(name, int) else name for number, name in enumerate(columns, start=1))
        return InputForm("text", tuple(name.replace("_", " ") for name in names))
    if fields[0].kind == "items":
        return InputForm("items", choices=codecs.answer.class_names[:MAX_CHOICES])
    if isinstance(fields[0], FileField):
        return InputForm(fields[0].contents)
    return InputForm("json" if fields[0].kind in ("graph", "frames") else "text")
