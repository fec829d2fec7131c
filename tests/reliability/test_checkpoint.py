"""Checkpoints come back bit for bit, are whole or invisible, and say what is wrong with them."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path

import hypothesis.strategies as st
import pytest
import safetensors.torch
import torch
from hypothesis import given
from torch import Tensor, nn

from regard.core import atomic_files
from regard.core.installation import upgrade_advice
from regard.errors import ModelError, StorageError
from regard.runs import checkpoint, checkpoint_files

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8]
FILES = ["manifest.json", "model.safetensors", "optimizer.safetensors", "state.json"]


class Killed(BaseException):
    """Stands for kill -9: no code of ours runs after it, but what Python itself closes."""


def groups(seed: int) -> dict[str, dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    embedding = torch.randn(3, 2, generator=generator)
    return {
        "model": {
            "embedding": embedding,
            "output": embedding,
            "scale": torch.tensor(seed, dtype=torch.bfloat16),
        },
        "optimizer": {"step": torch.tensor(seed), "moment": torch.randn(3, 2, generator=generator)},
    }


def save(folder: Path, step: int, keep: int = 2, **options: object) -> Path:
    return checkpoint.save(folder, step, groups(step), {"epoch": step / 3}, keep=keep, **options)  # type: ignore[arg-type]


def is_whole(found: checkpoint.Checkpoint | None) -> bool:
    """Whether what was loaded is, to the bit, what ``save`` stored under its step."""
    assert found is not None
    same = checkpoint.digest(found.groups) == checkpoint.digest(groups(found.step))
    return same and found.state == {"epoch": found.step / 3}


def silent(problem: str) -> None:
    pytest.fail(f"nothing was wrong, and yet: {problem}")


def raw(tensor: Tensor) -> bytes:
    copy = torch.empty(tensor.shape, dtype=tensor.dtype)
    return copy.copy_(tensor).reshape(-1).view(torch.uint8).numpy().tobytes()


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """Any bits, NaN payloads and -0.0 included, of any format and shape, not always contiguous."""
    dtype, shape = draw(st.sampled_from(DTYPES)), draw(st.lists(st.integers(0, 3), max_size=3))
    size = int(torch.Size(shape).numel()) * dtype.itemsize
    data = draw(st.binary(min_size=size, max_size=size))
    if not size:
        return torch.zeros(shape, dtype=dtype)
    tensor = torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)
    kind = draw(st.sampled_from(["contiguous", "transposed", "expanded", "strided"]))
    if kind == "transposed":
        return tensor.permute(tuple(reversed(range(tensor.dim()))))
    if kind == "expanded":
        return tensor.unsqueeze(0).expand(2, *shape)
    return tensor.repeat_interleave(2, dim=-1)[..., ::2] if kind == "strided" and tensor.dim() else tensor


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


NAMES = st.text("abcé.", min_size=1, max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(["model", "optimizer", "average"]), st.dictionaries(NAMES, tensors()), max_size=2),
    st.dictionaries(st.text(), JSON, max_size=3),
)
def test_round_trip_is_bit_exact(scratch: Path, stored: dict[str, dict[str, Tensor]], state: dict[str, object]) -> None:
    found = checkpoint.load(checkpoint.save(scratch / "round", 7, stored, state, keep=1))
    assert found.step == 7 and found.state == state and found.groups.keys() == stored.keys()
    for group, named in stored.items():
        assert found.groups[group].keys() == named.keys()
        for name, tensor in named.items():
            twin = found.groups[group][name]
            assert (twin.dtype, twin.shape, raw(twin)) == (tensor.dtype, tensor.shape, raw(tensor))
    assert checkpoint.digest(found.groups) == checkpoint.digest(stored)


def test_tied_tensors_are_stored_once_and_come_back_tied(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.output = nn.Embedding(50, 20), nn.Linear(20, 50, bias=False)
            self.output.weight = self.embedding.weight

    model = Tied()
    path = checkpoint.save(tmp_path, 1, {"model": model.state_dict()}, {}, keep=1)
    found = checkpoint.load(path).groups["model"]
    assert found["embedding.weight"] is found["output.weight"]
    assert torch.equal(found["output.weight"], model.embedding.weight)
    assert (path / "model.safetensors").stat().st_size < 1.5 * 50 * 20 * 4
    with (path / "model.safetensors").open("rb") as file:  # readable by anyone, without regard
        assert list(safetensors.torch.load(file.read())) == ["embedding.weight"]


def test_overlapping_tensors_keep_their_values(tmp_path: Path) -> None:
    flat, square = torch.arange(6.0), torch.arange(4.0).view(2, 2)
    parts = {"front": flat[:4], "back": flat[2:], "whole": flat, "matrix": flat.view(2, 3)}
    parts |= {"turned": flat.view(2, 3).t(), "bits": flat.view(torch.int32)}
    parts |= {"square": square, "turned square": square.t()}
    found = checkpoint.load(checkpoint.save(tmp_path, 1, {"model": parts}, {}, keep=1)).groups["model"]
    assert {name: each.tolist() for name, each in found.items()} == {
        name: each.tolist() for name, each in parts.items()
    }


def test_what_is_loaded_does_not_hang_on_the_file(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    found = checkpoint.load(path)
    file = path / "model.safetensors"
    with file.open("r+b") as opened:
        opened.write(bytes(file.stat().st_size))
    found.groups["model"]["embedding"].add_(0)  # may be written to, as an optimizer does
    assert is_whole(found)


def test_only_the_groups_asked_for_are_read(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    (path / "optimizer.safetensors").unlink()
    found = checkpoint.load(path, only={"model"})
    assert checkpoint.digest(found.groups) == checkpoint.digest({"model": groups(1)["model"]})
    with pytest.raises(ModelError, match="average"):
        checkpoint.load(path, only={"average"})


def test_steps_are_listed_by_number(tmp_path: Path) -> None:
    assert checkpoint.list_steps(tmp_path / "absent") == []
    for step in (5, 999_999, 1_000_000, 20_000):
        checkpoint.step_path(tmp_path, step).mkdir()
    for stranger in ("step-12", "step-000007.bak", ".step-000007.tmp", "best", "step-" + "9" * 400):
        (tmp_path / stranger[:200]).mkdir()
    (tmp_path / "step-000008").touch()
    assert checkpoint.list_steps(tmp_path) == [5, 20_000, 999_999, 1_000_000]


# ---- pruning and the best


def test_the_last_few_the_best_and_the_protected_stay(tmp_path: Path) -> None:
    save(tmp_path, 1)
    checkpoint.mark_best(tmp_path, 1, "bleu", 33.5)
    for step in range(2, 8):
        save(tmp_path, step, keep=3, protect={"step-000003"})
    assert checkpoint.list_steps(tmp_path) == [1, 3, 5, 6, 7]
    assert checkpoint.read_best(tmp_path) == checkpoint.Best(1, "bleu", 33.5)
    checkpoint.mark_best(tmp_path, 6, "bleu", 34.0)
    for step in (8, 9):
        save(tmp_path, step, keep=1)
    assert checkpoint.list_steps(tmp_path) == [6, 9]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.json", "step-000006", "step-000009"]


def test_saving_an_earlier_step_removes_what_lies_beyond_it(tmp_path: Path) -> None:
    """After a fall-back to step 2, the broken step 3 must neither count as one to keep nor be loaded."""
    for step in (1, 2, 3):
        save(tmp_path, step)
    checkpoint.mark_best(tmp_path, 3, "loss", 1.0)
    (tmp_path / "step-000003" / "state.json").unlink()
    problems: list[str] = []
    found = checkpoint.load_latest(tmp_path, problems.append)
    assert found is not None and found.step == 2 and len(problems) == 1
    save(tmp_path, 2, keep=1)
    assert checkpoint.list_steps(tmp_path) == [2]
    assert checkpoint.read_best(tmp_path) is None
    assert is_whole(checkpoint.load_latest(tmp_path, silent))


def test_a_damaged_best_stops_its_reader_and_not_the_training(tmp_path: Path) -> None:
    assert checkpoint.read_best(tmp_path) is None
    save(tmp_path, 1)
    for text in ("", "[]", '{"step": 1}', '{"step": "x", "metric": "m", "value": 1}', "\xff", "[" * 100_000):
        (tmp_path / "best.json").write_text(text, encoding="latin-1")
        with pytest.raises(ModelError, match=r"best\.json"):
            checkpoint.read_best(tmp_path)
    save(tmp_path, 2)
    assert checkpoint.list_steps(tmp_path) == [1, 2]


def test_keep_and_group_names_are_checked_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keep"):
        save(tmp_path, 1, keep=0)
    for name in ("../model", "a b", "", "Model", "model\n"):
        with pytest.raises(ValueError, match="group"):
            checkpoint.save(tmp_path, 1, {name: {}}, {}, keep=1)
    assert checkpoint.list_steps(tmp_path) == []


# ---- a kill at any moment


def interrupted(
    action: Callable[[Path], object],
    prepared: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Callable[[str], BaseException] = Killed,
) -> Iterator[tuple[str, Path, BaseException]]:
    """Run ``action`` on a fresh copy of ``prepared`` once for each of its moments, stopped at that moment."""
    moments: list[str] = []
    trial = shutil.copytree(prepared, prepared.with_name(f"{prepared.name}-trial"))
    with monkeypatch.context() as patch:
        patch.setattr(atomic_files, "fault", moments.append)
        action(trial)
    for stop in range(len(moments)):
        folder = shutil.copytree(prepared, prepared.with_name(f"{prepared.name}-{stop}"))
        reached: list[str] = []

        def fault(point: str, stop: int = stop, reached: list[str] = reached) -> None:
            reached.append(point)
            if len(reached) == stop + 1:
                raise error(point)

        with monkeypatch.context() as patch:
            patch.setattr(atomic_files, "fault", fault)
            with pytest.raises((Killed, StorageError)) as caught:
                action(folder)
        yield moments[stop], folder, caught.value


def prepare(folder: Path, steps: tuple[int, ...] = (1, 2)) -> Path:
    for step in steps:
        save(folder, step)
    return folder


def test_a_kill_at_every_moment_of_a_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments, loaded = set(), []
    for moment, folder, _ in interrupted(lambda each: save(each, 3), prepare(tmp_path / "run"), monkeypatch):
        moments.add(moment)
        found = checkpoint.load_latest(folder, silent)  # silent: what is visible is whole
        assert found is not None and is_whole(found)
        loaded.append(found.step)
        for step in checkpoint.list_steps(folder):
            assert is_whole(checkpoint.load(checkpoint.step_path(folder, step)))
        save(folder, 3)  # training comes by again
        assert sorted(path.name for path in folder.iterdir()) == ["step-000002", "step-000003"]
        assert is_whole(checkpoint.load_latest(folder, silent))
        shutil.rmtree(folder)
    assert loaded == sorted(loaded) and set(loaded) == {2, 3}
    assert {"opened", "written", "tensors-written", "state-written", "manifest-written", "renamed"} <= moments
    assert {"folder-synced", "parent-synced", "hidden", "removed"} <= moments


def test_a_kill_at_every_moment_of_saving_the_same_step_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``keep=1`` the one that is replaced is all there is: at no moment may there be none."""
    prepared = prepare(tmp_path / "run", (2,))
    for _, folder, _ in interrupted(lambda each: save(each, 2, keep=1), prepared, monkeypatch):
        assert is_whole(checkpoint.load_latest(folder, silent))
        shutil.rmtree(folder)


def test_a_second_kill_while_the_first_is_cleared_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = prepare(tmp_path / "run", (2,))
    first = interrupted(lambda each: save(each, 2, keep=1), prepared, monkeypatch)
    set_aside = next(folder for moment, folder, _ in first if moment == "set-aside")
    assert not (set_aside / "step-000002").exists()
    for _, folder, _ in interrupted(lambda each: save(each, 2, keep=1), set_aside, monkeypatch):
        assert is_whole(checkpoint.load_latest(folder, silent))


# ---- a machine that refuses


def full(point: str) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_at_every_moment_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for moment, folder, error in interrupted(lambda each: save(each, 3), prepare(tmp_path / "run"), monkeypatch, full):
        assert isinstance(error, StorageError), moment
        assert "No space left" in error.what and "free space" in (error.help or "")
        found = checkpoint.load_latest(folder, silent)
        assert found is not None and is_whole(found)
        if found.step == 2:
            assert sorted(path.name for path in folder.iterdir()) == ["step-000001", "step-000002"]


def test_a_real_refusal_in_the_middle_of_the_tensors(tmp_path: Path) -> None:
    save(tmp_path, 1)
    large = {"model": {"weight": torch.zeros(1 << 16)}}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, hard))
    try:
        with pytest.raises(StorageError):
            checkpoint.save(tmp_path, 2, large, {}, keep=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["step-000001"]
    assert is_whole(checkpoint.load_latest(tmp_path, silent))


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_no_write_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    save(tmp_path, 1)

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    with monkeypatch.context() as patch:  # simulated, since root may write anywhere
        patch.setattr(os, "mkdir", refuse)
        with pytest.raises(StorageError) as caught:
            save(tmp_path, 2)
    assert str(tmp_path) in str(caught.value) and caught.value.help == atomic_files.HELP[number]
    assert is_whole(checkpoint.load_latest(tmp_path, silent))


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").touch()
    with pytest.raises(StorageError):
        save(tmp_path / "checkpoints", 1)


def test_no_read_permission_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Falling back to an older checkpoint would be wrong: the newest is whole."""
    prepare(tmp_path)
    opening = checkpoint_files.open_regular

    def refuse(path: str, flags: int) -> int:
        if Path(path).parent.name == "step-000002":
            raise OSError(errno.EACCES, "Permission denied", path)
        return opening(path, flags)

    monkeypatch.setattr(checkpoint_files, "open_regular", refuse)
    with pytest.raises(StorageError, match="no permission to read"):
        checkpoint.load_latest(tmp_path, silent)


# ---- damage


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


DAMAGE: Mapping[str, Callable[[Path], object]] = {
    "flipped bit": flip,
    "cut short": lambda file: os.truncate(file, file.stat().st_size // 2),
    "empty": lambda file: os.truncate(file, 0),
    "longer": lambda file: file.write_bytes(file.read_bytes() + b"x"),
    "missing": lambda file: file.unlink(),
    "foreign": lambda file: file.write_bytes(b"\x80\x04\x95 a pickle of somebody"),
    "a folder": lambda file: [action() for action in (file.unlink, file.mkdir)],
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_newest_falls_back_loudly(tmp_path: Path, name: str, damage: str) -> None:
    prepare(tmp_path)
    newest = tmp_path / "step-000002"
    DAMAGE[damage](newest / name)
    problems: list[str] = []
    found = checkpoint.load_latest(tmp_path, problems.append)
    assert found is not None and found.step == 1 and is_whole(found)
    assert len(problems) == 1 and "step-000002" in problems[0] and name in problems[0]
    assert checkpoint_files.HELP in problems[0]
    with pytest.raises(ModelError):
        checkpoint.load(newest)


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    for name in FILES:
        whole = (path / name).read_bytes()
        for place in range(len(whole)):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << place % 8
            (path / name).write_bytes(damaged)
            try:
                found = checkpoint.load(path)
            except ModelError:
                continue
            # The manifest has no sum of its own; what is let through there must be without effect.
            assert name == "manifest.json" and is_whole(found), f"{name}, byte {place}"
        (path / name).write_bytes(whole)
    assert is_whole(checkpoint.load(path))


def test_where_none_is_whole_nothing_starts_afresh_by_itself(tmp_path: Path) -> None:
    assert checkpoint.load_latest(tmp_path, silent) is None
    assert checkpoint.load_latest(tmp_path / "absent", silent) is None
    prepare(tmp_path)
    for step in (1, 2):
        (tmp_path / f"step-00000{step}" / "manifest.json").unlink()
    problems: list[str] = []
    with pytest.raises(ModelError, match=r"are unusable \(2\)"):
        checkpoint.load_latest(tmp_path, problems.append)
    assert [("step-000002" in each, "step-000001" in each) for each in problems] == [
        (True, False),
        (False, True),
    ]


def seal(path: Path) -> None:
    """Give a tampered folder a manifest that fits, as a sender with bad intent would."""
    manifest = json.loads((path / "manifest.json").read_bytes())
    for name in manifest["files"]:
        file = path / name
        manifest["files"][name] = {"size": file.stat().st_size, "sha256": atomic_files.sha256(file)}
    atomic_files.write_json(path / "manifest.json", manifest)


@pytest.mark.parametrize("name", ["manifest.json", "state.json"])
def test_a_newer_format_is_refused_by_name(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, 1)
    newer = json.loads((path / name).read_bytes()) | {"format": checkpoint_files.ROWS_FORMAT + 1, "surprise": True}
    atomic_files.write_json(path / name, newer)
    if name != "manifest.json":
        seal(path)
    with pytest.raises(ModelError, match="newer version of Regard") as caught:
        checkpoint.load(path)
    assert caught.value.help == upgrade_advice()


@pytest.mark.parametrize(
    "change",
    [
        {"format": 0},
        {"format": True},
        {"format": "1"},
        {"step": "1"},
        {"groups": ["../../model"]},
        {"groups": ["model", "absent"]},
        {"shared": {"model": {"output": "absent"}, "optimizer": {}}},
        {"shared": {}},
        {"shared": {"model": {"output": ["embedding"]}, "optimizer": {}}},
        {"state": None},
        {"code": "import os"},
    ],
    ids=str,
)
def test_a_tampered_state_with_a_manifest_that_fits(tmp_path: Path, change: dict[str, object]) -> None:
    path = save(tmp_path, 1)
    atomic_files.write_json(path / "state.json", json.loads((path / "state.json").read_bytes()) | change)
    seal(path)
    with pytest.raises(ModelError):
        checkpoint.load(path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 8,  # a header of 2**64 - 1 bytes
        (1 << 40).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00.",
        safetensors.torch.save({"another": torch.zeros(2)}),
    ],
)
def test_foreign_tensors_with_a_manifest_that_fits(tmp_path: Path, data: bytes) -> None:
    path = save(tmp_path, 1)
    (path / "model.safetensors").write_bytes(data)
    seal(path)
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        checkpoint.load(path)


@pytest.mark.parametrize(
    "text", ["[]", "null", "1", "[" * 100_000, '{"format": 1}', '{"format": 1, "files": {"a": 1}}']
)
def test_a_foreign_manifest(tmp_path: Path, text: str) -> None:
    path = save(tmp_path, 1)
    (path / "manifest.json").write_text(text)
    with pytest.raises(ModelError, match=r"manifest\.json"):
        checkpoint.load(path)


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"manifest\.json.*missing"):
        checkpoint.load(tmp_path)
    with pytest.raises(ModelError, match="no checkpoint"):
        checkpoint.load(tmp_path / "absent")


# ---- digest and mean


def test_the_digest_sees_every_difference_and_no_order() -> None:
    base = {"model": {"a": torch.tensor([1.0, 0.0]), "b": torch.tensor([2])}}
    changes: list[dict[str, dict[str, Tensor]]] = [
        {"model": base["model"] | {"a": torch.tensor([1.0, -0.0])}},
        {"model": base["model"] | {"a": torch.tensor([[1.0, 0.0]])}},
        {"model": base["model"] | {"a": torch.tensor([1.0, 0.0]).view(torch.int32)}},
        {"model": {"c": base["model"]["a"], "b": base["model"]["b"]}},
        {"other": base["model"]},
        {"model": base["model"] | {"c": torch.zeros(0)}},
    ]
    digests = [checkpoint.digest(each) for each in (base, *changes)]
    assert len(set(digests)) == len(digests)
    turned = {"model": {name: base["model"][name].clone() for name in ("b", "a")}}
    assert checkpoint.digest(turned) == digests[0]


@given(st.dictionaries(NAMES, tensors(), min_size=1), st.integers(1, 9))
def test_the_mean_of_copies_has_the_same_bits(model: dict[str, Tensor], copies: int) -> None:
    clean = {name: each.nan_to_num(nan=-0.0) if each.is_floating_point() else each for name, each in model.items()}
    mean = checkpoint.average([clean] * copies)
    assert checkpoint.digest({"model": mean}) == checkpoint.digest({"model": clean})


@given(st.lists(st.lists(st.floats(-1e4, 1e4, width=32), min_size=3, max_size=3), min_size=1, max_size=20))
def test_the_mean_is_the_arithmetic_mean(rows: list[list[float]]) -> None:
    mean = checkpoint.average([{"weight": torch.tensor(row)} for row in rows])["weight"]
    for found, column in zip(mean.tolist(), zip(*rows, strict=True), strict=True):
        exact = sum(map(Fraction, column), Fraction(0)) / len(column)
        rounding = abs(exact) / 2**24 + max(abs(Fraction(each)) for each in column) / 2**48 + Fraction(2) ** -149
        assert abs(Fraction(found) - exact) <= rounding  # of one rounding to fp32; fp32 sums would be off by more


def test_the_mean_over_stored_checkpoints(tmp_path: Path) -> None:
    paths = [save(tmp_path, step, keep=3) for step in (1, 2, 3)]
    mean = checkpoint.average(paths)
    expected = torch.stack([groups(step)["model"]["embedding"] for step in (1, 2, 3)]).double().mean(dim=0)
    torch.testing.assert_close(mean["embedding"], expected.float(), rtol=2**-23, atol=0)
    assert mean["output"] is mean["embedding"] and mean["scale"].item() == 2
    step = checkpoint.average(paths, group="optimizer")["step"]
    assert (step.dtype, step.item()) == (torch.int64, 3)


def test_the_mean_shares_no_memory_with_its_sources() -> None:
    source = {"weight": torch.ones(2, dtype=torch.float64), "count": torch.ones(2, dtype=torch.int64)}
    mean = checkpoint.average([source])
    for tensor in mean.values():
        tensor.zero_()
    assert all(tensor.all() for tensor in source.values())


@pytest.mark.parametrize(
    ("second", "named"),
    [
        ({"a": torch.zeros(3), "b": torch.zeros(2)}, "a"),
        ({"a": torch.zeros(2).double(), "b": torch.zeros(2)}, "a"),
        ({"a": torch.zeros(2)}, "b"),
        (dict.fromkeys(("a", "b"), torch.zeros(2)), "tied"),
    ],
)
def test_different_models_have_no_mean(second: dict[str, Tensor], named: str) -> None:
    first = {"a": torch.zeros(2), "b": torch.zeros(2)}
    with pytest.raises(ModelError, match=rf"model 2 .* {named}|model 2 .*{named}"):
        checkpoint.average([first, second])
    with pytest.raises(ValueError, match="at least one model"):
        checkpoint.average([])
