"""Observations with surfaces of numbers: a sound with words, a series with its forecast, and an image in patches."""

from __future__ import annotations

import numpy as np
import torch

from regard.core.observation import (
    WHOLE,
    Alternative,
    AttentionMap,
    Axis,
    Influence,
    Observation,
    Prediction,
    Site,
    Surface,
    SurfaceNumbers,
)

LABELS = (Alternative("seven", -0.1), Alternative("one", -2.5))


def attention(place: str, queries: tuple[str, ...], keys: tuple[str, ...], heads: int = 2) -> AttentionMap:
    """Return weights that depend only on their shape."""
    generator = torch.Generator().manual_seed(len(keys))
    weights = torch.rand(heads, len(queries), len(keys), generator=generator) ** 4
    return AttentionMap.at(
        place, weights / weights.sum(-1, keepdim=True), Axis("position", queries), Axis("position attended to", keys)
    )


def sound(frames: int = 120, channels: int = 40) -> Observation:
    """A spectrogram of 100 frames per second; the attention joins four frames to one position."""
    time, channel = np.mgrid[:frames, :channels]
    values = np.sin(time / 9) * 20 - np.abs(channel - 20 - 10 * np.sin(time / 20)) - 40
    values[: frames // 10] = np.nan
    pieces = tuple(str(number + 1) for number in range(frames))
    keys = tuple(f"{start + 1}–{min(start + 4, frames)}" for start in range(0, frames, 4))
    influence = tuple(float(value) for value in np.sin(np.arange(frames) / 11) * np.linspace(0, 1, frames))
    words = [
        {"word": "seven", "start": 0.2, "end": 0.6},
        {"word": "point", "start": 0.62, "end": 0.7},
        {"word": "one", "start": 0.72, "end": 1.1},
    ]
    numbers = SurfaceNumbers(values.astype(np.float32), unit="dB", rate=100.0)
    return Observation(
        (Surface("frames", pieces, numbers=numbers),),
        (Prediction.best(WHOLE, "label", LABELS),),
        (attention("encoder.0.self", keys, keys), attention("pooling", ("answer",), keys, 1)),
        (Influence(0, 0, influence, "A frame is replaced by the mean of the training data."),),
        facts={"words": words},
    )


def series(steps: int = 96, horizon: int = 24, channels: int = 2) -> Observation:
    """Hourly series with a gap, their forecast, and its 80 % band."""
    hours = np.arange(
        np.datetime64("2018-06-20T00"), np.datetime64("2018-06-20T00") + np.timedelta64(steps + horizon, "h")
    )
    dates = tuple(str(hour).replace("T", " ") + ":00" for hour in hours.astype("datetime64[m]"))
    names = tuple(f"load {number + 1}" for number in range(channels))
    phase = np.arange(steps + horizon)[:, None] * 2 * np.pi / 24 + np.arange(channels)
    values = 10 + 3 * np.sin(phase) * (1 + np.arange(channels))
    past, ahead = values[:steps].copy(), values[steps:]
    past[steps // 2 : steps // 2 + 6, 0] = np.nan
    width = np.linspace(0.5, 2.5, horizon)[:, None]
    forecast = np.stack([ahead, ahead - width, ahead + width], -1).reshape(horizon, -1)
    bands = tuple(part for name in names for part in (name, f"{name}-lo-80", f"{name}-hi-80"))
    keys = tuple(f"{dates[start]}–{dates[min(start + 8, steps) - 1]}" for start in range(0, steps, 8))
    influence = tuple(float(value) for value in np.cos(np.arange(steps) / 7))
    return Observation(
        (
            Surface("series", dates[:steps], numbers=SurfaceNumbers(past.astype(np.float32), names, "°C")),
            Surface("series", dates[steps:], numbers=SurfaceNumbers(forecast.astype(np.float32), bands, "°C")),
        ),
        (Prediction(WHOLE, "series", f"{horizon} steps"),),
        (attention("encoder.0.self", keys, keys),),
        (Influence(0, 0, influence, "A step is treated as missing."),),
    )


def image(side: int = 16, patches: int = 4, colors: int = 3) -> Observation:
    """A disc in color, in patches row by row."""
    y, x = np.mgrid[:side, :side] / (side - 1)
    disc = ((x - 0.6) ** 2 + (y - 0.4) ** 2 < 0.1).astype(float)
    values = np.stack([disc, 0.4 + 0.3 * x, 0.5 * y], -1)[..., :colors]
    pieces = tuple(f"{row + 1}, {column + 1}" for row in range(patches) for column in range(patches))
    influence = tuple(float(value) for value in np.sin(np.arange(patches * patches)))
    numbers = SurfaceNumbers(values.astype(np.float32), grid=(patches, patches))
    return Observation(
        (Surface("image", pieces, numbers=numbers),),
        (Prediction.best(WHOLE, "label", LABELS),),
        (attention("encoder.0.self", pieces, pieces), attention("pooling", ("answer",), pieces, 1)),
        (Influence(0, 0, influence, "A patch is replaced by the mean patch."),),
    )


def speech(frames: int = 120) -> Observation:
    """A sound and its transcript, as a second surface."""
    heard = sound(frames)
    text = ("seven", "point", "one", "</s>")
    keys = heard.attention[0].key.labels
    written = tuple(
        Prediction.best(Site("after", (place - 1,), 1), "token", (Alternative(word, -0.2), Alternative("two", -3.0)))
        for place, word in enumerate(text)
    )
    influences = tuple(
        Influence(
            number, 0, tuple(float(value) for value in np.roll(heard.influences[0].values, 20 * number)), "Hidden."
        )
        for number in range(len(text))
    )
    maps = (
        heard.attention[0],
        attention("decoder.0.self", ("<s>", *text[:-1]), ("<s>", *text[:-1])),
        attention("decoder.0.source", text, keys),
    )
    return Observation(
        (heard.surfaces[0], Surface("tokens", text, separator=" ")), written, maps, influences, heard.facts
    )


OBSERVATIONS = {"sound": sound, "series": series, "image": image, "speech": speech}
