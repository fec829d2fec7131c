"""Formulas of the docs: every one becomes MathML, and those of a part are the formulas of its docstring."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from regard.attention.catalog import MECHANISMS
from regard.attention.positions.distance_bias import Alibi, T5Bias, alibi_slopes
from regard.attention.positions.forgetting import ForgetGate, ForgettingBias
from regard.attention.positions.rotary import Rotary
from regard.models.attention_config import OTHER_MIXERS

from .notation import BLOCK, compact, equations, holds, plain

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
CONTEXT = plain(r"c_i = \sum_j \alpha_{ij} v_j")  # of nearly all mechanisms, which their docstrings do not repeat
POSITIONS: dict[str, list[Any]] = {
    "rotary": [Rotary],
    "alibi": [Alibi, alibi_slopes],
    "t5": [T5Bias],
    "forgetting": [ForgettingBias, ForgetGate],
}
needs_converter = pytest.mark.skipif(
    not (find_spec("latex2mathml") and find_spec("markdown")), reason="the extra docs is not installed"
)


def section(page: Path, heading: str) -> str:
    found = re.search(rf"^## {heading}\b.*?\n(.*?)(?=^## |\Z)", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no section {heading}"
    return found[1]


def converter() -> ModuleType:
    """Import ``docs/formulas.py``, whose folder is not a package."""
    spec = spec_from_file_location("formulas_of_docs", DOCS / "formulas.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def parts() -> list[Any]:
    found = [(kind, "mechanisms", mechanism) for kind, mechanism in MECHANISMS.items()]
    for kind, path in OTHER_MIXERS.items():
        module, _, name = path.partition(":")
        found.append((kind, "mixers", getattr(importlib.import_module(module), name)))
    return [pytest.param(folder, part, id=kind) for kind, folder, part in found]


@pytest.mark.parametrize("folder, part", parts())
def test_the_formulas_of_a_page_are_those_of_the_docstring(folder: str, part: type) -> None:
    page = DOCS / "reference" / folder / f"{part.__module__.rpartition('.')[2]}.md"
    formulas = equations(section(page, "Formula"))
    assert formulas, f"{page} has no block of formulas"
    docstring = inspect.getdoc(part) or ""
    assert [plain(each) for each in formulas if plain(each) != CONTEXT and not holds(docstring, each)] == []


@pytest.mark.parametrize("kind", POSITIONS)
def test_the_formulas_of_positions_are_those_of_the_docstrings(kind: str) -> None:
    """The energy itself is that of ``Dot``."""
    formulas = equations(section(DOCS / "reference" / "positions.md", kind))
    docstrings = [inspect.getdoc(part) or "" for part in POSITIONS[kind]]
    own = [each for each in formulas if not plain(each).startswith("e_ij=")]
    assert own and [plain(each) for each in own if not any(holds(text, each) for text in docstrings)] == []


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"e_{ij} = \frac{q_i \cdot k_j}{\sqrt{d_k}}", "e_ij = q_i·k_j / √d_k"),
        (r"\frac{a + b}{\lVert q \rVert \lVert k \rVert}", "(a + b) / (‖q‖ ‖k‖)"),
        (r"\frac{1}{j} \sum_{k \le j} y_k", "(1/j) Σ_{k≤j} y_k"),
        (r"\frac{\exp(e_{ij})}{\sum_{j'} \exp(e_{ij'})}", "exp(e_ij) / Σ_j' exp(e_ij')"),
        (r"\sum_{l=j+1}^{i} \log f_l", "Σ_{l=j+1…i} log f_l"),
        (r"A_1 = q_1 k_1^\top / \sqrt{d}", "A₁ = q₁ k₁ᵀ / √d"),
        (r"\sqrt{a b}^2 + 2^{-8h/H} - h^-", "√(a b)² + 2^(−8h/H) − h⁻"),
        (r"\bar{y}_j, \hat{\alpha}, \text{one-hot}(x)", "ȳ_j, α̂, one-hot(x)"),
    ],
)
def test_plain_notation(latex: str, text: str) -> None:
    assert plain(latex) == compact(text)


@pytest.mark.parametrize(
    ("docstring", "held"),
    [
        ("e_ij = w·q_i (Paper 2020)", True),
        ("Text. e_ij = w·q_i, α = softmax(e)", True),
        ("e_ij = w·q_i with a bias", True),
        ("e_ij =\n    w · q_i.", True),
        ("e_ij = w·q_i + b", False),
        ("e_ij = w·q_i b", False),
        ("e_ij = v·q_i", False),
        ("2e_ij = w·q_i", False),
    ],
)
def test_a_formula_is_found_as_a_whole(docstring: str, held: bool) -> None:
    assert holds(docstring, r"e_{ij} = w \cdot q_i") is held


def test_an_unknown_command_has_no_plain_notation() -> None:
    with pytest.raises(ValueError, match="wp"):
        plain(r"\wp(x)")


@needs_converter
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_formula_becomes_mathml(page: Path) -> None:
    """And no dollar sign of a formula is left in the text."""
    formulas, text = converter(), page.read_text("utf-8")
    for block in BLOCK.findall(text):
        assert ElementTree.fromstring(formulas.mathml(block, "block")).get("display") == "block"
    prose = re.sub(r"`[^`\n]*`", "", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL))
    for latex in formulas.INLINE.findall(prose):
        formulas.mathml(latex)
    rest = re.sub(r"^    .*$", "", formulas.INLINE.sub("", prose), flags=re.MULTILINE)
    assert "$" not in rest


@needs_converter
@pytest.mark.parametrize("latex", [r"\unknown{x}", r"\begin{array} a & b \end{array", r"x_{i"])
def test_a_formula_that_cannot_be_converted_is_an_error(latex: str) -> None:
    with pytest.raises(ValueError):
        converter().mathml(latex)


@needs_converter
def test_several_formulas_of_a_block_are_rows_of_a_table() -> None:
    text = converter().fence("\\begin{aligned}\na &= b \\\\\nc' &= d\n\\end{aligned}", "math", "", {}, None)
    assert text.startswith('<div class="formula"') and text.count("<mtr>") == 2
    assert text.count('<mtd class="right">') == 2 and "columnalign" not in text


@needs_converter
def test_formulas_in_text_are_mathml_and_amounts_of_money_are_not() -> None:
    import markdown

    page = "| $\\lvert x \\rvert$ | `$y$` |\n|---|---|\n| 3$ and 4$ | $\\alpha$ |\n"
    html = markdown.markdown(page, extensions=["tables", converter().makeExtension()])
    assert html.count("<math") == 2 and "<code>$y$</code>" in html and "3$ and 4$" in html
