"""The study of long costs judges what it measured."""

from __future__ import annotations

import pytest

from regard.models.attention_config import OTHER_MIXERS
from regard.studies import long_costs
from regard.studies.long_costs import Entrant, entrants
from regard.studies.study import ignore_report

EXPONENTS = {"everything": (2.0, 1.0), "straight": (1.0, 1.0), "bent": (1.2, 1.0), "hungry": (1.0, 1.3)}


@pytest.mark.parametrize(
    "name, factor, broken",
    [
        ("straight", 1.0, []),
        ("bent", 1.0, ["bent: exponent of time"]),
        ("hungry", 1.0, ["hungry: exponent of memory"]),
        ("straight", 5000.0, ["straight: share of the time of everything, 16,384 positions"]),
    ],
)
def test_it_holds_for_straight_lines_alone(
    name: str, factor: float, broken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tested = {"everything": Entrant(entrants()["everything"].make, (2, 1), 16384), name: Entrant(lambda: None)}
    names = {id(entrant): each for each, entrant in tested.items()}

    def point(entrant: Entrant, length: int) -> tuple[int, float, int]:
        each = names[id(entrant)]
        time, memory = EXPONENTS[each]
        return length, (factor if each == name else 1.0) * 1e-6 * length**time, int(1000 * length**memory)

    monkeypatch.setattr(long_costs, "_point", point)
    found = long_costs.run(seed=1, minimal=False, report=ignore_report, tested=tested)
    assert [each.what for each in found.criteria if not each.holds] == broken


def test_every_mixer_of_the_table_takes_part() -> None:
    assert OTHER_MIXERS.keys() <= entrants().keys()
