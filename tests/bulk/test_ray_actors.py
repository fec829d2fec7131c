"""The same job by actors of Ray; skipped where Ray is not installed, since Regard's own environment has none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from regard.bulk.merge import merge
from regard.bulk.worker import Order, open_order
from regard.errors import DataError

pytest.importorskip("ray.data", reason="Ray is not installed: pip install '.[ray]'")
pytestmark = pytest.mark.filterwarnings("default")  # Ray's own


@pytest.fixture(scope="module")
def order(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Order]:
    from tests.cli.other_runs import train_language_model

    folder = tmp_path_factory.mktemp("ray")
    (folder / "a.txt").write_text("".join(f"the cat sat on {'the mat ' * row}\n" for row in range(9)) + "\n§\n")
    spec = {
        "verb": "score", "run": str(train_language_model(folder)), "prompt": None, "stride": None, "documents": False,
        "json": False, "seed": None, "threads": 1,
    }  # fmt: skip
    yield Order(str(folder / "out"), [str(folder / "a.txt")], spec, lines=4)


def test_actors_do_all_blocks_and_errors_come_back(order: Order) -> None:
    from regard.bulk.ray_actors import run_on_ray

    done: dict[int, int] = {}
    run_on_ray(order, 1, done.__setitem__, lambda text: None)
    assert done == {0: 4, 1: 4, 2: 3}
    assert merge(open_order(order))[:3] == (11, 11, 1)
    other = order._replace(out=f"{order.out}-other")
    open_order(other)
    text = Path(order.inputs[0]).read_text()
    Path(order.inputs[0]).write_text(text.replace("cat", "rat"))
    with pytest.raises(DataError, match="has changed"):
        run_on_ray(other, 1, done.__setitem__, lambda text: None)
