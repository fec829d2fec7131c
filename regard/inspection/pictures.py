"""Pictures of an observation: influence or attention of each piece, a head, all heads, a graph, numbers, notes.

Every picture is drawn by matplotlib from an ``Observation`` of any task and has the frame of ``core.figure``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from regard.core.figure import COLORS, INK, Caption, require_drawing, write_figure
from regard.core.observation import Observation
from regard.data.notes import Frame, frames_of
from regard.data.tokenizers.tokenizer import SPECIALS
from regard.errors import ConfigError, DataError
from regard.inspection.graph_picture import draw_graph
from regard.inspection.number_pictures import draw_numbers
from regard.inspection.number_surfaces import number_surface, piece_values
from regard.inspection.selection import (
    ChosenAttention,
    Strip,
    answer_line,
    attention_strips,
    choose_attention,
    influence_strips,
    influence_unit,
    visible,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Picture = Literal["influence", "input", "attention", "heads", "graph", "roll"]
PICTURES: tuple[Picture, ...] = get_args(Picture)
CELL, SMALL = 0.26, 0.065  # inches of a weight; SMALL if a map has more than MANY rows or columns
MANY = 60
LETTER = 0.075  # inches of a letter of a label
ROW, LETTERS = 10, 40  # words or letters of a strip in one row of bars
LONGEST = 20  # letters of a label


def available(observation: Observation) -> list[Picture]:
    """Return the pictures that an observation has."""
    pictures: list[Picture] = ["influence"] if influence_strips(observation) else []
    pictures += ["input"] if number_surface(observation) is not None else []
    pictures += ["attention", "heads"] if observation.attention else []
    pictures += ["graph"] if any(surface.kind == "graph" for surface in observation.surfaces) else []
    return pictures + (["roll"] if _frames(observation) else [])


def save_picture(
    observation: Observation, document: Mapping[str, Any], path: Path, picture: Picture | None, head: str | None
) -> Picture:
    """Draw an observation to a file, and return the kind of the picture.

    Args:
        observation: the observation of one input.
        document: the document of the same input, for its model and text.
        path: the file; it ends in ``.svg`` or ``.png``.
        picture: the kind; None for the influence of each piece if it was computed, otherwise the attention.
        head: the layer, or LAYER:N for one head; None for the pooling, otherwise the mean of the last layer.

    Raises:
        ConfigError: if the inspection does not have this picture, or matplotlib is not installed.
    """
    if path.suffix not in (".svg", ".png"):
        raise ConfigError(f"the format of {path.name} is unknown", where="--svg", help="end it in .svg or .png")
    require_drawing("--svg")
    pictures = available(observation)
    picture = picture or next(iter(pictures), "attention")
    if picture not in pictures:
        why = f"it has {', '.join(pictures)}" if pictures else "it has no attention, and its pieces cannot be hidden"
        raise ConfigError(f"this model has no picture {picture!r}", where="--show", why=why)
    if picture == "graph" and head is None:  # the links of a graph show weights between nodes
        head = next((place for place in reversed(observation.maps) if ".edges" in place), None)
    chosen = choose_attention(observation, head)
    unit = ", ".join(filter(None, influence_unit(observation)))
    drawings: Mapping[Picture, Callable[[Figure], None]] = {
        "influence": partial(_draw_strips, observation=observation, strips=influence_strips(observation), unit=unit),
        "input": partial(_draw_strips, observation=observation, strips=(), unit=""),
        "attention": partial(_draw_attention, observation=observation, chosen=chosen),
        "heads": partial(draw_heads, observation=observation),
        "graph": partial(draw_graph, observation=observation, chosen=chosen),
        "roll": partial(_draw_roll, observation=observation),
    }
    write_figure(drawings[picture], [path], _caption(observation, document, picture, chosen))
    return picture


def _caption(
    observation: Observation, document: Mapping[str, Any], picture: Picture, chosen: ChosenAttention | None
) -> Caption:
    """Return the title (kind, model, answer, head) and the source (text, task, checkpoint)."""
    model = document["model"]
    head = f" · {chosen.name}" if chosen is not None and picture in ("attention", "graph") else ""
    answer = answer_line(observation)
    title = f"{picture} · {model.get('name', 'model')}{head}" + (f" · answer: {_cut(answer, 120)}" if answer else "")
    text = _cut(" ".join(visible(document["text"]).split()), 200)
    hidden = {influence.hidden for influence in observation.influences} if picture == "influence" else ()
    how = "".join(f" · hidden: {sentence}" for sentence in hidden)
    return Caption(title, f"input: {text} · {model.get('task')}, checkpoint {model.get('checkpoint')}{how}")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _labels(labels: Sequence[str]) -> list[str]:
    return [_cut(visible(label.strip() or label), LONGEST) for label in labels]


def draw_strips(figure: Figure, strips: Sequence[Strip], unit: str) -> None:
    """Draw a bar for the value of each piece, in their order; rows of ``ROW`` words, or of ``LETTERS`` letters."""
    spelled = all(len(label) == 1 for strip in strips for label in strip.labels if label not in SPECIALS)
    row = LETTERS if spelled else ROW
    parts = [
        (_labels(strip.labels[start : start + row]), strip.values[start : start + row], start)
        for strip in strips
        for start in range(0, len(strip.labels), row)
    ]
    figure.set_size_inches(9.0, 0.8 + 1.7 * len(parts))
    known = [value for _, values, _ in parts for value in values if value is not None]
    low, high = min([0.0, *known]), max([0.0, *known]) or 1.0
    for axes, (labels, values, start) in zip(figure.subplots(len(parts), squeeze=False)[:, 0], parts, strict=True):
        positions = range(start, start + len(labels))
        heights = [value or 0.0 for value in values]
        axes.bar(positions, heights, 0.8, color=[COLORS[0] if height >= 0 else COLORS[1] for height in heights])
        axes.axhline(0, color=INK, linewidth=0.8)
        slanted = not spelled and max(map(len, labels)) * LETTER > 0.75
        axes.set_xticks(positions, labels, rotation=30 if slanted else 0, ha="right" if slanted else "center")
        axes.set(
            xlim=(start - 0.6, start + max(len(labels), min(row, 4 if row == ROW else row)) - 0.4),
            ylim=(1.15 * low, 1.15 * high),
        )
        axes.set(xlabel="piece of the input", ylabel=unit)
        axes.locator_params(axis="y", nbins=4)


def _draw_strips(figure: Figure, observation: Observation, strips: Sequence[Strip], unit: str) -> None:
    """Draw the values of pieces as bars: above a surface of numbers, otherwise above their labels."""
    numeric = number_surface(observation)
    above = [values for strip in strips if numeric is not None and (values := piece_values(strip, numeric.surface))]
    if numeric is None or (strips and not above):
        draw_strips(figure, strips, unit)
    else:
        draw_numbers(figure, numeric, above[0] if above else (), unit, observation.facts.get("words", ()))


def _draw_attention(figure: Figure, observation: Observation, chosen: ChosenAttention | None) -> None:
    """Draw the weights as a heat map; for a single query, as in a pooling, as a bar for each key."""
    assert chosen is not None  # the picture is available only with an attention
    if len(chosen.weights) == 1:
        _draw_strips(figure, observation, attention_strips(observation, chosen), "attention weight")
    else:
        draw_heat_map(figure, chosen)


def draw_heat_map(figure: Figure, chosen: ChosenAttention) -> None:
    """Draw weights (query, key) from 0 to their maximum; forbidden pairs are hatched."""
    attention, weights = chosen.attention, chosen.weights
    queries, keys = _labels(attention.query.labels), _labels(attention.key.labels)
    margin = LETTER * max(map(len, queries))
    # With many positions, cells are small and only some have a label.
    cell = CELL if max(len(queries), len(keys)) <= MANY else SMALL
    step = round(CELL / cell)
    figure.set_size_inches(
        max(cell * len(keys) + margin + 2.0, 5.0), max(cell * len(queries) + LETTER * max(map(len, keys)) + 1.4, 3.0)
    )
    axes = figure.subplots()
    image = axes.imshow(weights.tolist(), cmap="Blues", vmin=0, vmax=float(weights.max()) or 1.0, aspect="auto")
    _hatch(axes, chosen)
    axes.set_xticks(range(0, len(keys), step), keys[::step], rotation=90)
    axes.set_yticks(range(0, len(queries), step), queries[::step])
    masked = " (hatched: masked)" if attention.allowed is not None and not bool(attention.allowed.all()) else ""
    axes.set(xlabel=f"{attention.key.name}{masked}", ylabel=attention.query.name)
    figure.colorbar(image, ax=axes, label="attention weight")


def _hatch(axes: Axes, chosen: ChosenAttention) -> None:
    """Hatch the pairs that the mask forbids: one rectangle for each run of masked pairs in a row."""
    from matplotlib.patches import Rectangle

    allowed = chosen.attention.allowed
    for row, line in enumerate([] if allowed is None else allowed.tolist()):
        start = None
        for column, visible_key in enumerate([*line, True]):
            if not visible_key and start is None:
                start = column
            elif visible_key and start is not None:
                size = (column - start, 1)
                axes.add_patch(
                    Rectangle((start - 0.5, row - 0.5), *size, fill=False, hatch="////", edgecolor=INK, linewidth=0)
                )
                start = None


def draw_heads(figure: Figure, observation: Observation) -> None:
    """Draw every head as a heat map: layers in rows, heads in columns, with one scale for all."""
    maps = observation.attention
    columns = max(len(attention.weights) for attention in maps)
    largest = max(float(attention.weights.max()) for attention in maps) or 1.0
    figure.set_size_inches(max(1.5 * columns + 2.6, 5.0), 1.5 * len(maps) + 1.2)
    grid = figure.subplots(len(maps), columns, squeeze=False)
    image = None
    for row, attention in zip(grid, maps, strict=True):
        for head, axes in enumerate(row):
            if head >= len(attention.weights):
                axes.set_visible(False)
                continue
            weights = attention.weights[head].float().tolist()
            image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=largest, aspect="auto")
            axes.set(xticks=[], yticks=[], title=f"head {head}")
        row[0].set_ylabel(attention.place, rotation=0, ha="right", va="center")
    if image is not None:
        figure.colorbar(image, ax=grid, label="attention weight (rows: queries, columns: keys)")


def _draw_roll(figure: Figure, observation: Observation) -> None:
    """Draw the notes of a text of music as a piano roll, one frame for each line."""
    from regard.core.metric_figures import draw_notes

    draw_notes(figure, _frames(observation), steps=1, unit="frames")


def _frames(observation: Observation) -> list[Frame]:
    """Return the frames of a text of pitches, with filled gaps; [] if the input is not music."""
    if not observation.surfaces:
        return []
    surface = observation.surfaces[0]
    gaps = [prediction for prediction in observation.predictions if prediction.site.kind == "gap"]
    filled = {prediction.site.pieces[0]: prediction.label for prediction in gaps}
    pieces = [filled.get(number, piece) for number, piece in enumerate(surface.pieces)]
    try:
        frames = frames_of(surface.separator.join(pieces))
    except DataError:
        return []
    return frames if any(frames) else []
