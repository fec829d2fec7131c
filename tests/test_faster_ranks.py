"""DDP and FSDP2 by two processes: the weights of one process, checkpoints in rows, and one way to fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed import checkpoint as torch_checkpoint

from regard.config.settings import TrainConfig
from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.core.tensors import digest
from regard.errors import ConfigError, ModelError
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.runs import checkpoint
from regard.runs.averaging import average_run
from regard.runs.run_folder import RunFolder
from regard.testing import TaskCase
from regard.training.carry import reshard_carries
from regard.training.fsdp2 import repeated_layers
from regard.training.one_shard import OneShard
from regard.training.progress import NullReporter
from regard.training.setup import set_up
from regard.training.shards import Shards, Workers
from regard.training.strategies import make_strategy
from regard.training.strategy import Strategy, Trainable
from regard.training.trainer import Trainer
from tests.laws import lanes_task
from tests.several_ranks import run_jobs
from tests.test_shards import smoothed

LANES = lanes_task.KIND
pytestmark = pytest.mark.usefixtures("lanes")
GRU = dict(kind="gru", reset="before", update="renews")
READING = dict(kind="additive", heads=1, project=[])
NO_LAYERS = dict(feed_forward=None, heads=None)
MODELS: dict[str, dict[str, Any]] = {
    "plain": {},
    "checkpointed": dict(execution="checkpointed"),
    "t5": dict(position="t5"),
    "additive": dict(encoder=dict(mixer="additive"), decoder=dict(mixer="additive")),
    "average": dict(decoder=dict(mixer="average")),
    "bahdanau": dict(
        kind="recurrent", layers=1, encoder=dict(cell=GRU, width=8),
        decoder=dict(cell=GRU, order="bahdanau", readout=8, cross_attention=READING), **NO_LAYERS,
    ),
    "convs2s": dict(
        kind="convolutional", layers=None, encoder=dict(blocks=[[8, 3, 2]]), decoder=dict(blocks=[[8, 3, 2]]),
        **NO_LAYERS,
    ),
}  # fmt: skip
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "adamw": dict(kind="adamw", weight_decay=0.1, clip_norm=0.01, ema=0.5),
    "muon": dict(kind="muon", weight_decay=0.1),
}
DDP_MODELS = ("plain", "bahdanau")  # every rank has whole weights there: models differ in what a pass reaches
CASES = {
    **{f"fsdp2 {name}": dict(strategy="fsdp2", model=model) for name, model in MODELS.items()},
    **{f"ddp {name}": dict(strategy="ddp", model=MODELS[name]) for name in DDP_MODELS},
    **{f"fsdp2 {name}": dict(strategy="fsdp2", optimizer=given) for name, given in OPTIMIZERS.items()},
    "offload": dict(strategy="offload", optimizer=OPTIMIZERS["adamw"]),
    **{f"{strategy} {dtype}": dict(strategy=strategy, dtype=dtype, optimizer=dict(kind="sgd"), updates=1)
       for strategy in ("ddp", "fsdp2") for dtype in ("float32", "bfloat16")},
}  # fmt: skip
CLOSE = {"float32": 1e-6, "bfloat16": 1e-4, "float64": 1e-12}  # weights after steps of 0.01
WORKER = "tests.faster_worker"
LEGS = [("fsdp2", 2), ("ddp", 3), ("offload", 5)]
Found = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def cases() -> dict[str, TaskCase]:
    """Every task, and lanes that carry state, with a moving average and steps that do not blow rounding up."""
    found = {kind: TaskCase(find_task(kind), kind) for kind in TASKS} | {LANES: TaskCase(lanes_task.TASK, LANES)}
    for case in found.values():
        case.tables["train"] |= {"optimizer": "sgd", "ema": 0.5, "average": 2, "strategy": "fsdp2"}
        del case.tables["train"]["shards"]
    found["translation"].tables["train"] |= {"best_by": "bleu"}
    return found


@pytest.fixture(scope="module")
def runs(cases: dict[str, TaskCase]) -> dict[str, RunFolder]:
    return {kind: case.run() for kind, case in cases.items()}


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spoiled")


@pytest.fixture(scope="module")
def found(runs: dict[str, RunFolder], spoiled: Path, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What both ranks found in every job: one start of two processes."""
    jobs: list[tuple[str, dict[str, Any]]] = [
        ("updates", {"cases": list(CASES.values())}), ("spoiled", {"folder": str(spoiled)}),
        *(("legs", {"run": str(run.path), "stops": LEGS}) for run in runs.values()),
    ]  # fmt: skip
    ranks = run_jobs(tmp_path_factory.mktemp("faster"), [*jobs, ("die", {"strategy": "ddp"})], module=WORKER)
    assert all("value" in job for rank in ranks for job in rank[: len(jobs)]), json.dumps(ranks, indent=1)
    found = {name: [rank[at]["value"] for rank in ranks] for at, name in enumerate(["updates", "spoiled", *runs])}
    return found | {"die": ranks[0][len(jobs) :]}


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_end_where_one_process_does(found: Found, name: str) -> None:
    """Unequal batches, accumulated; fewer examples than ranks; dropout by (seed, step, shard)."""
    limit = CLOSE[str(CASES[name].get("dtype", "float64"))]
    for rank in found["updates"]:
        case = rank[list(CASES).index(name)]
        assert case["weights"] <= limit < case["moved"] / 3 and case["kept"] <= limit
        assert case["norms"] <= 100 * limit and case["losses"] <= max(limit, 1e-6)


def test_fsdp2_ranks_hold_a_part_each(found: Found) -> None:
    for name in ("fsdp2 plain", "offload", "fsdp2 muon"):
        shares = [rank[list(CASES).index(name)]["rows"] for rank in found["updates"]]
        assert sum(shares) == pytest.approx(1) and max(shares) < 0.6
    assert [rank[list(CASES).index("ddp plain")]["rows"] for rank in found["updates"]] == [1, 1]


def trained(run: RunFolder, strategy: Strategy, stop: int | None = None) -> Trainer:
    ready = set_up(run, log=lambda message: None)
    trainer = Trainer(
        run, ready.net, ready.data, steps=ready.steps, reporter=NullReporter(), strategy=strategy,
        interrupted=lambda: stop is not None and trainer.progress.step >= stop,
    )  # fmt: skip
    trainer.resume()
    trainer.fit()
    return trainer


@pytest.mark.parametrize("kind", [*TASKS, LANES])
def test_a_run_goes_on_by_another_strategy_and_another_number_of_ranks(
    found: Found, cases: dict[str, TaskCase], runs: dict[str, RunFolder], kind: str
) -> None:
    """FSDP2, DDP, FSDP2 again; then one process, and averages of what all of them saved."""
    run, case = runs[kind], cases[kind]
    one, other = found[kind]
    assert one == other and [(leg["step"], leg["reason"]) for leg in one] == [(at, "interrupted") for _, at in LEGS]
    path = checkpoint.step_path(run.checkpoints, LEGS[-1][1])
    assert (path / "model.rank-00002-of-00002.safetensors").is_file()
    saved = checkpoint.load(path)
    assert digest({group: saved.groups[group] for group in ("model", "optimizer")}) == one[-1]["digest"]
    alone = trained(case.run(), Shards(2, Workers(1, 1)), stop=LEGS[-1][1])
    for name, tensor in alone.optimizer.weights().items():
        torch.testing.assert_close(saved.groups["model"][name], tensor, rtol=0, atol=1e-6)
    assert one[-1]["best"][0] == alone.progress.best_step
    assert one[-1]["best"][1] == pytest.approx(alone.progress.best_value, rel=1e-5)
    last = trained(run, make_strategy(run, torch.device("cpu"), None))
    assert last.progress.step == 6 and checkpoint.list_steps(run.checkpoints)[-1] == 6
    assert run.averaged()
    assert average_run(run, steps=[2, 4, 6]) == [2, 4, 6]


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_torch_reads_what_ranks_saved(found: Found, runs: dict[str, RunFolder]) -> None:
    path = checkpoint.step_path(runs["translation"].checkpoints, 4)
    wanted = checkpoint.load(path, only=["model"]).groups["model"]
    read = {name: torch.zeros_like(tensor) for name, tensor in wanted.items()}
    reader = torch_checkpoint.HuggingFaceStorageReader(str(path))
    torch_checkpoint.load(read, storage_reader=reader, no_dist=True)
    assert digest({"model": read}) == digest({"model": wanted})
    assert checkpoint.shapes(path, "model") == {name: ("F32", tuple(each.shape)) for name, each in wanted.items()}
    assert checkpoint.identity(path) != checkpoint.identity(path.with_name("step-000002"))


def test_a_failure_on_one_rank_leaves_no_checkpoint_and_tells_all(found: Found, spoiled: Path) -> None:
    one, other = found["spoiled"]
    assert one["step 1"] is other["step 1"] is one["step 5"] is other["step 5"] is None
    assert "No space left" in other["step 2"][0] and "rank 1 failed" in one["step 2"][0]
    assert "No space left" in one["step 3"][0] and "rank 0 failed" in other["step 3"][0]
    assert "does not see" in other["step 4"][0] and "a shared disk" in other["step 4"][1]
    assert one["left"] == other["left"] == ["step-000001", "step-000005"]
    assert checkpoint.load(spoiled / "step-000005").groups["model"]["w"].tolist() == [[0.0] * 3] * 2 + [[1.0] * 3] * 2


def test_a_rank_that_is_killed_in_a_pass_ends_the_job(found: Found) -> None:
    (waiting,) = found["die"]
    assert waiting["error"] == "PeerFailure" and "it was killed" in waiting["why"], waiting


def test_layers_that_share_a_parameter_are_gathered_with_the_rest() -> None:
    def layers(tied: bool = False, **keys: Any) -> int:
        net = build(ModelConfig(layers=2, width=8, feed_forward=8, heads=2, **keys), source_types=9, target_types=9)
        if tied:
            one, other = list(repeated_layers(net))[:2]
            one.get_submodule("feed_forward").extra = other.get_parameter("around_mixer.norm.weight")
        return len(repeated_layers(net))

    assert (layers(), layers(True), layers(position="t5")) == (4, 2, 0)


def rewritten(path: Path, change: Any, rows: int = 2) -> None:
    """Change a header, and the manifest with it: what only a look at all files together can find."""
    file, manifest = path / "model.rank-00002-of-00002.safetensors", path / "manifest.json"
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    places = json.loads(header["__metadata__"]["DCP_SHARDING_INFO"])
    change(places["w"])
    header["w"]["shape"][0] = rows
    header["__metadata__"]["DCP_SHARDING_INFO"] = json.dumps(places)
    text = json.dumps(header).encode()
    checked = checkpoint_record(file, len(text).to_bytes(8, "little") + text + data[8 + size :])
    found = json.loads(manifest.read_text())
    found["files"][file.name] = checked
    manifest.write_text(json.dumps(found))


def checkpoint_record(file: Path, data: bytes) -> dict[str, Any]:
    from regard.runs.checkpoint_files import write_recorded

    return write_recorded(file, data)


@pytest.mark.parametrize(
    "place",
    [
        {"saved_offsets": [0, 0]}, {"saved_offsets": [3, 0]}, {"saved_offsets": [2, 1]}, {"saved_offsets": [2]},
        {"whole_shape": [10**9, 3]}, {"whole_shape": [4, 4]}, {"whole_shape": [4, -3]}, {"whole_shape": "ab"},
    ],
)  # fmt: skip
def test_rows_that_do_not_fit_together_are_refused(found: Found, spoiled: Path, place: dict[str, Any]) -> None:
    path = spoiled / "step-000001"
    kept = {each: each.read_bytes() for each in path.iterdir()}
    try:
        rewritten(path, lambda own: own.update(place))
        with pytest.raises(ModelError, match="does not match the other files"):
            checkpoint.load(path)
        with pytest.raises(ModelError, match="does not match the other files"):
            checkpoint.shapes(path, "model")
    finally:
        for each, data in kept.items():
            each.write_bytes(data)
    assert len(checkpoint.load(path).groups["model"]["w"]) == 4


def test_rows_that_the_file_does_not_hold_take_no_memory(spoiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, rows = spoiled / "step-000001", 10**9
    kept = {each: each.read_bytes() for each in path.iterdir()}
    monkeypatch.setattr(torch, "empty", lambda *shape, **_: pytest.fail(f"takes memory for {shape}"))
    try:
        rewritten(path, lambda own: own.update(whole_shape=[rows + 2, 3]), rows)
        for read in (checkpoint.load, lambda path: checkpoint.shapes(path, "model")):
            with pytest.raises(ModelError, match="does not write"):
                read(path)
    finally:
        for each, data in kept.items():
            each.write_bytes(data)


@pytest.mark.parametrize("name", ["model.rank-00001-of-00002.safetensors", "model.rank-00002-of-00002.safetensors"])
def test_a_rank_whose_file_is_missing_or_changed_is_named(found: Found, spoiled: Path, name: str) -> None:
    file = spoiled / "step-000005" / name
    data = file.read_bytes()
    try:
        file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(ModelError, match=f"{name} of step-000005 was changed"):
            checkpoint.load(file.parent)
        file.unlink()
        with pytest.raises(ModelError, match=f"{name} of step-000005 is missing"):
            checkpoint.load(file.parent)
    finally:
        file.write_bytes(data)


def test_carries_are_dealt_to_another_number_of_shards() -> None:
    lanes = torch.arange(7.0)[:, None]
    by = {number: {shard: (lanes[shard::number],) for shard in range(min(number, 7))} for number in (1, 2, 3, 4, 8)}
    for before in by.values():
        for number, after in by.items():
            dealt = reshard_carries(before, number)
            assert {shard: carry[0].tolist() for shard, carry in dealt.items()} == {
                shard: carry[0].tolist() for shard, carry in after.items()
            }
    assert reshard_carries({}, 2) == {} and reshard_carries(by[2], None) is by[2]
    for missing in ({1: by[2][1]}, {0: by[2][0], 2: by[2][1]}, {0: (lanes[:1],), 1: (lanes[:3],)}, {0: (lanes[:0],)}):
        with pytest.raises(ValueError, match="lacks lanes"):
            reshard_carries(missing, 4)
    with pytest.raises(ValueError, match="differ in shape"):
        reshard_carries({0: (torch.zeros(2, 3),), 1: (torch.zeros(1, 4),)}, 1)


class Normalized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)


def test_what_several_ranks_cannot_train_is_refused() -> None:
    ranks = OneShard(None)
    ranks.world = 2
    with pytest.raises(ConfigError, match="several ranks") as refused:
        ranks.wrap(Trainable(Normalized(), smoothed()))
    assert "BatchNorm" in str(refused.value)
    ranks.world = 1
    ranks.wrap(Trainable(Normalized(), smoothed()))


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"fsdp_offload": True}, "fsdp_offload requires strategy = 'fsdp2'"),
        ({"fsdp_offload": True, "strategy": "ddp"}, "fsdp_offload requires strategy = 'fsdp2'"),
        ({"shards": 2, "strategy": "ddp"}, "shards requires strategy = 'canonical'"),
        ({"workers": 2, "strategy": "fsdp2"}, "workers requires strategy = 'canonical'"),
    ],
)
def test_keys_that_do_nothing_are_refused(keys: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        TrainConfig(**keys)
    TrainConfig(strategy="fsdp2", fsdp_offload=True)


def test_offloading_needs_a_start_by_torchrun(cases: dict[str, TaskCase]) -> None:
    case = cases["translation"]
    offloading = case.config.model_copy(update={"train": case.config.train.model_copy(update={"fsdp_offload": True})})
    run = RunFolder.create(case.folder / "offloading", offloading)
    with pytest.raises(ConfigError, match="requires torchrun"):
        make_strategy(run, torch.device("cpu"), None)
