"""Settings of training and search as plain values. Imports no torch: commands read a config before they need it.

Every field that may be None has None as its default, so that a saved TOML, which has no null, reloads equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from regard.config.explain import InvalidCombination
from regard.config.search_settings import ChoiceSettings, SearchSettings
from regard.config.setting_models import config_model

if TYPE_CHECKING:
    ChoiceFields = ChoiceSettings
    SearchFields = SearchSettings
else:
    ChoiceFields = config_model(ChoiceSettings)
    SearchFields = config_model(SearchSettings)

TRAINING_ENDS = ("steps", "epochs", "minutes", "tokens", "early_stopping")  # of train: any of them ends it

MAX_UPDATES = 10**15  # no training has more updates, and no other number of it is larger
MAX_MINUTES = 10**7  # 19 years

Positive = Annotated[int, Field(gt=0, le=MAX_UPDATES)]
Threads = Annotated[int, Field(gt=0, le=4096)]
Count = Annotated[int, Field(ge=0, le=MAX_UPDATES)]
Shards = Literal[1, 2, 4, 8, 16, 32, 64, 128, 256]
Fraction = Annotated[float, Field(ge=0, lt=1)]


def _usual_learning_rate(fields: dict[str, object]) -> float:
    factor = fields.get("schedule") == "noam" or fields.get("optimizer") in ("adadelta", "sgd")
    return 1.0 if factor else 1e-3


def _usual_epsilon(fields: dict[str, object]) -> float:
    return 1e-6 if fields.get("optimizer") == "adadelta" else 1e-9


def _usual_momentum(fields: dict[str, object]) -> float:
    return 0.95 if fields.get("optimizer") == "muon" else 0.0


class TrainConfig(BaseModel):
    """Training: when to stop, batch and step sizes, validation and checkpoints."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)

    # Whichever of these comes first ends the training.
    steps: Positive | None = None
    epochs: Positive | None = None
    minutes: Annotated[float, Field(gt=0, le=MAX_MINUTES)] | None = None
    tokens: Positive | None = None  # target tokens, without padding

    batch_tokens: Positive = 4096  # rows × longest of source and target, padding included
    accumulate: Positive = 1  # batches per update

    # adadelta: Bahdanau 2015, sgd: Luong 2015; muon: Jordan 2024, for hidden matrices, beside adamw for the rest.
    optimizer: Literal["adam", "adamw", "adadelta", "sgd", "muon"] = "adam"
    # noam, the paper's: learning_rate × d_model^-0.5 × min(step^-0.5, step × warmup^-1.5): a factor, 1.0 there.
    # The others: the peak, reached after `warmup` steps; then 1/√step, a line to zero at the end, flat, or flat for
    # `halve_after` updates and then half as much after every `halve_every` (Luong et al. 2015: 5 epochs, then each).
    schedule: Literal["noam", "inverse-sqrt", "linear", "constant", "halving"] = "inverse-sqrt"
    halve_after: Count | None = None
    halve_every: Positive | None = None
    learning_rate: Annotated[float, Field(gt=0)] = Field(
        default_factory=_usual_learning_rate, validation_alias=AliasChoices("learning_rate", "lr")
    )
    warmup: Count | None = None  # unset: 4,000, but at most a tenth of the planned updates
    betas: tuple[Fraction, Fraction] = (0.9, 0.98)
    rho: Fraction = 0.95
    momentum: Fraction = Field(default_factory=_usual_momentum)
    epsilon: Annotated[float, Field(gt=0)] = Field(default_factory=_usual_epsilon)
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    label_smoothing: Fraction = 0.1
    clip_norm: Annotated[float, Field(gt=0)] | None = None
    ema: Annotated[float, Field(gt=0, lt=1)] | None = None  # decay of the moving average of the parameters

    validate_every: Positive | None = None  # updates; unset: 500, but at most a fifth of the planned ones
    save_every: Positive | None = None
    keep: Positive = 10  # number of checkpoints kept on disk
    average: Count = 0  # number of last checkpoints to average when training ends; 0: none
    early_stopping: Positive | None = None  # validations in a row without a new best after which training ends
    stop_by: Literal["best", "as_good", "either", "mean"] = Field(
        "best",
        description="what early_stopping counts: best: validations without a new best; as_good: those without one as "
        "good as the best so far, which is then the best (GAT's authors, of Citeseer); either: those without a loss "
        "or a best_by as good as the best so far, where the best is one as good in both (GAT's code); mean: the losses "
        "before the last one, which ends training when it is above their mean (GCN's code)",
    )
    best_by: str = "loss"  # loss, or a metric of the task
    decode_every: Positive = 1  # if best_by is a metric, every how many validations decode; the others measure the loss

    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    engine: Literal["fast", "reference"] = "fast"  # reference: training by the plain formulas of textbooks
    threads: Threads | None = None
    workers: Threads = 1  # threads that take shards side by side, on a CPU with many cores
    shards: Shards | None = None  # parts of an update, a power of two; unset: 2, or as many as workers
    deterministic: bool = False
    # How several ranks share an update. canonical: in shards, with the same bits whatever their number; ddp, fsdp2: a
    # shard a rank, quicker, bits that depend on their number. fsdp2 also shares out weights, gradients and moments.
    strategy: Literal["canonical", "ddp", "fsdp2"] = "canonical"
    fsdp_offload: bool = False  # weights, gradients and moments in the memory of the CPU, one layer on the accelerator
    max_nonfinite: Positive = 5  # updates in a row without a finite loss before rolling back

    @property
    def lower_learning_rate(self) -> float:
        """A tenth of the learning rate, and not above the default of this optimizer and schedule."""
        usual = _usual_learning_rate({"schedule": self.schedule, "optimizer": self.optimizer})
        lower = min(self.learning_rate / 10, usual)
        return max(lower, 0.01) if self.schedule == "noam" else lower

    def longer_end(self, *, epochs: int, updates: int) -> str:
        """Return the override that ends a longer training: in epochs where the schedule allows it, else in updates.

        Args:
            epochs: epochs completed so far.
            updates: updates done so far.
        """
        if self.schedule == "linear":  # epochs alone do not tell at which update its rate is zero
            return f"train.steps={max(2 * updates, 1)}"
        return f"train.epochs={max(2 * epochs, 1)}"

    @model_validator(mode="after")
    def _factor_is_no_rate(self) -> Self:
        if self.schedule == "noam" and self.learning_rate < 0.01:
            raise ValueError(
                "under schedule 'noam' the learning rate is a factor of the paper's, about 1.0; "
                "to give its peak, set train.schedule=inverse-sqrt"
            )
        return self

    @model_validator(mode="after")
    def _momentum_is_of_muon(self) -> Self:
        if self.momentum and self.optimizer != "muon":
            raise ValueError(
                f"momentum is a key of optimizer = 'muon'; {self.optimizer!r} is told otherwise: adam and adamw by the "
                "first of betas, adadelta by rho, and sgd has none"
            )
        return self

    @model_validator(mode="after")
    def _strategy_takes_its_keys(self) -> Self:
        if self.fsdp_offload and self.strategy != "fsdp2":
            raise ValueError("fsdp_offload is a key of strategy = 'fsdp2'")
        given = [name for name, usual in (("shards", None), ("workers", 1)) if getattr(self, name) != usual]
        if given and self.strategy != "canonical":
            raise ValueError(
                f"{given[0]} is a key of strategy = 'canonical': {self.strategy!r} gives each rank one shard and no "
                "threads of its own; start more ranks instead"
            )
        return self

    @model_validator(mode="after")
    def _halves_when_it_says(self) -> Self:
        given = (self.halve_after, self.halve_every) != (None, None)
        if given and self.schedule != "halving":
            raise ValueError("halve_after and halve_every need schedule = 'halving'")
        if self.schedule == "halving" and self.halve_every is None:
            raise ValueError(
                "schedule 'halving' needs halve_every: updates after which the rate is halved, again and again"
            )
        return self

    @model_validator(mode="after")
    def _line_has_an_end(self) -> Self:
        if self.schedule == "linear" and (self.steps, self.minutes, self.tokens) == (None, None, None):
            raise ValueError(
                "schedule 'linear' falls to zero at the last update: set train.steps, train.minutes or train.tokens"
            )
        return self

    @model_validator(mode="after")
    def _keeps_what_it_averages(self) -> Self:
        if self.average > self.keep:
            raise InvalidCombination(
                "train.average",
                "train.keep",
                why=f"of the last {self.average} checkpoints only {self.keep} are kept",
                help=f"--set train.keep={self.average}, or a smaller train.average",
            )
        return self


class ChoiceConfig(ChoiceFields):
    """Settings of search that translation and language models share.

    A token is chosen in this order: penalties and the limit of n-grams, temperature, ``top_k``, ``top_p``, ``min_p``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @property
    def draw_temperature(self) -> float | None:
        """The temperature of draws; None where the most probable outputs are searched."""
        raise NotImplementedError

    @property
    def needs_rows(self) -> tuple[str, ...]:
        """The keys of these settings that a beam does not know."""
        keys = ("stop", "repetition_penalty", "frequency_penalty", "presence_penalty")
        return tuple(key for key in keys if getattr(self, key) not in (None, ()))

    @model_validator(mode="after")
    def _fits_a_beam(self) -> Self:
        if self.draw_temperature is None:
            if self.nbest > self.beam:
                raise ValueError(f"a beam of {self.beam} cannot hold the {self.nbest} best")
            if self.beam > 1 and self.needs_rows:
                raise ValueError(f"{self.needs_rows[0]} needs beam = 1 or a temperature")
        return self


class SearchConfig(SearchFields, ChoiceConfig):
    """Search for the output, given the log probabilities of the next token."""

    @property
    def covers(self) -> bool:
        """Return whether the coverage penalty ranks outputs; greedy and sampled ones are not ranked."""
        return self.coverage_penalty > 0 and self.temperature is None and self.beam > 1

    @property
    def draw_temperature(self) -> float | None:
        return self.temperature

    @model_validator(mode="after")
    def _limits_a_draw(self) -> Self:
        if self.temperature is None and (self.top_k, self.top_p, self.min_p) != (None, None, None):
            raise ValueError("top_k, top_p and min_p limit sampling, which temperature switches on: temperature = 1.0")
        return self


def override_search(base: SearchConfig, **given: Any) -> SearchConfig:
    """Return ``base`` with the given settings that are not None; raises pydantic's ValidationError if they conflict.

    Where only the beam or only the n-best is given, the other one follows.
    """
    wanted = {key: value for key, value in given.items() if value is not None}
    nbest, beam = wanted.get("nbest"), wanted.get("beam")
    if nbest is not None and beam is None and "temperature" not in wanted:
        wanted["beam"] = max(base.beam, nbest)  # asking for the ten best implies a beam that holds them
    if nbest is None and beam is not None:
        wanted["nbest"] = min(base.nbest, beam)
    return SearchConfig.model_validate(base.model_dump() | wanted)
