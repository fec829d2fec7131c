"""Numbers of a received config: each is bounded, compared with the weights, or decides neither memory nor work."""

from __future__ import annotations

import math
import typing
from collections.abc import Iterator
from functools import partial
from inspect import signature
from typing import Any, get_type_hints

import pytest
import torch
from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard.attention.catalog import BUILDER_ARGUMENTS as MECHANISM_ARGUMENTS
from regard.attention.catalog import MECHANISMS
from regard.attention.contract import Mixer
from regard.attention.span import Span
from regard.config.constructor_options import LARGEST, validate_options
from regard.config.settings import SearchConfig, TrainConfig
from regard.core.task import find_task
from regard.core.task_table import TASKS, locate
from regard.errors import ConfigError, RegardError
from regard.models.attention_config import OTHER_MIXERS
from regard.models.transformer.mixers import BUILDER_ARGUMENTS, find_mixer, place_mixer
from regard.runs.config import load_config
from regard.runs.plan import Plan
from regard.runs.size_check import outline, require_proportion

ABSURD = 10**9
NOT_FINITE = (math.inf, -math.inf, math.nan)
DRAWN, TRAINING = "a seed decides what is drawn, not how much", "training a received run takes it as one's own"
PREPARING = "of the data that a run is trained on, which a received run does not bring"
COUNTED = "a count that is reported; nothing is as large as it"
IRRELEVANT: dict[tuple[str, str], str] = {
    ("TrainConfig", "*"): TRAINING,
    ("*", "seed"): DRAWN,
    ("LinksDataConfig", "draw"): DRAWN,
    ("NodeSplit", "per_class"): PREPARING,
    ("NodeSplit", "valid"): PREPARING,
    ("NodeSplit", "test"): PREPARING,
    ("TokenizerConfig", "size"): PREPARING,
    ("CorpusConfig", "share"): "refused by the class: 0 ≤ begin < end ≤ 1",
    ("TextConfig", "share"): "refused by the class: 0 ≤ begin < end ≤ 1",
    ("Plan", "steps"): COUNTED,
    ("Plan", "max_steps"): COUNTED,
    ("Plan", "seconds_per_update"): COUNTED,
    ("Plan", "spec"): "compared with the weights (size_check.require_fitting)",
}


def inside(annotation: Any) -> Iterator[Any]:
    yield annotation
    for each in typing.get_args(annotation):
        yield from inside(each)


def classes() -> set[type[BaseModel]]:
    """The config classes that a saved run may have, with those of all tasks."""
    found = set[type[BaseModel]]()
    waiting = [locate(kind).config() for kind in TASKS] + [Plan, SearchConfig]
    while waiting:
        model = waiting.pop()
        if model in found:
            continue
        found.add(model)
        for field in model.model_fields.values():
            waiting += [one for one in inside(field.annotation) if isinstance(one, type) and issubclass(one, BaseModel)]
    return found


def numbers() -> Iterator[tuple[type[BaseModel], str, set[Any]]]:
    for model in classes():
        for name, field in model.model_fields.items():
            if kinds := {int, float} & set(inside(field.annotation)):
                yield model, name, kinds


def shapes(value: float) -> list[Any]:
    """A number alone, in lists and as the value of a table."""
    return [value, [value], [value, value], {"x": value}]


def accepted(model: type[BaseModel], name: str, value: float) -> bool:
    """Whether a field takes a value; other fields of its class, and checks of the class as a whole, are left out."""
    config = ConfigDict(allow_inf_nan=model.model_config.get("allow_inf_nan", True))
    field = model.model_fields[name]
    alone = create_model("Alone", __config__=config, **{name: (field.annotation, field)})  # type: ignore[call-overload]
    for given in shapes(value):
        try:
            alone(**{name: given})
        except ValidationError:
            continue
        return True
    return False


def irrelevant(model: type[BaseModel], name: str) -> bool:
    listed = {(each.__name__, key) for each in model.__mro__ for key in (name, "*")}
    return bool((listed | {("*", name)}) & IRRELEVANT.keys())


def test_every_number_of_every_config_is_bounded_or_listed_with_a_reason() -> None:
    found = {(model, name) for model, name, kinds in numbers() if int in kinds and accepted(model, name, ABSURD)}
    assert sorted(f"{model.__name__}.{name}" for model, name in found if not irrelevant(model, name)) == []
    assert len(list(numbers())) > 100


def test_every_float_of_every_config_is_finite() -> None:
    found = [
        f"{model.__name__}.{name} = {value}"
        for model, name, kinds in numbers()
        for value in NOT_FINITE
        if float in kinds and accepted(model, name, value) and not irrelevant(model, name)
    ]
    assert sorted(found) == []


def test_the_table_of_irrelevant_numbers_has_none_that_is_bounded() -> None:
    known = {(model.__name__, name) for model, name, _ in numbers()}
    assert [key for key in IRRELEVANT if "*" not in key and key not in known] == []
    assert TrainConfig.model_config["allow_inf_nan"] is False


def options_of(make: type, given: tuple[str, ...]) -> dict[str, Any]:
    hints = get_type_hints(make.__init__)  # type: ignore[misc]
    return {name: hints[name] for name in signature(make).parameters if name not in given}


MAKERS: dict[str, tuple[type, tuple[str, ...]]] = {
    kind: (make, MECHANISM_ARGUMENTS) for kind, make in MECHANISMS.items()
}
MAKERS |= {kind: (find_mixer(kind), BUILDER_ARGUMENTS) for kind in OTHER_MIXERS}
OPTIONS = [
    (kind, name, hint)
    for kind, (make, given) in MAKERS.items()
    for name, hint in options_of(make, given).items()
    if {int, float} & set(inside(hint)) and not (given is MECHANISM_ARGUMENTS and name == "score")
]


@pytest.mark.parametrize(("kind", "name", "hint"), OPTIONS, ids=[f"{kind}-{name}" for kind, name, _ in OPTIONS])
def test_every_option_of_every_mechanism_and_mixer_is_bounded(kind: str, name: str, hint: Any) -> None:
    make, given = MAKERS[kind]
    values = ([ABSURD, -ABSURD, LARGEST + 1] if int in inside(hint) and name != "seed" else []) + list(NOT_FINITE)
    for value in values if float in inside(hint) or name != "seed" else []:
        for shape in shapes(value)[:3]:
            with pytest.raises(ConfigError):
                validate_options(make, {name: shape}, excluded=given, where="model.mixer")


class Counted(TorchDispatchMode):
    """Counts operations and the numbers that they make, and refuses more than some before memory is taken."""

    def __init__(self, numbers: int) -> None:
        super().__init__()
        self.numbers, self.left, self.operations = numbers, numbers, 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        self.operations += 1
        for each in found if isinstance(found, tuple | list) else [found]:
            if isinstance(each, Tensor):
                self.left -= each.numel()
        if self.left < 0 or self.operations > 20_000:
            raise OutOfProportion
        return found


class OutOfProportion(Exception):
    pass


WIDTH, HEADS, STEP = 16, 2, 1 << 26  # numbers that a position may make

MIXED = [(kind, name, hint) for kind, name, hint in OPTIONS if kind in OTHER_MIXERS and int in inside(hint)]
BESIDE: dict[str, dict[str, Any]] = {"memory": {"segment": 64}, "segment": {"memory": 0}, "labels": {"first": 1}}


@pytest.mark.parametrize("causal", [False, True], ids=["sees all", "causal"])
@pytest.mark.parametrize(("kind", "name", "hint"), MIXED, ids=[f"{kind}-{name}" for kind, name, _ in MIXED])
def test_a_mixer_with_an_option_at_its_largest_is_refused_or_costs_little(
    kind: str, name: str, hint: Any, causal: bool
) -> None:
    """Its weights are compared with the file's; what no weight knows is state, and work of a position."""
    placed = {"width": WIDTH, "heads": HEADS, "causal": causal, "dropout": 0.0, "rotary": None, "layer": 0}
    options = BESIDE.get(name, {}) if kind in ("compressive", "segment-memory", "global-local") else {}
    for value in (LARGEST, [LARGEST]):
        try:
            with torch.device("meta"), Counted(1 << 40):
                mixer = place_mixer(kind, {**options, name: value}, placed, where="model.mixer")
                require_proportion(mixer, "x")
        except RegardError:
            continue
        if sum(each.numel() for each in mixer.parameters()) > 1 << 20:
            continue  # compared with the file of weights
        mixer = place_mixer(kind, {**options, name: value}, placed, where="model.mixer").eval()
        with torch.no_grad(), Counted(STEP):
            mixer(torch.zeros(1, 1, WIDTH), Span.of(torch.ones(1, 1, dtype=torch.bool)), mixer.start(1))


def test_what_no_weight_knows_is_compared_with_the_weights() -> None:
    class Heavy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1000, 1000))
            self.register_buffer("table", torch.zeros(200_000_000), persistent=False)

    with torch.device("meta"):
        heavy = Heavy()
    with pytest.raises(RegardError, match="200,000,000"):
        require_proportion(heavy, "x")
    placed = {"width": WIDTH, "heads": HEADS, "causal": True, "dropout": 0.0, "rotary": None, "layer": 0}
    for kind, options in (
        ("segment-memory", {"memory": 1 << 20, "segment": 256}),
        ("compressive", {"compressed": 1 << 20}),
        ("hashed", {"rounds": 1 << 20}),
        ("hashed", {"evaluation_rounds": 1 << 20}),
    ):
        with torch.device("meta"):
            mixer: Mixer = place_mixer(kind, options, placed, where="model.mixer")
        with pytest.raises(RegardError, match="out of proportion"):
            require_proportion(mixer, "x")


def test_sizes_of_papers_are_in_proportion() -> None:
    """Transformer-XL of WikiText-103 (18 layers, memory 1,600), and a Reformer of eight rounds."""
    placed = {"width": 1024, "heads": 16, "causal": True, "dropout": 0.0, "rotary": None, "layer": 0}
    with torch.device("meta"):
        for kind, options in (
            ("segment-memory", {"memory": 1600, "segment": 384}),
            ("compressive", {"memory": 512, "segment": 512, "compressed": 1536, "rate": 4}),
            ("hashed", {"rounds": 8, "chunk": 128, "buckets": [64, 128]}),
        ):
            layers = [place_mixer(kind, options, placed, where="model.mixer") for _ in range(18)]
            require_proportion(nn.ModuleList(layers), "x")


@pytest.mark.parametrize(
    "mixer",
    [
        {"kind": "segment-memory", "memory": ABSURD, "segment": 4},
        {"kind": "segment-memory", "memory": 4, "segment": ABSURD},
        {"kind": "compressive", "compressed": ABSURD},
        {"kind": "hashed", "rounds": ABSURD},
        {"kind": "hashed", "evaluation_rounds": ABSURD},
        {"kind": "hashed", "buckets": [2] * 2000},
    ],
)
def test_a_received_config_with_an_absurd_option_is_refused_by_its_key(mixer: dict[str, Any]) -> None:
    values = {"task": "language-model", "data": {"train": []}, "model": {"mixer": mixer, "position": "none"}}
    task, config = find_task("language-model"), load_config(values, saved=True)
    with pytest.raises(ConfigError, match="the limit is") as caught:
        outline(partial(task.build, config, task.small_spec))
    assert (caught.value.where or "").startswith("model.decoder.mixer.")
