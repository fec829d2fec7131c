"""Settings of training and search as plain values. Imports no torch: commands read a config before they need it.

Every optional field defaults to None, so a saved TOML, which has no null, reloads as the same values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator, model_validator

from regard.config.explain import InvalidCombination
from regard.config.search_settings import ChoiceSettings, SearchSettings
from regard.config.setting_models import config_model

if TYPE_CHECKING:
    ChoiceFields = ChoiceSettings
    SearchFields = SearchSettings
else:
    ChoiceFields = config_model(ChoiceSettings)
    SearchFields = config_model(SearchSettings)

TRAINING_ENDS = ("steps", "epochs", "minutes", "tokens", "early_stopping")  # keys of train, each of which ends it

MAX_UPDATES = 10**15  # limit of updates and of all other counts
MAX_MINUTES = 10**7  # 19 years

Positive = Annotated[int, Field(gt=0, le=MAX_UPDATES)]
Threads = Annotated[int, Field(gt=0, le=4096)]
Count = Annotated[int, Field(ge=0, le=MAX_UPDATES)]
Shards = Literal[1, 2, 4, 8, 16, 32, 64, 128, 256]
Fraction = Annotated[float, Field(ge=0, lt=1)]


def _default_learning_rate(fields: dict[str, object]) -> float:
    factor = fields.get("schedule") == "noam" or fields.get("optimizer") in ("adadelta", "sgd")
    return 1.0 if factor else 1e-3


def _default_epsilon(fields: dict[str, object]) -> float:
    return 1e-6 if fields.get("optimizer") == "adadelta" else 1e-9


def _default_momentum(fields: dict[str, object]) -> float:
    return 0.95 if fields.get("optimizer") == "muon" else 0.0


class TrainConfig(BaseModel):
    """Training: when to stop, batch and step sizes, validation and checkpoints."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)

    # The first of these limits that is reached ends the training.
    steps: Positive | None = None
    epochs: Positive | None = None
    minutes: Annotated[float, Field(gt=0, le=MAX_MINUTES)] | None = None
    tokens: Positive | None = None  # target tokens, without padding

    batch_tokens: Positive = 4096  # rows × longer of source and target, padding included
    accumulate: Positive = 1  # batches per update

    # adadelta: Bahdanau 2015, sgd: Luong 2015; muon: Jordan 2024, for hidden matrices, with adamw for the rest.
    optimizer: Literal["adam", "adamw", "adadelta", "sgd", "muon"] = "adam"
    # noam, of the paper: learning_rate × d_model^-0.5 × min(step^-0.5, step × warmup^-1.5), with the factor 1.0.
    # Others: learning_rate is the peak after `warmup` steps; then 1/√step, linear to zero, constant, or constant for
    # `halve_after` updates and halved after every `halve_every` (Luong et al. 2015: 5 epochs, then every epoch).
    schedule: Literal["noam", "inverse-sqrt", "linear", "constant", "halving"] = "inverse-sqrt"
    halve_after: Count | None = None
    halve_every: Positive | None = None
    learning_rate: Annotated[float, Field(gt=0)] = Field(
        default_factory=_default_learning_rate, validation_alias=AliasChoices("learning_rate", "lr")
    )
    warmup: Count | None = None  # default: 4,000, but at most a tenth of the planned updates
    betas: tuple[Fraction, Fraction] = (0.9, 0.98)
    rho: Fraction = 0.95
    momentum: Fraction = Field(default_factory=_default_momentum)
    epsilon: Annotated[float, Field(gt=0)] = Field(default_factory=_default_epsilon)
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    label_smoothing: Fraction = 0.1
    clip_norm: Annotated[float, Field(gt=0)] | None = None
    layer_decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="factor of the learning rate of a layer, once for each layer above it; the embedding is below all "
        "layers (Howard and Ruder 2018; Clark et al. 2020: 0.8)",
    )
    unfreeze_every: Positive | None = Field(
        None,
        description="gradual unfreezing (Howard and Ruder 2018): only the output layer is trained at first. After each "
        "such number of updates, the next lower layer is trained, too; the embedding is last",
    )
    ema: Annotated[float, Field(gt=0, lt=1)] | None = None  # decay of the moving average of the parameters

    validate_every: Positive | None = None  # updates; default: 500, but at most a fifth of the planned ones
    save_every: Positive | None = None
    keep: Positive = 10  # number of checkpoints kept on disk
    average: Count = 0  # number of last checkpoints to average when training ends; 0: none
    early_stopping: Positive | None = None  # validations without a new best until training ends
    stop_by: Literal["best", "as_good", "either", "mean"] = Field(
        "best",
        description="criterion of early_stopping. best: consecutive validations without a new best; as_good: without "
        "a result at least equal to the best, which then becomes the best (GAT's authors, on Citeseer); either: "
        "without a loss or a best_by at least equal to the best, where a new best is at least equal in both (GAT's "
        "code); mean: end when the last loss exceeds the mean of this number of earlier ones (GCN's code)",
    )
    best_by: str = "loss"  # loss, or a metric of the task
    decode_every: Positive = 1  # if best_by is a metric: validations between decodings; the others compute the loss

    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    engine: Literal["fast", "reference"] = "fast"  # reference: train by the plain formulas (reference mode)
    threads: Threads | None = None
    workers: Threads = 1  # threads that compute shards in parallel, on a CPU with many cores
    shards: Shards | None = None  # parts of an update, a power of two; default: 2, or the number of workers
    deterministic: bool = False
    # Distribution of an update over ranks. canonical: in shards, with the same bits for any number of ranks; ddp,
    # fsdp2: one shard per rank, faster, bits depend on the number. fsdp2 also shards weights, gradients and moments.
    strategy: Literal["canonical", "ddp", "fsdp2"] = "canonical"
    fsdp_offload: bool = False  # keep weights, gradients and moments in CPU memory, and one layer on the accelerator
    baseline: bool = Field(
        True,
        description="fit a simple model that reads the inputs before the network, and compare the network with it",
    )
    choose: Literal["network", "validation"] = Field(
        "network",
        description="model of the run. network: the trained network; validation: the baseline alone, the network, or "
        "the network with a memory of training pairs, by their outputs on the validation data (translation only)",
    )
    report: tuple[Literal["mlflow", "tensorboard", "trackio", "wandb"], ...] = Field(
        (), description="experiment trackers that receive the progress of the training; each needs its extra"
    )
    max_nonfinite: Positive = 5  # consecutive updates without a finite loss before a rollback

    @field_validator("report", mode="before")
    @classmethod
    def _split_names(cls, value: object) -> object:
        """Accept ``--set train.report=mlflow,wandb``, which needs no quotes in a shell."""
        return value.split(",") if isinstance(value, str) else value

    @property
    def lower_learning_rate(self) -> float:
        """A tenth of the learning rate, at most the default of this optimizer and schedule."""
        default = _default_learning_rate({"schedule": self.schedule, "optimizer": self.optimizer})
        lower = min(self.learning_rate / 10, default)
        return max(lower, 0.01) if self.schedule == "noam" else lower

    @model_validator(mode="after")
    def _check_noam_factor(self) -> Self:
        if self.schedule == "noam" and self.learning_rate < 0.01:
            raise ValueError(
                "with schedule 'noam' the learning rate is a factor of the paper's rate, about 1.0; "
                "to set the peak rate, set train.schedule=inverse-sqrt"
            )
        return self

    @model_validator(mode="after")
    def _check_momentum(self) -> Self:
        if self.momentum and self.optimizer != "muon":
            raise ValueError(
                f"momentum applies to optimizer = 'muon' only, and the optimizer is {self.optimizer!r}: set betas for "
                "adam and adamw, rho for adadelta; sgd uses no momentum"
            )
        return self

    @model_validator(mode="after")
    def _check_strategy(self) -> Self:
        if self.fsdp_offload and self.strategy != "fsdp2":
            raise ValueError("fsdp_offload requires strategy = 'fsdp2'")
        changed = [name for name, default in (("shards", None), ("workers", 1)) if getattr(self, name) != default]
        if changed and self.strategy != "canonical":
            raise ValueError(
                f"{changed[0]} requires strategy = 'canonical': {self.strategy!r} has one shard and no worker threads "
                "per rank; start more ranks instead"
            )
        return self

    @model_validator(mode="after")
    def _check_halving(self) -> Self:
        is_set = (self.halve_after, self.halve_every) != (None, None)
        if is_set and self.schedule != "halving":
            raise ValueError("halve_after and halve_every require schedule = 'halving'")
        if self.schedule == "halving" and self.halve_every is None:
            raise ValueError(
                "schedule 'halving' requires halve_every: the number of updates between halvings of the rate"
            )
        return self

    @model_validator(mode="after")
    def _check_linear_end(self) -> Self:
        if self.schedule == "linear" and {self.steps, self.epochs, self.minutes, self.tokens} == {None}:
            raise InvalidCombination(
                "train.schedule",
                why="schedule 'linear' requires the number of updates",
                help="set an end: --set train.epochs=20, train.steps=5000, train.minutes=30 or train.tokens=1000000",
            )
        return self

    @model_validator(mode="after")
    def _check_average(self) -> Self:
        if self.average > self.keep:
            raise InvalidCombination(
                "train.average",
                "train.keep",
                why=f"an average of {self.average} checkpoints requires them on disk, and only {self.keep} are kept",
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
        """The temperature of sampling; None for a search of the most probable outputs."""
        raise NotImplementedError

    @property
    def needs_rows(self) -> tuple[str, ...]:
        """The keys that are set and not supported by beam search."""
        keys = ("stop", "repetition_penalty", "frequency_penalty", "presence_penalty")
        return tuple(key for key in keys if getattr(self, key) not in (None, ()))

    @model_validator(mode="after")
    def _fits_a_beam(self) -> Self:
        if self.draw_temperature is None:
            if self.nbest > self.beam:
                raise ValueError(f"nbest = {self.nbest} must be at most beam = {self.beam}")
            if self.beam > 1 and self.needs_rows:
                raise ValueError(f"{self.needs_rows[0]} requires beam = 1 or a temperature")
        return self


class SearchConfig(SearchFields, ChoiceConfig):
    """Search for the output, given the log-probabilities of the next token."""

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
            raise ValueError("top_k, top_p and min_p require sampling: set temperature = 1.0")
        return self


def override_search(base: SearchConfig, **overrides: Any) -> SearchConfig:
    """Return ``base`` with the overrides that are not None. Raises pydantic's ValidationError if they conflict.

    If only one of beam and n-best is given, the other one is adjusted.
    """
    changes = {key: value for key, value in overrides.items() if value is not None}
    nbest, beam = changes.get("nbest"), changes.get("beam")
    if nbest is not None and beam is None and "temperature" not in changes:
        changes["beam"] = max(base.beam, nbest)  # the n-best requires a beam of this width
    if nbest is None and beam is not None:
        changes["nbest"] = min(base.nbest, beam)
    return SearchConfig.model_validate(base.model_dump() | changes)
