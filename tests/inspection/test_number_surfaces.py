"""Surfaces of numbers: the pieces of a value, the channels of a forecast, and their drawings as text."""

from __future__ import annotations

import numpy as np
import pytest
from rich.cells import cell_len

from regard.core.observation import Observation, Surface, SurfaceNumbers
from regard.inspection.document import Inspection
from regard.inspection.number_surfaces import (
    NumberSurface,
    PieceValue,
    channels,
    number_surface,
    piece_values,
    position_name,
)
from regard.inspection.selection import Strip, influence_unit
from regard.inspection.terminal_numbers import draw_surface
from regard.inspection.terminal_observation import draw_inspection

from .number_observations import OBSERVATIONS, series, sound

FRAMES = Surface(
    "frames", tuple("12345"), numbers=SurfaceNumbers(np.arange(10, dtype=np.float32).reshape(5, 2), rate=2.0)
)


def drawn(observation: Observation, columns: int = 80) -> str:
    """Return the text of an observation."""
    return draw_inspection(Inspection.of(observation, {}, "an input"), None, columns=columns)


def test_a_value_is_of_a_piece_or_of_a_range_of_pieces() -> None:
    assert piece_values(Strip(("1–4", "5"), (0.5, None)), FRAMES) == [PieceValue(0, 4, 0.5), PieceValue(4, 5, None)]
    assert piece_values(Strip(tuple("12345"), (1.0, 2.0, 3.0, 4.0, 5.0)), FRAMES) == [
        PieceValue(n, n + 1, n + 1.0) for n in range(5)
    ]
    assert piece_values(Strip(("<s>", "a"), (0.5, 0.5)), FRAMES) == []
    backwards = Strip(("-4–-1", "-2–+0"), (0.5, 0.25))
    assert piece_values(backwards, FRAMES) == [PieceValue(0, 4, 0.5), PieceValue(2, 5, 0.25)]
    dates = FRAMES._replace(pieces=("a–1", "a–2", "a–3", "a–4", "a–5"))
    assert piece_values(Strip(("a–1–a–4", "a–5"), (0.5, 0.5)), dates) == [PieceValue(0, 4, 0.5), PieceValue(4, 5, 0.5)]


def test_the_channels_of_a_forecast_have_their_bands() -> None:
    shown = number_surface(series(steps=10, horizon=3))
    assert shown is not None and shown.forecast is not None
    first, second = channels(shown)
    assert (first.name, len(first.history), len(first.forecast), list(first.bands)) == ("load 1", 10, 3, ["80"])
    low, high = second.bands["80"]
    assert (low < second.forecast).all() and (second.forecast < high).all()
    alone = NumberSurface(shown.surface, shown.numbers)
    assert [(len(channel.forecast), channel.bands) for channel in channels(alone)] == [(0, {})] * 2


def test_bands_are_ordered_from_the_widest() -> None:
    names = ("a", "a-lo-80", "a-hi-80", "a-lo-95", "a-hi-95", "a-lo-50")
    later = Surface("series", ("t",), numbers=SurfaceNumbers(np.arange(6, dtype=np.float32)[None], names))
    numbers = SurfaceNumbers(np.zeros((1, 1), np.float32), ("a",))
    shown = NumberSurface(Surface("series", ("s",), numbers=numbers), numbers, later)
    assert list(channels(shown)[0].bands) == ["95", "80"]


def test_a_position_is_a_second_a_date_or_a_patch() -> None:
    def name(surface: Surface, piece: int) -> str:
        assert surface.numbers is not None
        return position_name(NumberSurface(surface, surface.numbers), piece)

    assert name(FRAMES, 3) == "1.50 s"
    assert name(series().surfaces[0], 0).startswith("2018-06-20")
    assert name(OBSERVATIONS["image"]().surfaces[0], 6) == "row 2, column 3"


@pytest.mark.parametrize("name", OBSERVATIONS)
@pytest.mark.parametrize("columns", [40, 80, 132])
def test_no_line_of_a_drawing_is_too_wide(name: str, columns: int) -> None:
    text = drawn(OBSERVATIONS[name](), columns)
    assert max(map(cell_len, text.splitlines())) <= columns
    assert "influence" in text and "attention" in text


def test_a_spectrogram_has_time_to_the_right_and_channels_upwards() -> None:
    values = np.zeros((4, 2), np.float32)
    values[3, 1], values[0, 0] = 1, np.nan
    numbers = SurfaceNumbers(values, unit="dB", rate=2.0)
    shown = NumberSurface(Surface("frames", tuple("1234"), numbers=numbers), numbers)
    top, bottom, scale, bars = draw_surface(
        shown, [("influence", [PieceValue(0, 2, -1.0), PieceValue(2, 3, 0.5), PieceValue(3, 4, None)])], 80
    )
    assert (top, bottom) == ("channel 2     █", "channel 1  ·")
    assert scale.strip() == "0.00 s to 1.50 s; █ = 1 dB, blank = 0 dB"
    assert bars == "influence  --▄█"


def test_a_line_of_dots_falls_and_has_a_gap_and_a_forecast() -> None:
    history = SurfaceNumbers(np.array([[3], [2], [np.nan], [np.nan], [1], [1]], np.float32), ("a",))
    later = SurfaceNumbers(np.array([[0, -1, 1], [0, -2, 2]], np.float32), ("a", "a-lo-80", "a-hi-80"))
    shown = NumberSurface(
        Surface("series", tuple("abcdef"), numbers=history), history, Surface("series", tuple("gh"), numbers=later)
    )
    lines = draw_surface(shown, [], 80)
    plot = [line[11:] for line in lines[1:5]]
    assert lines[0] == "a" and lines[1].startswith("         3 ") and lines[4].startswith("         0 ")
    assert plot[0][0] != " " and all(line[2:3] in ("", " ") for line in plot)  # the gap is the third column
    assert any("│" in line for line in plot)
    assert lines[5].strip() == "h: 0, 80 %: -2 to 2"
    assert lines[6].strip() == "a to h"


def test_a_transcript_and_its_words_are_printed() -> None:
    text = drawn(OBSERVATIONS["speech"]())
    assert text.startswith("seven point one\n")
    assert "point 0.62–0.70 s" in text
    assert "an input" not in text


def test_many_weights_are_not_printed() -> None:
    heard = sound(200)
    labels = heard.surfaces[0].pieces
    wide = heard.attention[0].query._replace(labels=labels)
    weights = heard.attention[0].weights.new_full((1, 200, 200), 1 / 200)
    attention = heard.attention[0]._replace(weights=weights, query=wide, key=wide)
    assert "weights of 200 × 200; --html or --svg draws them" in drawn(heard._replace(attention=(attention,)))


def test_the_influence_on_a_forecast_has_no_unit() -> None:
    assert influence_unit(series()) == ("change of the number", "")
