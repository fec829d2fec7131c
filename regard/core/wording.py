"""Readable messages: pydantic's errors, suggestions for misspelled names, and counts with their nouns."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from regard.core.untrusted_files import shortened

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

# Expected value by the type of pydantic's error; the braces are filled from the error's context.
SHOULD_BE = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a table of keys",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of fewer digits",
    "int_type": "a whole number",
    "json_invalid": "JSON",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "model_attributes_type": "a table of keys",
    "model_type": "a table of keys",
    "none_required": "left out",
    "path_type": "a path",
    "string_too_long": "a text of at most {max_length} characters",
    "string_too_short": "a text of at least {min_length} characters",
    "string_type": "a text",
    "string_unicode": "a text",
    "too_long": "a list of at most {max_length}",
    "too_short": "a list of at least {min_length}",
    "tuple_type": "a list",
    "named_tuple_type": "a list",
}


def describe_failure(failure: ErrorDetails) -> str:
    """Return why a value is invalid."""
    kind, known = failure["type"], failure.get("ctx", {})
    if kind in ("value_error", "assertion_error"):  # raised by a validator of Regard
        return str(known.get("error", failure["msg"]))
    if kind == "extra_forbidden":
        return "unknown key"
    if kind == "missing":
        return "it is missing"
    if kind == "default_factory_not_called":
        return "the default depends on another key, which is invalid"
    if kind.startswith("union_tag"):
        return f"its kind should be one of {known['expected_tags']}" if "expected_tags" in known else "it has no kind"
    if kind in SHOULD_BE:
        known = {name: f"{value:g}" if isinstance(value, float) else value for name, value in known.items()}
        return f"it should be {SHOULD_BE[kind].format_map(known)}"
    return failure["msg"].replace("Input should be", "it should be")


def describe_validation_error(error: ValidationError) -> str:
    """Return the first failure as ``key: reason``."""
    failure = error.errors(include_url=False)[0]
    key = ".".join(map(str, failure["loc"]))
    return f"{key}: {describe_failure(failure)}" if key else describe_failure(failure)


def describe_error(error: Exception) -> str:
    """Return in one line why a file could not be read or parsed."""
    from pydantic import ValidationError  # imported here to keep help pages fast, which import this module

    if isinstance(error, ValidationError):
        return describe_validation_error(error)
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, KeyError):
        return f"it lacks the key {error}"
    if isinstance(error, AttributeError | IndexError | TypeError):
        return "it does not have the expected form"
    return str(error)


def pluralize(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number and its noun: "1 row", "2,000 rows"; ``plural`` if it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def pluralize_with_verb(number: int, noun: str, singular: str, plural: str) -> str:
    """Return a number, its noun and the verb that agrees: "1 line is", "2 lines are"."""
    return f"{pluralize(number, noun)} {singular if number == 1 else plural}"


def pluralize_unit(number: int, unit: str) -> str:
    """Return a number and a unit with a plural name in s: "1 token", "2,000 tokens"."""
    return pluralize(number, unit.removesuffix("s"), unit)


def figure_text(value: float) -> str:
    """Return a number with enough digits to show progress: four decimals below 10, fewer for larger numbers."""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.2f}"
    return f"{value:.4f}" if size >= 0.001 or not value else f"{value:.2e}"


def did_you_mean(name: object, known: Iterable[str]) -> str | None:
    """Return "did you mean …?" with the known name most similar to ``name``; None if none is similar."""
    by_lower_case = {known_name.lower(): known_name for known_name in known}
    matches = difflib.get_close_matches(str(name).lower(), by_lower_case, n=1, cutoff=0.6)
    return f"did you mean {by_lower_case[matches[0]]}?" if matches else None


def listed(names: Sequence[str], word: str = "or", *, limit: int = 6) -> str:
    """Return names as ``a, b or c``; only the first ``limit`` of more, followed by ``and N more``."""
    short = [shortened(" ".join(name.split()), 40) for name in names[:limit]]
    if len(names) > limit:
        return f"{', '.join(short)} and {len(names) - limit:,} more"
    return f" {word} ".join([", ".join(short[:-1]), short[-1]] if len(short) > 1 else short)
