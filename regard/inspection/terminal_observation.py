"""Inspection as text, for terminals: the answer, a strip of bars below the input, and the heat map of one head."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len

from regard.core.observation import Observation, Prediction, Surface
from regard.core.wording import pluralize
from regard.data.tokenizers.tokenizer import SPECIALS
from regard.inspection.document import Inspection
from regard.inspection.number_surfaces import number_surface, piece_values
from regard.inspection.selection import (
    ChosenAttention,
    answers,
    attention_strips,
    choose_attention,
    influence_strips,
    influence_unit,
    percent,
    visible,
)
from regard.inspection.terminal_heat_map import Bars, draw_attention, draw_bars, fitted, padded, wrapped
from regard.inspection.terminal_numbers import draw_surface

RANKED = 5  # labels of a ranking
ALTERNATIVES = 4  # of a token
LABEL = 24  # columns of a label in a table
BAR = 24  # columns of the bar of a probability
MAX_POSITIONS = 128  # rows or columns of a heat map


def draw_inspection(inspection: Inspection, head: str | None, *, columns: int) -> str:
    """Return the answer, the influence and attention of each piece, and the heat map of one head.

    Args:
        inspection: of one input.
        head: the layer, or LAYER:N for one head; None for the pooling, otherwise the mean of the last layer.
        columns: the width.

    Raises:
        ConfigError: for an unknown head, or any head if the model has no attention.
    """
    observation = inspection.observation
    chosen = choose_attention(observation, head)
    parts = [_output(inspection, columns), _answer(observation, columns), *_drawn(observation, columns)]
    parts.append(_strips(observation, chosen, columns))
    if chosen is not None and (head is not None or len(chosen.weights) > 1):
        parts.append(_heat_map(chosen, columns))
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _output(inspection: Inspection, columns: int) -> list[str]:
    """Return the text that the model has written; [] for other answers."""
    observation = inspection.observation
    written = [number for number in answers(observation) if observation.predictions[number].site.surface]
    if not written:
        return []
    if "search" in inspection.document:
        return wrapped(inspection.text.split(), columns, gap=" ") if inspection.text.strip() else []
    surface = observation.surfaces[observation.predictions[written[0]].site.surface]
    joined = surface.separator.join(piece for piece in surface.pieces if piece not in SPECIALS)
    text = str(observation.facts.get("text", joined))
    return wrapped([visible(word) for word in text.split()] or ["(no text)"], columns, gap=" ")


def _drawn(observation: Observation, columns: int) -> list[list[str]]:
    """Return the words of speech with their seconds."""
    words = observation.facts.get("words", ())
    times = [f"{visible(str(word['word']))} {word['start']:.2f}–{word['end']:.2f} s" for word in words]
    return [wrapped(times, columns)] if times else []


def _answer(observation: Observation, columns: int) -> list[str]:
    """Return the lines of the answer."""
    predictions = [observation.predictions[number] for number in answers(observation)]
    if not predictions:
        return []
    first = predictions[0]
    surface = observation.surfaces[first.site.surface] if observation.surfaces else Surface("tokens", ())
    if first.site.surface and first.kind == "token":
        return _tokens(surface, observation.predictions, columns)
    if first.site.kind == "piece":
        return _tags(surface, predictions, columns)
    if first.site.kind == "gap":
        return _gaps(surface, predictions, columns)
    if first.site.kind == "after" and first.kind == "token":
        return _tokens(surface, observation.predictions, columns)
    subject = " – ".join(visible(surface.pieces[piece]) for piece in first.site.pieces if piece >= 0)
    about = {"node": f"node {subject}", "pair": f"nodes {subject}", "after": f"after {subject}"}.get(first.site.kind)
    heading = [fitted(about, columns)] if about is not None and subject else []
    return [*heading, *_ranking(first, columns)]


def _ranking(prediction: Prediction, columns: int) -> list[str]:
    """Return the best labels with their probabilities as bars; the label alone if it has no probability."""
    best = [(visible(entry.label), entry.log_probability) for entry in prediction.alternatives[:RANKED]]
    if not best:
        return wrapped([visible(prediction.label)], columns)
    wide = min(max(cell_len(label) for label, _ in best), LABEL)
    rows = []
    for label, value in best:
        share = percent(value)
        full = round(float(share.split()[0]) / 100 * min(BAR, columns - wide - 12))
        rows.append(f"{padded(label, wide)}  {share:>7}  {'█' * full}".rstrip())
    return rows


def _tags(surface: Surface, predictions: Sequence[Prediction], columns: int) -> list[str]:
    """Return the words with their tags below."""
    tags = {prediction.site.pieces[0]: prediction.label for prediction in predictions}
    pairs = [(visible(word), visible(tags.get(number, ""))) for number, word in enumerate(surface.pieces)]
    cells = [(fitted(word, LABEL), fitted(tag, LABEL) if tag != "␀" else "") for word, tag in pairs]
    wide = [max(cell_len(word), cell_len(tag)) for word, tag in cells]
    lines: list[str] = []
    for numbers in _lines_of(wide, columns):
        lines += ["  ".join(padded(cells[n][row], wide[n]) for n in numbers).rstrip() for row in (0, 1)]
        lines.append("")
    return lines[:-1]


def _lines_of(widths: Sequence[int], columns: int) -> list[list[int]]:
    """Return the numbers of the words of each line."""
    lines: list[list[int]] = [[]]
    used = 0
    for number, width in enumerate(widths):
        if lines[-1] and used + width > columns:
            lines.append([])
            used = 0
        lines[-1].append(number)
        used += width + 2
    return lines


def _gaps(surface: Surface, predictions: Sequence[Prediction], columns: int) -> list[str]:
    """Return the text with filled gaps in brackets, and the alternatives of each gap."""
    filled = {prediction.site.pieces[0]: f"[{prediction.label}]" for prediction in predictions}
    text = surface.separator.join(filled.get(number, piece) for number, piece in enumerate(surface.pieces))
    lines = [line for row in text.split("\n") for line in wrapped(map(visible, row.split()), columns, gap=" ")]
    return [*lines, "", *_table(predictions, lambda prediction: prediction.label, columns)]


def _tokens(surface: Surface, predictions: Sequence[Prediction], columns: int) -> list[str]:
    """Return the probability of each token with alternatives; the end of a text that continues has only these."""

    def label(prediction: Prediction) -> str:
        site = prediction.site  # the end of an output is a piece, the end of an input continues
        return "…" if not site.surface and site.pieces[0] + 1 >= len(surface.pieces) else prediction.label

    return _table(predictions, label, columns)


def _table(predictions: Sequence[Prediction], label: Callable[[Prediction], str], columns: int) -> list[str]:
    """Return a line for each prediction: its label and probability, and its alternatives as far as they fit."""
    labels = [visible(label(prediction)) for prediction in predictions]
    wide = min(max(map(cell_len, labels)), LABEL)
    lines = []
    for name, prediction in zip(labels, predictions, strict=True):
        value = prediction.log_probability
        known = "" if value is None or name == "…" else percent(value)
        line = f"{' ' * (wide - cell_len(fitted(name, wide)))}{fitted(name, wide)}  {known:>7}"
        further = [entry for entry in prediction.alternatives if name == "…" or entry.label != prediction.label]
        for entry in further[:ALTERNATIVES]:
            added = f"  {visible(entry.label)} {percent(entry.log_probability)}"
            if cell_len(line) + cell_len(added) > columns:
                break
            line += added
        lines.append(line.rstrip())
    return lines


def _strips(observation: Observation, chosen: ChosenAttention | None, columns: int) -> list[str]:
    """Return the pieces of each surface with bars of influence and attention, and the scale of both."""
    strips = [("influence", strip) for strip in influence_strips(observation)]
    strips += [("attention", strip) for strip in (attention_strips(observation, chosen) if chosen is not None else ())]
    largest: dict[str, float] = {}
    for name, strip in strips:
        sizes = [abs(value) for value in strip.values if value is not None]
        largest[name] = max([largest.get(name, 0.0), *sizes])
    lines: list[str] = []
    numeric = number_surface(observation)
    if numeric is not None:
        above = [(name, values) for name, strip in strips if (values := piece_values(strip, numeric.surface))]
        lines += [*(fitted(line, columns) for line in draw_surface(numeric, above, columns)), ""]
    drawn = {strip.labels for _, strip in strips if numeric is not None and piece_values(strip, numeric.surface)}
    for labels in dict.fromkeys(strip.labels for _, strip in strips if strip.labels and strip.labels not in drawn):
        rows = [Bars(name, strip.values, largest[name]) for name, strip in strips if strip.labels == labels]
        lines += [*draw_bars([visible(label.strip() or label) for label in labels], rows, columns), ""]
    for name in dict.fromkeys(name for name, _ in strips):
        named = [strip for other, strip in strips if other == name]
        outside = named[0].outside
        lines += wrapped(_scale(name, largest[name], outside, observation, chosen).split(), columns, gap=" ")
    return lines


def _scale(name: str, largest: float, outside: float, observation: Observation, chosen: ChosenAttention | None) -> str:
    """Return the meaning of a full bar."""
    count = len(answers(observation))
    mean = f", mean over {pluralize(count, 'prediction')}" if count > 1 else ""
    if name == "influence":
        how = next(influence.hidden for influence in observation.influences)
        quantity, unit = influence_unit(observation)
        size = f"{largest:.2g} {unit}".rstrip()
        return f"influence: █ = {size}: {quantity} if a piece is hidden ({how}){mean}; - marks a negative one"
    rest = f"; {outside:.2g} on other symbols" if outside >= 0.005 else ""
    return f"attention: █ = {largest:.2g} of the weight ({chosen.name if chosen else ''}{mean}){rest}"


def _heat_map(chosen: ChosenAttention, columns: int) -> list[str]:
    """Return the weights of the head, with the names of both axes."""
    attention = chosen.attention
    if max(len(attention.query.labels), len(attention.key.labels)) > MAX_POSITIONS:
        size = f"weights of {len(attention.query.labels)} × {len(attention.key.labels)}"
        return [fitted(f"{chosen.name}: {size}; --html or --svg draws them", columns)]
    queries, keys = ([visible(label) for label in axis.labels] for axis in (attention.query, attention.key))
    masked = attention.allowed is not None and not bool(attention.allowed.all())
    axes = f"rows: {attention.query.name}; columns: {attention.key.name}{'; ··: masked' if masked else ''}"
    drawn = draw_attention(
        chosen.weights, keys, queries, columns=columns, allowed=attention.allowed if masked else None
    )
    return [fitted(chosen.name, columns), *wrapped(axes.split(), columns, gap=" "), drawn]
