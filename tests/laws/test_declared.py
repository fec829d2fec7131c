"""Every law of fields and answers over every field and answer; and wrong versions, each caught by the law it names."""

from __future__ import annotations

import ast
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.core.task import Task, find_task
from regard.core.task_table import TASKS
from regard.models.head import Head
from regard.tasks.net_outputs import HeadOutputs
from regard.tasks.supervised import Supervised
from regard.testing import ANSWER_LAWS, FIELD_LAWS, AnswerCase, Draw, FieldCase, TaskCase, check_answer, check_field
from regard.training.optim import Optimizer
from tests.structure import ROOT, import_graph, modules

from . import frames_task
from .declared import ANSWERS, FIELDS, LABELS, STATED, TEXTS, defined_in, text, tokenized


def declaration_of(task: Task) -> Supervised | None:
    """Return the declaration of a task; None for one that is written by hand."""
    owner = getattr(task.prepare, "__self__", None)
    return owner if isinstance(owner, Supervised) else None


@pytest.fixture(scope="module", params=FIELDS)
def field(request: pytest.FixtureRequest) -> FieldCase:
    return FIELDS[request.param]()


@pytest.fixture(scope="module", params=ANSWERS)
def answer(request: pytest.FixtureRequest) -> AnswerCase:
    return ANSWERS[request.param]()


@pytest.mark.parametrize("law", FIELD_LAWS, ids=lambda law: law.name)
def test_field(field: FieldCase, law: Any) -> None:
    for trial in range(3):
        law.check(field, Draw(random.Random(trial)))


@pytest.mark.parametrize("law", ANSWER_LAWS, ids=lambda law: law.name)
def test_answer(answer: AnswerCase, law: Any) -> None:
    for trial in range(3):
        law.check(answer, Draw(random.Random(trial)))


@pytest.mark.parametrize(
    ("folder", "method", "cases"),
    [("fields", "pad", FIELDS), ("answers", "predict", ANSWERS)],
    ids=["fields", "answers"],
)
def test_every_field_and_answer_is_under_the_laws(folder: str, method: str, cases: dict[str, Any]) -> None:
    assert {type(case().make()).__name__ for case in cases.values()} >= set(defined_in(folder, method))


PARTS = {*defined_in("fields", "pad").values(), *defined_in("answers", "predict").values()}
MAX_LINES = 150


def code_lines(source: str) -> int:
    """Return the number of lines without those of docstrings, which state what users ask for."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [
        node.body[0] for node in ast.walk(ast.parse(source)) if isinstance(node, documented) and ast.get_docstring(node)
    ]
    return source.count("\n") - sum((text.end_lineno or text.lineno) - text.lineno + 1 for text in texts)


def violations(sources: dict[str, str], parts: set[str]) -> list[str]:
    """Return the fields and answers that are too long, or import another one."""
    imports = import_graph(sources)
    long = [f"{part} has more than {MAX_LINES} lines" for part in parts if code_lines(sources[part]) > MAX_LINES]
    return long + [f"{part} imports {other}" for part in parts for other in parts if other in imports[part]]


def test_fields_and_answers_are_short_and_import_no_other_one() -> None:
    assert violations(modules(ROOT), PARTS) == []


def test_the_guard_reports_a_long_module_and_an_import_of_another_one() -> None:
    sources = {"regard.fields.a": "x = 1\n" * 151, "regard.fields.b": "def f():\n    from regard.fields.a import x\n"}
    assert violations(sources, {*sources}) == [
        "regard.fields.a has more than 150 lines", "regard.fields.b imports regard.fields.a"
    ]  # fmt: skip


def test_lines_of_docstrings_do_not_count() -> None:
    assert code_lines('"""A module.\n\nMore.\n"""\nclass A:\n    """A class."""\n\n    x = 1\n') == 3


def test_check_field_and_check_answer_return_the_names_of_the_laws() -> None:
    assert check_field(text(), TEXTS, config=tokenized("word"), trials=1) == [law.name for law in FIELD_LAWS]
    names = check_answer(ANSWERS["OneClass"]().make, LABELS, stated=lambda output: (output.label,), trials=1)
    assert names == [law.name for law in ANSWER_LAWS]


def walks(folder: Path) -> dict[str, Any]:
    """Sessions whose first item determines all others."""
    sample = find_task("next-item").sample(folder)
    lines = [" ".join(f"i{(start * step) % 7}" for step in range(1, 3 + start)) for start in range(1, 5)]
    (folder / "sample.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {**sample, "model": {**sample["model"], "dropout": 0.0}}


def points(folder: Path) -> dict[str, Any]:
    tables = find_task("forecasting").sample(folder)
    return {**tables, "model": {**tables["model"], "output": "point"}}


SAMPLES = {"next-item": walks, "forecasting": points}


@pytest.mark.parametrize("kind", [*(kind for kind in TASKS if declaration_of(find_task(kind)) is not None), "frames"])
def test_a_memorized_batch_is_predicted(kind: str) -> None:
    """A network that is trained on one batch predicts its targets, through the task's own predictor."""
    task, kind = (frames_task.TASK, "classification") if kind == "frames" else (find_task(kind), kind)
    task = replace(task, sample=SAMPLES.get(kind, task.sample))
    case, declaration = TaskCase(task, kind), declaration_of(task)
    assert declaration is not None
    batch = max(case.data.train.batches(0), key=lambda batch: len(batch.index))
    examples, net = declaration.read(case.config, "train"), case.net().float()
    train: Any = case.data.train
    optimizer, targets = Optimizer(net), train.targets[train.target_places(batch.index)]
    for _ in range(200):
        terms, collated = case.terms(net, batch)
        (terms.minimized / collated.weight).backward()
        optimizer.step(0.01)
    predictor = case.task.predictor(net, case.data.codecs, case.config)
    values, answer = [examples[index].values for index in batch.index], case.data.codecs.answer
    if case.data.codecs.continued is not None:  # what is predicted of a session without its last item is this item
        values = [(value[:-1],) for (value,) in values]
        targets = train.targets[[train.target_places(batch.index[[row]])[-1] for row in range(len(values))]]
    outputs = predictor([value[0] if len(value) == 1 else value for value in values])
    predicted = answer.targets([STATED[type(answer)](output) for output in outputs], ["prediction"] * len(outputs))
    assert len({*map(str, targets)}) > 1, "the targets of the batch are equal"
    known = targets == targets  # a value of a series may be missing
    close = np.allclose(predicted[known], targets[known], atol=0.1)
    assert close, "a network that memorized a batch predicts something else"


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_loss_of_a_head_is_that_of_its_logits(smoothing: float) -> None:
    """Without an item that training did not have, and with the losses of the network's own parts."""
    case, draw = ANSWERS["NextItem"](), Draw(random.Random(1))
    session = (*("d", "e", "a", "b"), *case.values[0])  # training had no e
    answer, values = case.answer, [session, *case.values]
    targets, baseline = torch.from_numpy(answer.targets(values, [""] * len(values))), answer.baseline_targets(values)
    assert baseline is not None
    ranked, weights = torch.from_numpy(baseline), torch.from_numpy(answer.row_weights(targets.numpy()))
    head = Head(torch.nn.Parameter(draw.tensor(case.width, 3)), draw.tensor(case.width))
    outputs = HeadOutputs(draw.tensor(len(targets), 3), head, {"own": torch.tensor(0.5)})
    terms = outputs.loss(answer, targets, weights, ranked, smoothing=smoothing, evaluating=True)
    expected = answer.loss(outputs.logits, targets, torch.ones(len(targets)), smoothing=smoothing, evaluating=True)
    assert terms.minimized.item() == pytest.approx((expected.loss * weights).sum().item() + 0.5)
    sums = expected.sums | answer.compare(outputs.logits, targets, ranked)
    assert terms.sums.keys() == sums.keys() and (weights == 0).sum() == 1
    for name, value in sums.items():
        assert terms.sums[name].tolist() == pytest.approx(value.tolist()), name
    assert outputs.loss(answer, targets, weights, ranked, smoothing=0, evaluating=False).sums.keys() == {"nll", "items"}


def test_a_wrong_answer_fails_by_the_name_of_the_law() -> None:
    case = ANSWERS["OneClass"]()
    with pytest.raises(AssertionError, match=r"the law 'memorized_outputs_predict_their_targets' is broken \(seed 0\)"):
        check_answer(case.make, LABELS, stated=lambda output: ("bad",), trials=1)
