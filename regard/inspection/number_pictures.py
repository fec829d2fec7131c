"""Pictures of surfaces of numbers: a heat map of frames, series with their forecasts, and an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.core.figure import COLORS, INK
from regard.inspection.number_surfaces import MAX_CHANNELS, Channel, NumberSurface, PieceValue, channel_names, channels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_DATES = 5  # dates below an axis
LETTER = 0.011  # the width of a letter below a spectrogram, as a share of its width
MAX_NAMES = 12  # names of channels next to an axis


def draw_numbers(
    figure: Figure,
    shown: NumberSurface,
    strip: Sequence[PieceValue] = (),
    unit: str = "",
    words: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Draw a surface of numbers.

    Args:
        figure: an empty figure.
        shown: the surface.
        strip: values of ranges of pieces; they are bars above the drawing, or colors over the patches of an image.
        unit: the name and the unit of the values.
        words: the words of speech, with ``start`` and ``end`` in seconds.
    """
    if shown.surface.kind == "image":
        _draw_image(figure, shown, strip, unit)
        return
    series = channels(shown)[:MAX_CHANNELS] if shown.surface.kind == "series" else []
    heights = ([1.2] if strip else []) + ([1.2] * len(series) or [2.4])
    figure.set_size_inches(9.0, sum(heights) + 1.3)
    grid = figure.subplots(len(heights), squeeze=False, sharex=True, height_ratios=heights)[:, 0]
    if strip:
        _draw_bars(grid[0], strip, unit)
    drawn = grid[1 if strip else 0 :]
    if series:
        for axes, channel in zip(drawn, series, strict=True):
            _draw_series(axes, channel, shown)
        _set_dates(drawn[-1], shown)
    else:
        _draw_frames(figure, drawn[0], shown, words)


def _draw_bars(axes: Axes, strip: Sequence[PieceValue], unit: str) -> None:
    heights = [0.0 if span.value is None else span.value for span in strip]
    starts = [span.start for span in strip]
    following = [*starts[1:], strip[-1].stop]  # patches can overlap, bars do not
    ends = [(span.start, span.stop, after) for span, after in zip(strip, following, strict=True)]
    widths = [(min(stop, after) if after > start else stop) - start for start, stop, after in ends]
    colors = [COLORS[0] if height >= 0 else COLORS[1] for height in heights]
    axes.bar(starts, heights, widths, align="edge", color=colors, edgecolor="none")
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.locator_params(axis="y", nbins=4)
    name, _, measured = unit.partition(", ")
    axes.set_ylabel(f"{name}\n({measured})" if measured else name.replace(" ", "\n", 1))
    axes.tick_params(bottom=False)


def _draw_frames(figure: Figure, axes: Axes, shown: NumberSurface, words: Sequence[Mapping[str, Any]]) -> None:
    """Draw frames as a heat map: time to the right, channels upwards."""
    numbers, values = shown.numbers, np.ma.masked_invalid(np.asarray(shown.numbers.values).T)
    image = axes.imshow(
        values, cmap="viridis", aspect="auto", origin="lower", extent=(0, values.shape[1], 0, values.shape[0])
    )
    names = channel_names(numbers)
    if numbers.channels and len(names) <= MAX_NAMES:
        axes.set_yticks([number + 0.5 for number in range(len(names))], names)
    axes.set_ylabel("channel")
    rate = numbers.rate
    if rate is not None:
        axes.xaxis.set_major_formatter(lambda position, _: f"{position / rate:g}")
    axes.set_xlabel("seconds" if rate is not None else "frame")
    ends: list[float] = []  # the end of the last word of each row
    for word in words if rate is not None else ():
        start, end = float(word["start"]) * (rate or 1), float(word["end"]) * (rate or 1)
        row = next((row for row, free in enumerate(ends) if free <= start), len(ends))
        text = str(word["word"])
        ends[row : row + 1] = [max(end, start + LETTER * (len(text) + 2) * len(shown.surface.pieces))]
        height = 1.06 + 0.14 * row
        axes.plot([start, end], [height, height], color=COLORS[1], clip_on=False, transform=axes.get_xaxis_transform())
        axes.annotate(
            text, (start, height), xycoords=("data", "axes fraction"), xytext=(0, 2),
            textcoords="offset points", annotation_clip=False, fontsize=8,
        )  # fmt: skip
    figure.colorbar(image, ax=axes, label=numbers.unit or "value")


def _draw_series(axes: Axes, channel: Channel, shown: NumberSurface) -> None:
    """Draw a series, and after it the forecast with its bands."""
    steps, horizon = len(channel.history), len(channel.forecast)
    ahead = np.arange(steps, steps + horizon) + 0.5
    axes.plot(np.arange(steps) + 0.5, channel.history, color=INK, linestyle="-", linewidth=1.0)
    for low, high in channel.bands.values():
        axes.fill_between(ahead, low, high, color=COLORS[0], alpha=0.2, linewidth=0)
    if horizon:
        axes.plot(ahead, channel.forecast, color=COLORS[0], linestyle="-")
        axes.axvline(steps, color=INK, linewidth=0.8)
    axes.locator_params(axis="y", nbins=4)
    axes.set_title(channel.name + (f" ({shown.numbers.unit})" if shown.numbers.unit else ""), loc="left", fontsize=8)
    axes.set_ylabel("value")


def _set_dates(axes: Axes, shown: NumberSurface) -> None:
    dates = shown.surface.pieces + (shown.forecast.pieces if shown.forecast is not None else ())
    step = max(-(-len(dates) // MAX_DATES), 1)
    steps = range(step // 2, len(dates), step)
    axes.set_xticks([place + 0.5 for place in steps], [dates[place] for place in steps])
    axes.set(xlim=(0, len(dates)), xlabel="time")


def _draw_image(figure: Figure, shown: NumberSurface, strip: Sequence[PieceValue], unit: str) -> None:
    """Draw an image, and to its right the values of the patches over the image in gray."""
    values = np.clip(np.nan_to_num(np.asarray(shown.numbers.values)), 0, 1)
    rows, columns = shown.numbers.grid or (1, 1)
    colored = values[..., :3] if values.shape[-1] >= 3 else np.repeat(values[..., :1], 3, axis=-1)
    height, width = values.shape[:2]
    figure.set_size_inches(8.0 if strip else 5.0, 4.2)
    grid = figure.subplots(1, 2 if strip else 1, squeeze=False)[0]
    for axes in grid:
        axes.set(xticks=[], yticks=[])
    extent = (0, width, height, 0)
    grid[0].imshow(colored, extent=extent, interpolation="nearest")
    if not strip:
        return
    table = np.zeros(rows * columns)
    for span in strip:
        table[span.start : span.stop] = 0.0 if span.value is None else span.value
    largest = float(np.abs(table).max()) or 1.0
    grid[1].imshow(
        colored @ np.array([0.3, 0.59, 0.11]), cmap="gray", vmin=0, vmax=1, extent=extent, interpolation="nearest"
    )
    over = grid[1].imshow(
        table.reshape(rows, columns),
        cmap="RdBu",
        vmin=-largest,
        vmax=largest,
        alpha=0.6,
        extent=extent,
        interpolation="nearest",
    )
    figure.colorbar(over, ax=list(grid), label=unit)
