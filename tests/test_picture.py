"""Attention as text, against a table drawn by hand."""

from __future__ import annotations

import pytest
import torch

from regard.inspection.terminal_observation import draw_attention


def test_a_table_drawn_by_hand() -> None:
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.19, 0.2, 0.61], [0.0, 0.5, 0.5], [0.0, 0.1, 0.9]])
    assert draw_attention(weights, ["a", "dog", "."], ["ein", "Hund", ".", "·"]).split("\n") == [
        "      a  dog  .  ",
        " ein ███         ",
        "Hund     ░░░ ▓▓▓ ",
        "   .     ▒▒▒ ▒▒▒ ",
        "   ·         ███ ",
    ]


def test_darker_is_more() -> None:
    row = draw_attention(torch.linspace(0, 1, 50)[None], ["x"] * 50, ["y"]).split("\n")[1].split(" ", 1)[1]
    shades = [" ░▒▓█".index(shade) for shade in row[::3]]
    assert shades == sorted(shades) and set(shades) == {0, 1, 2, 3, 4}


def test_a_table_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        draw_attention(torch.ones(1, 2), ["a", "b"], ["c", "d"])
