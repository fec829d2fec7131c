"""Automatic choice of the optimizer, the batch and the length of a training, from the amount of data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from regard.config.settings import TRAINING_ENDS
from regard.errors import RegardError
from regard.models.presets import PRESETS

# Newer parts of the Transformer, which with Muon lower the loss in fewer updates (``regard study modern``).
NEWER_PARTS: dict[str, Any] = {
    "position": "rotary", "qk_norm": True, "activation": "relu2", "zero_output": True, "embedding_residual": True,
}  # fmt: skip
MUON_RATES, ADAM_RATE, REFERENCE_WIDTH = {False: 5e-3, True: 1e-2}, 3e-3, 128  # rates for this width
FEW_UPDATES = 2_500  # of a short training
BATCH, MIN_BATCH = 4_096, 512  # tokens
UPDATES_PER_EPOCH = 50  # lower limit, if batches of MIN_BATCH tokens allow it
MIN_UPDATES = 300
ENOUGH = BATCH * UPDATES_PER_EPOCH  # tokens from which the choice is the same
FINE_TUNING_RATE, FINE_TUNING_WIDTH, FINE_TUNING_EPOCHS = 3e-5, 768, 3  # of a trained encoder
SHORT_MINUTES, SHORT_BATCH = 15, 1_024  # in a short time budget, many updates are better than large batches


def newer_parts(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``NEWER_PARTS``; {} if the user sets another architecture, mixer or execution, which may refuse them."""
    model = overrides.get("model", {})
    sides = [model, *(model[side] for side in ("encoder", "decoder") if isinstance(model.get(side), Mapping))]
    kinds = {str(side.get("kind", "transformer")) for side in sides}
    kinds.add(PRESETS.get(str(model.get("preset")), {}).get("kind", "transformer"))
    refusing = any({"mixer", "execution"} & side.keys() for side in sides)
    return {} if refusing or kinds != {"transformer"} else NEWER_PARTS


def optimizer_settings(parts: Mapping[str, Any], width: int, *, short: bool) -> dict[str, Any]:
    """Return Muon's settings for a Transformer with the newer parts, and Adam's for other networks.

    ``short``: see ``is_short``.
    """
    if not parts:
        return {"optimizer": "adam", "learning_rate": float(f"{ADAM_RATE * REFERENCE_WIDTH / width:.2g}")}
    rate = MUON_RATES[short] * math.sqrt(REFERENCE_WIDTH / width)  # the norm of a step grows with √width
    return {"optimizer": "muon", "learning_rate": float(f"{rate:.2g}"), "weight_decay": 0.1}


def is_short(overrides: Mapping[str, Any], *, tokens: float, epochs: int) -> bool:
    """Return whether a training has few updates, which then should be large.

    Args:
        overrides: the keys of ``train`` that the user sets.
        tokens: approximate number of tokens of the training data.
        epochs: passes over the data, unless the user sets another end.
    """
    batch = _number(overrides, "batch_tokens") or batch_tokens(tokens, overrides)
    limits = {
        "minutes": SHORT_MINUTES, "steps": FEW_UPDATES, "tokens": FEW_UPDATES * batch,
        "epochs": FEW_UPDATES * batch / max(tokens, 1),
    }  # fmt: skip
    ends = {key: number for key in limits if (number := _number(overrides, key)) is not None} or {"epochs": epochs}
    return any(number <= limits[key] for key, number in ends.items())


def _number(overrides: Mapping[str, Any], key: str) -> float | None:
    """Return a key that the user sets; None if it is unset or no positive number, which validation reports later."""
    value = overrides.get(key)
    return float(value) if isinstance(value, int | float) and value > 0 else None


def batch_tokens(
    tokens: float, overrides: Mapping[str, Any], *, largest: int = BATCH, smallest: int = MIN_BATCH
) -> int:
    """Return a batch size that gives many updates per epoch, and many updates in a short time budget.

    Args:
        tokens: approximate number of tokens of the training data.
        overrides: the keys of ``train`` that the user sets.
        largest, smallest: limits of the batch, in tokens; the smallest has room for the longest example.
    """
    minutes = _number(overrides, "minutes")
    short = minutes is not None and minutes <= SHORT_MINUTES
    size = int(tokens / UPDATES_PER_EPOCH) // 64 * 64
    return max(min(SHORT_BATCH if short else size, size, largest), smallest)


def count_tokens(lengths: Iterable[int], limit: int = ENOUGH) -> int:
    """Return the sum of the lengths of examples, as far as the choice depends on it: large data is not read whole."""
    total = 0
    try:
        for length in lengths:
            total += length
            if total >= limit:
                break
    except RegardError:  # reported by the next reader
        return limit
    return total


def training_settings(
    overrides: Mapping[str, Any],
    *,
    tokens: float,
    epochs: int,
    optimizer: Mapping[str, Any],
    largest: int = BATCH,
    smallest: int = MIN_BATCH,
    patience: int | None = None,
) -> dict[str, Any]:
    """Return the section ``train`` of a config: a rate that falls to zero at a planned end.

    Args:
        overrides: the keys of ``train`` that the user sets; the chosen ones suit them.
        tokens: approximate number of tokens of the training data.
        epochs: passes over the data; more if they have fewer than ``MIN_UPDATES`` updates.
        optimizer: the keys of the optimizer, which the user may replace by another one.
        largest, smallest: limits of the batch, in tokens.
        patience: validations without improvement before training stops; None: it does not stop early.
    """
    batch = batch_tokens(tokens, overrides, largest=largest, smallest=smallest)
    settings: dict[str, Any] = {"batch_tokens": batch, "clip_norm": 1.0}
    if "optimizer" not in overrides:
        settings |= optimizer
        if overrides.get("schedule") == "noam":  # its rate is a factor
            settings.pop("learning_rate", None)
    ends = {key for key in TRAINING_ENDS if key in overrides}
    if not ends:
        updates = tokens / (_number(overrides, "batch_tokens") or batch)
        settings["epochs"] = max(epochs, math.ceil(MIN_UPDATES / max(updates, 1)))
        if patience is not None:
            settings["early_stopping"] = math.ceil(patience * settings["epochs"] / epochs)
    if ends != {"early_stopping"}:
        settings["schedule"] = "linear"
    return settings


def two_workers(overrides: Mapping[str, Any]) -> dict[str, int]:
    """Return two workers for a CPU with several threads, unless ``overrides`` sets workers or shards.

    On a CPU, two workers with a shard each are faster than one worker with twice the threads that computes both shards
    in turn (``bench/nanogpt_speed.py``).
    """
    if {"workers", "shards"} & overrides.keys():
        return {}
    import torch  # here, because an invalid config does not need it

    threads = overrides.get("threads") or torch.get_num_threads()
    return {"workers": 2} if isinstance(threads, int) and threads > 1 and not torch.cuda.is_available() else {}


def fine_tuning_settings(
    settings: Mapping[str, Any], overrides: Mapping[str, Any], *, width: int
) -> tuple[dict[str, Any], str]:
    """Return the section ``train`` for a network whose encoder is already trained, and the reason.

    AdamW with a small rate, a warm-up of a tenth, linear to zero, few epochs (Devlin et al. 2019, A.3). The rate is
    that of BERT's base model; a narrower encoder gets a higher one.

    Args:
        settings: the section ``train`` for a network with random weights.
        overrides: the keys of ``train`` that the user sets.
        width: features of the encoder.
    """
    rate = float(f"{min(FINE_TUNING_RATE * FINE_TUNING_WIDTH / width, 1e-3):.2g}")
    tuned = {key: value for key, value in settings.items() if key not in ("epochs", "early_stopping")}
    if "optimizer" not in overrides:
        tuned |= {"optimizer": "adamw", "weight_decay": 0.01}
        tuned |= {} if overrides.get("schedule") == "noam" else {"learning_rate": rate}
    reason = f"fine-tuning → AdamW, learning rate {rate:g}, warm-up of a tenth, then linear to zero"
    if any(key in overrides for key in TRAINING_ENDS):
        return tuned, reason
    return tuned | {"epochs": FINE_TUNING_EPOCHS}, f"{reason}, {FINE_TUNING_EPOCHS} epochs"
