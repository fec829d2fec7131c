"""The run-time check of shapes and types in signatures, under pytest only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from beartype import BeartypeConf, beartype
from jaxtyping import config

__all__ = ["UNCHECKED", "check", "switch", "unchecked"]

# Tests of what is around the models. They train and decode whole runs, by calls that the tests of the parts make too,
# which are checked there, and those of tasks in tests/laws: here the check would double the time. A single test of the
# parts that makes the calls of its neighbors once more is marked ``unchecked``.
UNCHECKED = (
    "bulk",
    "cli",
    "formats",
    "inspection",
    "learn",
    "reliability",
    "server",
    "share",
    "studies",
    "test_bench.py",
    "test_classification.py",
    "test_constrained.py",
    "test_frames.py",
    "test_going_on.py",
    "test_graph_net.py",
    "test_language_model.py",
    "test_links.py",
    "test_longer.py",
    "test_molecules.py",
    "test_music.py",
    "test_next_item.py",
    "test_reading_part.py",
    "test_shards.py",
    "test_shortcomings.py",
    "test_split.py",
    "test_summaries.py",
    "test_tag_schemes.py",
    "test_tagging.py",
    "test_train.py",
    "test_units.py",
    "test_update.py",
    "test_wording.py",
)

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is welcome where a float is asked for


def switch(*, on: bool) -> None:
    config.update("jaxtyping_disable", not on)


@contextmanager
def unchecked() -> Iterator[None]:
    """Shapes and types are not checked inside the block: for torch to trace, whose sizes are then symbols that the
    check takes for no ints, or to do again and again what was checked once, in half the time."""
    before = bool(config.jaxtyping_disable)
    switch(on=False)
    try:
        yield
    finally:
        switch(on=not before)
