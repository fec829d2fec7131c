"""Settings of predictions of other tasks, each declared once: see ``setting``. Imports no pydantic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.config.setting import Bounds, setting

if TYPE_CHECKING:
    from pydantic import BaseModel  # base of the classes derived from these
else:
    BaseModel = object

PROBABILITY = Bounds(0, 1)
COUNT = Bounds(1, 1000)


class AbstentionSettings(BaseModel):
    """Settings of a prediction of one class."""

    abstain_below: float | None = setting(
        None, bounds=PROBABILITY, group="Output", metavar="P", example=0.8,
        help="Predict no label if the most likely one has a lower probability than this; 0 if unset",
    )  # fmt: skip


class ThresholdSettings(BaseModel):
    """Settings of a prediction of any number of labels."""

    threshold: float | None = setting(
        None, bounds=PROBABILITY, group="Output", metavar="P", example=0.3,
        help="Predict every label with at least this probability; 0.5 if unset",
    )  # fmt: skip


class RankingSettings(BaseModel):
    """Settings of a ranking of next items."""

    top_k: int = setting(
        10, bounds=COUNT, group="Output", unit="items", metavar="N", example=3,
        help="Recommend this number of items for each session",
    )  # fmt: skip
    new: bool = setting(
        False, group="Output", example=True, help="Recommend only items that the session does not contain"
    )


class GapSettings(BaseModel):
    """Settings of filling gaps."""

    top_k: int = setting(
        5, bounds=COUNT, group="Output", unit="candidates", metavar="K", example=3,
        help="Return this number of words or pieces for each gap",
    )  # fmt: skip
    blank: str = setting(
        "___", bounds=Bounds(characters=100), group="Input", example="[gap]", config_only=True,
        help="Read this string as a gap",
    )  # fmt: skip


class LinkedNodeSettings(BaseModel):
    """Settings of a prediction of links."""

    top_k: int = setting(
        10, bounds=Bounds(1), request=COUNT, group="Output", unit="links", metavar="N", example=3,
        help="Return this number of links for an input of one node",
    )  # fmt: skip


class ForecastSettings(BaseModel):
    """Settings of a forecast."""

    horizon: int | None = setting(
        None, bounds=Bounds(1, 1 << 16), group="Output", unit="time steps", metavar="N", example=24,
        help="Return this number of time steps; those of the model if unset",
    )  # fmt: skip
    level: float = setting(
        80.0, bounds=Bounds(high=99.9, above=0), group="Output", unit="percent", metavar="PERCENT", example=60,
        help="Return the band that holds this share of the values, for models that predict a distribution",
    )  # fmt: skip
