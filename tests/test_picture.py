"""Attention as text, against a table drawn by hand."""

from __future__ import annotations

import pytest
import torch

from regard.inspection.terminal_heat_map import draw_attention


def test_a_table_drawn_by_hand() -> None:
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.19, 0.2, 0.61], [0.0, 0.5, 0.5], [0.0, 0.1, 0.9]])
    assert draw_attention(weights, ["a", "dog", "."], ["ein", "Hund", ".", "·"]).split("\n") == [
        "        0 1 2",
        "0 ein  ██",
        "1 Hund ░░░░▓▓",
        "2 .      ▒▒▒▒",
        "3 ·      ░░██",
        "",
        "columns: 0 a  1 dog  2 .",
        "",
        "██ = 1 of the weight",
    ]


def test_shades_are_scaled_to_the_largest_weight() -> None:
    for largest in (1.0, 0.2, 1e-4):
        rows = draw_attention(torch.linspace(0, largest, 50)[None], ["x"] * 50, ["y"], columns=200).split("\n")
        shades = [" ░▒▓█".index(shade) for shade in rows[1].removeprefix("0 y ").ljust(100)[::2]]
        assert shades == sorted(shades) and shades[0] == 0 and set(shades) == {0, 1, 2, 3, 4}
        assert rows[-1] == f"██ = {largest:.2g} of the weight"


@pytest.mark.parametrize("count", [1, 3, 7, 40])
def test_equal_weights_have_equal_shades(count: int) -> None:
    softmax = torch.zeros(count, count).softmax(-1)
    drawn = draw_attention(softmax, ["x"] * count, ["x"] * count, columns=200)
    assert set(drawn.split("\n\n")[0]) & set("░▒▓█") == {"█"}


def test_a_wide_table_continues_below() -> None:
    columns, keys = 30, 130
    text = draw_attention(torch.ones(2, keys), [f"k{key}" for key in range(keys)], ["a", "b"], columns=columns)
    assert max(map(len, text.split("\n"))) <= columns and text.count("██") == 2 * keys + 1
    words = text.split("columns: ")[1].split()
    assert words[: 2 * keys] == [word for key in range(keys) for word in (str(key), f"k{key}")]


def test_a_table_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="labels"):
        draw_attention(torch.ones(1, 2), ["a", "b"], ["c", "d"])
