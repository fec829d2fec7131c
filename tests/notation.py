"""LaTeX formulas of the docs in the plain notation of docstrings, such as ``e_ij = q_i·k_j / √d_k``.

Both sides are compared without spaces and braces. A denominator of several factors has brackets, unless it is a sum Σ.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "theta": "θ", "lambda": "λ", "mu": "μ",
    "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "varphi": "φ", "omega": "ω", "Delta": "Δ",
}  # fmt: skip
SYMBOLS = GREEK | {
    "bigcup": "∪", "cdot": "·", "circ": "∘", "odot": "∘", "partial": "∂", "ldots": "…", "infty": "∞", "pm": "±",
    "le": "≤", "ge": "≥", "in": "∈", "to": "→", "gets": "←", "approx": "≈", "top": "ᵀ", "lVert": "‖", "rVert": "‖",
    "lvert": "|", "rvert": "|", "lfloor": "⌊", "rfloor": "⌋", "{": "{", "}": "}", ",": "", "quad": "", "qquad": "",
}  # fmt: skip
FUNCTIONS = {"tanh", "exp", "log", "max", "min", "sin", "cos"}
ACCENTS = {"hat": "\u0302", "bar": "\u0304", "tilde": "\u0303"}
BLOCK = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\s+|.", re.DOTALL)
_END = r"(?=[,;.:]|\s=|\s*$|\s\(|\s[a-z]{2,}|\s*\n\n)"
_ENDS_FRACTION = ("}", ")", "]", "+", "-", "=", ":", ",", "\\quad", "\\qquad")
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁻⁺", "01234−+")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄", "01234")


def plain(latex: str) -> str:
    """Return a formula in plain notation, without spaces.

    Raises:
        ValueError: a command is not in the tables of this module.
    """
    tokens = [token for token in _TOKEN.findall(latex) if not token.isspace()]
    return compact("".join(_items(tokens)))


def compact(text: str) -> str:
    """Return plain notation in one form: composed letters, one minus, no spaces, braces or backticks."""
    return re.sub(r"\s", "", _uniform(text))


def equations(page: str) -> list[str]:
    """Return the formulas of a page's math blocks, one for each row."""
    rows = [row for block in BLOCK.findall(page) for row in _rows(block)]
    return [part.strip().rstrip(",.") for row in rows for part in re.split(r",\s*\\q?quad\b|\\qquad\b", row)]


def holds(docstring: str, latex: str) -> bool:
    """Whether a docstring contains a formula as a whole: nothing before or after continues it."""
    pattern = r"\s*".join(map(re.escape, plain(latex)))
    return re.search(rf"(?<![\w^·−+]){pattern}{_END}", _uniform(docstring)) is not None


def _uniform(text: str) -> str:
    text = re.sub(r"[⁰¹²³⁴⁻⁺]+", lambda found: "^" + found[0].translate(_SUPERSCRIPTS), text)
    text = re.sub(r"[₀₁₂₃₄]", lambda found: "_" + found[0].translate(_SUBSCRIPTS), text)
    text = unicodedata.normalize("NFC", text).replace("-", "−").replace("∗", "*").replace("′", "'")
    return re.sub(r"[{}`]", "", text)


def _rows(block: str) -> Iterator[str]:
    inner = re.sub(r"\\(?:begin|end)\{aligned\}", "", block)
    for row in inner.split("\\\\"):
        if row.strip():
            yield row.replace("&", "").strip()


def _items(tokens: list[str]) -> Iterator[str]:
    """Yield the parts of a formula one after the other; consumes ``tokens``."""
    while tokens:
        token = tokens.pop(0)
        if token == "}":
            return
        yield _item(token, tokens)


def _item(token: str, tokens: list[str]) -> str:
    name = token[1:] if token.startswith("\\") else ""
    if token == "{":
        return "".join(_items(tokens))
    if token == "_":
        return "_" + _argument(tokens)
    if token == "^":
        return _power(_parts(tokens))
    if not name:
        return token
    if name == "sum":
        return "Σ" + _limits(tokens)
    if name in SYMBOLS:
        return SYMBOLS[name]
    if name in FUNCTIONS:
        return name
    if name in ("frac", "tfrac"):
        text = _fraction(_parts(tokens), _parts(tokens))
        return text if not tokens or tokens[0] in _ENDS_FRACTION else f"({text})"
    if name == "sqrt":
        parts = _parts(tokens)
        return "√" + (f"({''.join(parts)})" if _factors(parts) > 1 else "".join(parts))
    if name == "text":
        return _argument(tokens)
    if name in ACCENTS:
        return _argument(tokens) + ACCENTS[name]
    raise ValueError(f"{token} has no plain notation")


def _power(parts: list[str]) -> str:
    text = "".join(parts)
    return text if text == "ᵀ" else f"^({text})" if len(parts) > 1 else f"^{text}"


def _limits(tokens: list[str]) -> str:
    """Return the limits of a sum: ``_{j}``, or ``_{j=1…n}`` with both."""
    if tokens[:1] != ["_"]:
        return ""
    tokens.pop(0)
    lower = _argument(tokens)
    if tokens[:1] != ["^"]:
        return "_" + lower
    tokens.pop(0)
    return f"_{lower}…{_argument(tokens)}"


def _parts(tokens: list[str]) -> list[str]:
    token = tokens.pop(0)
    return list(_items(tokens)) if token == "{" else [_item(token, tokens)]


def _argument(tokens: list[str]) -> str:
    return "".join(_parts(tokens))


def _factors(parts: list[str]) -> int:
    """Count what stands next to each other: scripts belong to their base, an argument in brackets to its function."""
    depth, count = 0, 0
    for part in parts:
        opens, closes = part in "([|", part in ")]|"
        if depth == 0 and not opens and part[0] not in "_^ᵀ∂":
            count += 1
        depth += opens - closes if part != "|" else 0
    return count


def _fraction(above: list[str], below: list[str]) -> str:
    top, bottom = "".join(above), "".join(below)
    if any(part in "+-−" for part in above[1:]):
        top = f"({top})"
    if _factors(below) > 1 and not bottom.startswith("Σ"):
        bottom = f"({bottom})"
    return f"{top}/{bottom}"
