"""Every law of a task over every task; and wrong tasks, each caught by the law named beside it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regard.core.observation import Observes, require_observation, with_attributes
from regard.core.predictor_interface import reads_json
from regard.core.state import State
from regard.core.task import Data, ExampleIndices, LossTerms, Task, find_task
from regard.core.task_table import TASKS
from regard.core.untrusted_files import json_value
from regard.data.computed_order import ComputedBatches
from regard.inspection.observation_document import observation_document
from regard.share.import_folder import import_folder
from regard.tasks.language_model import task as language_model_task
from regard.testing import TASK_LAWS, Draw, TaskCase
from regard.testing.codec_case import equal_values
from tests.laws import frames_task, images_task, own_task, sounds_task
from tests.share.test_encoder_import import folder_of

OWN = f"{own_task.__name__}:TASK"


@pytest.fixture(scope="module", autouse=True)
def _trusted() -> Iterator[None]:
    """A run folder may name the user's own task only where the user says so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_TASKS", OWN)
        yield


def _wide(kind: str) -> TaskCase:
    """A model whose distribution is combined with that of a baseline."""
    task = find_task(kind)

    def sample(folder: Path) -> Any:
        tables = dict(task.sample(folder))
        return tables | {"model": tables["model"] | {"wide": True}}

    return TaskCase(replace(task, sample=sample), kind)


def _from_an_imported_encoder(folder: Path) -> TaskCase:
    """A classifier that starts from an encoder that transformers has written."""
    folder_of("roberta", folder / "theirs", num_hidden_layers=1)
    imported = import_folder(folder / "theirs", folder / "imported").path
    task = find_task("classification")

    def sample(folder: Path) -> Any:
        model = {"encoder": {"from": str(imported)}, "pooling": "first"}
        return dict(task.sample(folder)) | {"model": model, "train": {"batch_tokens": 64}}

    return TaskCase(replace(task, sample=sample), "classification")


@pytest.fixture(scope="module", params=[*TASKS, OWN, "frames", "sounds", "images", "n-grams", "tables", "imported"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TaskCase:
    if request.param == "imported":
        return _from_an_imported_encoder(tmp_path_factory.mktemp("imported"))
    if request.param in (own := {"frames": frames_task, "sounds": sounds_task, "images": images_task}):
        return TaskCase(own[request.param].TASK, "classification")
    if request.param in ("n-grams", "tables"):
        return _wide("language-model" if request.param == "n-grams" else "masked")
    return TaskCase(find_task(request.param), request.param)


@pytest.mark.parametrize("law", TASK_LAWS, ids=lambda law: law.name)
def test_task(case: TaskCase, law: Any) -> None:
    law.check(case, Draw(random.Random(1)))


def test_a_predictor_reads_json_values_where_its_lines_are_json(case: TaskCase) -> None:
    """A server passes lists and objects of a request on to these alone."""
    spelled = [line for line in case.task.sample_lines if json_value(line) is not None]
    assert reads_json(case.predictor) == bool(spelled)
    for line in spelled:
        assert equal_values(case.predictor.read(json.dumps(json_value(line))), case.predictor.read(line))


def test_an_inspection_agrees_with_itself_and_with_the_prediction(case: TaskCase) -> None:
    predictor = case.predictor
    if not isinstance(predictor, Observes):
        assert case.kind in ("translation", OWN)
        return
    lines = [line[:7] if case.kind == "language-model" else line for line in case.task.sample_lines if line.strip()]
    inputs = [predictor.read(line) for line in lines]
    for line, input, output in zip(lines, inputs, predictor(inputs), strict=True):
        observation = require_observation(predictor.inspect(input))
        assert observation.surfaces and observation.predictions
        for attention in observation.attention:
            shares = attention.weights.sum(-1)  # 1, or 0 of a query that sees nothing
            assert attention.weights.ge(0).all() and torch.minimum(shares.abs(), (shares - 1).abs()).lt(1e-5).all()
        if observation.predictions[0].kind == "label" and hasattr(output, "label"):
            assert observation.predictions[0].label == output.label
        json.dumps(observation_document(observation, {}, line), allow_nan=False)


@pytest.fixture(scope="module", params=["mixture", "language-model", "documents"])
def computed(request: pytest.FixtureRequest) -> TaskCase:
    """A task whose order of data is computed batch by batch."""
    kind = "translation" if request.param == "mixture" else "language-model"
    task = find_task(kind)

    def sample(folder: Path) -> Any:
        tables = dict(task.sample(folder))
        data = tables["data"] | {"order": "feistel"}
        if request.param == "mixture":
            data["train"] = [*data["train"], data["train"][0] | {"weight": 0.4}]
        if request.param == "documents":
            (folder / "lines.txt").write_text("".join(f"line {number}\n" for number in range(30)))
            data |= {part: [{"source": str(folder / "lines.txt")}] for part in ("train", "valid")}
            data["documents"] = "line"
        return tables | {"data": data}

    return TaskCase(replace(task, sample=sample), kind)


OF_ORDER = (
    "an_epoch_is_a_function_of_its_number", "visits_count_uses", "evaluation_takes_each_example_once",
    "interrupted_and_resumed_is_as_if_never_stopped", "the_number_of_ranks_changes_no_bit",
)  # fmt: skip


@pytest.mark.parametrize("law", [law for law in TASK_LAWS if law.name in OF_ORDER], ids=lambda law: law.name)
def test_task_in_computed_order(computed: TaskCase, law: Any) -> None:
    assert isinstance(computed.data.train.batches(0), ComputedBatches)
    law.check(computed, Draw(random.Random(1)))


Wrap = Callable[[Any], Any]


def with_loss(change: Callable[[nn.Module, Any, LossTerms], LossTerms]) -> Callable[[Task], Task]:
    """The task with another loss made of the right one."""

    def wrong(task: Task) -> Task:
        def objective(config: Any) -> Any:
            right = task.objective(config)

            def loss(net: nn.Module, batch: Any, carry: State) -> LossTerms:
                return change(net, batch, right(net, batch, carry))

            return loss

        return replace(task, objective=objective)

    return wrong


class Changed:
    """Examples with some methods replaced."""

    def __init__(self, right: Any, **methods: Callable[..., Any]) -> None:
        self.right, self.methods = right, methods

    def __len__(self) -> int:
        return len(self.right)

    def __getattr__(self, name: str) -> Any:
        if name in self.methods:
            return lambda *given: self.methods[name](self.right, *given)
        return getattr(self.right, name)


def with_examples(**methods: Callable[..., Any]) -> Callable[[Task], Task]:
    def wrong(task: Task) -> Task:
        def prepare(*given: Any) -> Data:
            data = task.prepare(*given)
            valid = None if data.valid is None else Changed(data.valid, **methods)
            return data._replace(train=Changed(data.train, **methods), valid=valid)

        return replace(task, prepare=prepare)

    return wrong


def a_mean(net: nn.Module, batch: Any, terms: LossTerms) -> LossTerms:
    return terms._replace(minimized=terms.minimized / batch.weight)


def sums_of_means(net: nn.Module, batch: Any, terms: LossTerms) -> LossTerms:
    return terms._replace(sums={name: value / batch.weight for name, value in terms.sums.items()})


def drawing(net: nn.Module, batch: Any, terms: LossTerms) -> LossTerms:
    return terms._replace(minimized=terms.minimized * (1 + 1e-9 * torch.rand(())))


NOT_SEEDED = np.random.default_rng()


def not_replayed(net: nn.Module, batch: Any, terms: LossTerms) -> LossTerms:
    return terms._replace(minimized=terms.minimized * (1 + 0.1 * NOT_SEEDED.random() * net.training))


def by_neighbors(right: Any, examples: ExampleIndices) -> Any:
    """The first column counts how many rows there are."""
    batch = right.collate(examples)
    name = "source" if hasattr(batch, "source") else "input"
    tensor = getattr(batch, name).clone()
    tensor[:, 0] = 4 + len(tensor) % 3
    return batch._replace(**{name: tensor})


class ChangedPredictor:
    """A predictor with some methods replaced, each given the right one first."""

    def __init__(self, right: Any, **methods: Callable[..., Any]) -> None:
        self.right, self.methods = right, methods

    def __call__(self, inputs: Any, *, seed: int | None = None) -> Any:
        change = self.methods.get("call", lambda right, inputs, **settings: right(inputs, **settings))
        return change(self.right, inputs, seed=seed)

    def __getattr__(self, name: str) -> Any:
        if name in self.methods:
            return lambda *given, **options: self.methods[name](self.right, *given, **options)
        return getattr(self.right, name)


def with_predictor(**methods: Callable[..., Any]) -> Callable[[Task], Task]:
    def wrong(task: Task) -> Task:
        return replace(task, predictor=lambda *given, **options: ChangedPredictor(task.predictor(*given), **methods))

    return wrong


def with_predictor_changed(**methods: Callable[..., Any]) -> Callable[[Task], Task]:
    """The same predictor with other methods, which stays an instance of its class."""

    def wrong(task: Task) -> Task:
        return replace(task, predictor=lambda *given, **options: with_attributes(task.predictor(*given), **methods))

    return wrong


def by_call(right: Any, examples: Any, indices: Any, names: Any) -> Any:
    """Counts a text with every call, not with its first window."""
    return right.measure(examples, np.arange(len(examples)), names)


def means(right: Any, examples: Any, indices: Any, names: Any) -> Any:
    return {name: value / len(indices) for name, value in right.measure(examples, indices, names).items()}


def by_length(right: Any, inputs: Any, **settings: Any) -> Any:
    """In the order of the lengths, which nobody sorts back."""
    return right(sorted(inputs, key=len), **settings)


def in_company(right: Any, inputs: Any, **settings: Any) -> Any:
    """Draws go on from one input to the next."""
    return [right([each], **settings | {"seed": 1 + at})[0] for at, each in enumerate(inputs)]


def several_lines(right: Any, output: Any, *, json: bool) -> str:
    return right.write(output, json=json) + "\n" * (not json)


def no_json(right: Any, output: Any, *, json: bool) -> str:
    return right.write(output, json=False)


class Counter:
    asked = 0


def by_rank(right: Any, epoch: int | None) -> Any:
    """Another order each time it is asked, as where ranks draw on their own."""
    Counter.asked += 1
    plan = right.batches(epoch)
    return plan[Counter.asked % len(plan) :] + plan[: Counter.asked % len(plan)]


def with_a_repeat(right: Any, epoch: int | None) -> Any:
    plan = right.batches(epoch)
    return [*plan, plan[0]]


def never_visited(right: Any, epoch: int | None) -> Any:
    return [batch._replace(visit=np.zeros_like(batch.visit)) for batch in right.batches(epoch)]


def one_too_many(right: Any) -> Any:
    return right.token_counts() + 1


def nothing(config: Any) -> Any:
    def loss(net: nn.Module, batch: Any, carry: State) -> LossTerms:
        return LossTerms(sum(p.sum() for p in net.parameters()) * 0 + batch.weight, {"nll": torch.tensor(1.0)})

    return loss


def learning_from_all(task: Task) -> Task:
    """The tokenizer learns from the validation data, too."""

    def prepare(run: Any, *given: Any) -> Data:
        data = run.config.data
        both = data.model_copy(update={"train": (*data.train, *data.valid)})
        with pytest.MonkeyPatch.context() as patch:
            lines = language_model_task._lines
            patch.setattr(language_model_task, "_lines", lambda data: lines(both))
            return task.prepare(run, *given)

    return replace(task, prepare=prepare)


def ended_by_validation(task: Task) -> Task:
    """As many batches as there are in the validation data."""

    def prepare(*given: Any) -> Data:
        data = task.prepare(*given)
        assert data.valid is not None
        most = len(data.valid)
        return data._replace(train=Changed(data.train, batches=lambda right, epoch: right.batches(epoch)[:most]))

    return replace(task, prepare=prepare)


def drawn_in_training(net: nn.Module, batch: Any, terms: LossTerms) -> LossTerms:
    """A sum that numpy's generator changes, whatever the mode."""
    return terms._replace(sums={name: value * (1 + 1e-9 * np.random.random()) for name, value in terms.sums.items()})


MUTANTS: dict[str, tuple[Callable[[Task], Task], str]] = {
    "figures of a validation that draw": (with_loss(drawn_in_training), "a_validation_draws_nothing"),
    "a vocabulary of the validation data": (learning_from_all, "held_out_data_leave_training_alone"),
    "an epoch as long as the validation data": (ended_by_validation, "held_out_data_leave_training_alone"),
    "a loss averaged per shard": (with_loss(a_mean), "terms_add_over_dealing"),
    "measures averaged per shard": (with_loss(sums_of_means), "terms_add_over_dealing"),
    "a collate that depends on its neighbors": (with_examples(collate=by_neighbors), "terms_add_over_dealing"),
    "a plan that depends on who asks": (with_examples(batches=by_rank), "an_epoch_is_a_function_of_its_number"),
    "a validation that draws": (with_loss(drawing), "evaluating_leaves_no_trace"),
    "draws that are not replayed": (with_loss(not_replayed), "the_number_of_workers_changes_no_bit"),
    "draws that a resumed run draws anew": (
        with_loss(not_replayed),
        "interrupted_and_resumed_is_as_if_never_stopped",
    ),
    "an example evaluated twice": (with_examples(batches=with_a_repeat), "evaluation_takes_each_example_once"),
    "visits that are not counted": (with_examples(batches=never_visited), "visits_count_uses"),
    "counts that are not the weights": (with_examples(token_counts=one_too_many), "evaluation_takes_each_example_once"),
    "figures that are sums": (
        lambda task: replace(task, compute_metrics=lambda sums: {"loss": float(sums["nll"])}),
        "figures_are_ratios_of_sums",
    ),
    "a text counted with every call": (with_predictor(measure=by_call), "measures_of_parts_add_up"),
    "measures that are means": (with_predictor(measure=means), "measures_of_parts_add_up"),
    "outputs out of order": (with_predictor(call=by_length), "an_output_knows_nothing_of_other_inputs"),
    "draws that go by the place": (with_predictor(call=in_company), "an_output_knows_nothing_of_other_inputs"),
    "a text taken for a list": (with_predictor_changed(is_one=lambda inputs: False), "inputs_are_one_or_any_iterable"),
    "vectors that depend on the number of inputs": (
        with_predictor_changed(embeddings=lambda inputs, layer, pooling: np.full((len(inputs), 2), len(inputs))),
        "an_embedding_is_a_vector_of_its_input",
    ),
    "vectors of one layer for all": (
        with_predictor_changed(embeddings=lambda inputs, layer, pooling: np.ones((len(inputs), 2))),
        "an_embedding_is_a_vector_of_its_input",
    ),
    "an output of several lines": (with_predictor(write=several_lines), "an_output_is_one_line"),
    "JSON that is none": (with_predictor(write=no_json), "an_output_is_one_line"),
    "an objective that teaches nothing": (
        lambda task: replace(task, objective=nothing),
        "the_loss_of_one_batch_falls",
    ),
}


@pytest.mark.parametrize(("wrong", "name"), MUTANTS.values(), ids=MUTANTS)
def test_a_wrong_task_is_caught(wrong: Callable[[Task], Task], name: str) -> None:
    case = TaskCase(wrong(find_task("language-model")), "language-model")
    (law,) = [each for each in TASK_LAWS if each.name == name]
    with pytest.raises(AssertionError):
        for trial in range(3):
            law.check(case, Draw(random.Random(trial)))
