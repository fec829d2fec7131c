"""Files of torch.save are read without torch's loader: equal tensors, nothing called, hostile files cost no memory."""

from __future__ import annotations

import io
import pickle  # noqa: TID251 - written here, and never loaded
import random
import struct
import tracemalloc
import warnings
import zipfile
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from regard.errors import ModelError
from regard.share import torch_file
from regard.share.torch_file import mapping_of, open_torch
from tests.data.test_opcodes import Evil
from tests.share.toolkit_checkpoints import save


def read(path: Path, key: str = "model") -> dict[str, torch.Tensor]:
    with open_torch(path) as file:
        found = file.tensors(mapping_of(file.value)[key])
        return {name: file.read(tensor) for name, tensor in found.items()}


def refusal(path: Path, limit: int = 4 << 20) -> str:
    """Return the message about a file, which must cost less memory than this to refuse."""
    tracemalloc.start()
    try:
        with pytest.raises(ModelError) as caught:
            read(path)
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()
    return str(caught.value)


@pytest.mark.parametrize("zipped", [True, False])
def test_tensors_and_plain_values_are_those_that_were_saved(zipped: bool, tmp_path: Path) -> None:
    torch.manual_seed(1)
    x, path = torch.randn(6, 4), tmp_path / "file.pt"
    model = OrderedDict(
        whole=x, turned=x.t(), part=x[2:4, 1:3], empty=torch.zeros(0, 3), scalar=torch.tensor(3.0), half=x.half(),
        brain=x.bfloat16(), double=x.double(), parameter=nn.Parameter(x), number=torch.arange(5), flag=x > 0,
    )  # fmt: skip
    saved = {"model": model, "opt": Namespace(layers=2, names=["a"]), "text": ["é", b"x", None, 1.5, (1, True)]}
    save(saved, path, _use_new_zipfile_serialization=zipped)
    tensors = read(path)
    assert tensors.keys() == model.keys()
    for name, tensor in model.items():
        assert tensors[name].dtype == tensor.dtype and torch.equal(tensors[name], tensor), name
    with open_torch(path) as file:
        content = mapping_of(file.value)
    assert mapping_of(content["opt"]) == {"layers": 2, "names": ["a"]} and content["text"] == saved["text"]


@pytest.mark.parametrize("zipped", [True, False])
def test_nothing_is_called(zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / "file.pt"
    content = {"model": {"x": torch.ones(2)}, "evil": Evil(tmp_path / "run")}
    save(content, path, _use_new_zipfile_serialization=zipped)
    assert read(path)["x"].tolist() == [1, 1]
    assert not (tmp_path / "run").exists()


def repacked(path: Path, change: Callable[[dict[str, bytes]], None], **options: Any) -> None:
    """Write the members of an archive again after a change."""
    with zipfile.ZipFile(path) as packed:
        members = {name: packed.read(name) for name in packed.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", **options) as packed:
        for name, content in members.items():
            packed.writestr(name, content)


def saved(path: Path) -> None:
    save({"model": {"x": torch.ones(16, 4)}}, path)


def test_archives_that_are_not_plain_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.pt"
    saved(path)
    repacked(path, lambda members: members.update(bomb=bytes(1 << 24)), compression=zipfile.ZIP_DEFLATED)
    assert "compressed or encrypted" in refusal(path)
    for name in ("/etc/passwd", "file/../../x", "c:/x", "file\\x"):
        saved(path)
        repacked(path, lambda members, name=name: members.update({name: b""}))  # type: ignore[misc]
        assert "outside the archive" in refusal(path)
    saved(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(path, "a") as packed:
            packed.writestr("file/data/0", b"1234")
    assert "two members" in refusal(path)
    saved(path)
    repacked(path, lambda members: members.update({"other/data.pkl": b""}))
    assert "no pickle of torch.save" in refusal(path)
    saved(path)
    repacked(path, lambda members: members.update({"file/byteorder": b"big"}))
    assert "another type of machine" in refusal(path)


def test_headers_that_do_not_agree_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.pt"
    saved(path)
    repacked(path, lambda members: None)
    whole = path.read_bytes()
    central = whole.rfind(b"PK\1\2")
    end = whole.rfind(b"PK\5\6")

    def message(place: int, layout: str, value: int) -> str:
        changed = bytearray(whole)
        struct.pack_into(layout, changed, place, value)
        path.write_bytes(changed)
        return refusal(path)

    assert "compressed" in message(central + 24, "<L", 1 << 30)
    changed = bytearray(whole)
    struct.pack_into("<2L", changed, central + 20, 1 << 30, 1 << 30)
    path.write_bytes(changed)
    assert "longer than the file" in refusal(path)
    assert "damaged" in message(central + 42, "<L", len(whole) - 40)
    wide = bytearray(whole)
    name_size = struct.unpack_from("<H", whole, central + 28)[0]
    first = struct.unpack_from("<L", whole, end + 16)[0]
    extra = struct.pack("<2HQ", 1, 8, (1 << 63) - 1)
    struct.pack_into("<H", wide, central + 30, len(extra))
    struct.pack_into("<L", wide, central + 42, 0xFFFFFFFF)
    struct.pack_into("<L", wide, end + 12, end - first + len(extra))
    path.write_bytes(wide[: central + 46 + name_size] + extra + wide[central + 46 + name_size :])
    assert "starts after the end" in refusal(path)
    assert "has two names" in message(central + 46, "<B", 0x41)
    assert "more members" in message(end + 12, "<L", 1 << 31)
    assert "truncated" in message(end + 10, "<H", 60_000)
    longer = bytearray(whole)
    start = struct.unpack_from("<L", whole, whole.find(b"PK\1\2") + 20)[0]
    struct.pack_into("<2L", longer, whole.find(b"PK\1\2") + 20, start + 8, start + 8)
    path.write_bytes(longer)
    assert "overlap" in refusal(path)


def reduced(key: str = "0", count: Any = 64, offset: Any = 0, shape: Any = (16, 4), strides: Any = (4, 1)) -> bytes:
    """Return the pickle of a tensor with these arguments, as torch writes it."""

    class Storage:
        pass

    class Tensor:
        def __reduce__(self) -> Any:
            return torch._utils._rebuild_tensor_v2, (Storage(), offset, shape, strides, False, OrderedDict())

    class Pickler(pickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            return ("storage", torch.FloatStorage, key, "cpu", count) if isinstance(value, Storage) else None

    stream = io.BytesIO()
    Pickler(stream, 2).dump({"model": {"x": Tensor()}})
    return stream.getvalue()


VIEWS: dict[str, tuple[dict[str, Any], str]] = {
    "storage larger than its member": ({"count": 1 << 40}, "has a size of 256"),
    "view larger than the storage": ({"shape": (1 << 20, 4)}, "larger than its storage"),
    "offset": ({"offset": 1}, "larger than its storage"),
    "negative offset": ({"offset": -1}, "shape is damaged"),
    "strides of another number": ({"strides": (1,)}, "shape is damaged"),
    "strides of 0": ({"shape": (1 << 30, 4), "strides": (0, 1)}, "elements overlap"),
    "overlapping": ({"shape": (8, 4), "strides": (2, 1)}, "elements overlap"),
    "negative stride": ({"strides": (-4, 1)}, "shape is damaged"),
    "huge product": ({"shape": (1 << 47,) * 8, "strides": (1,) * 8}, "larger than its storage"),
    "many dimensions": ({"shape": (1,) * 100, "strides": (1,) * 100}, "shape is damaged"),
    "texts": ({"shape": ("a", "b")}, "shape is damaged"),
    "unknown storage": ({"key": "9"}, "'9'"),
    "truth": ({"count": True}, "storage is damaged"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_outside_their_storage_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file.pt"
    saved(path)
    repacked(path, lambda members: members.update({"file/data.pkl": reduced()}))
    assert read(path)["x"].shape == (16, 4)
    options, expected = VIEWS[name]
    repacked(path, lambda members: members.update({"file/data.pkl": reduced(**options)}))
    assert expected in refusal(path)


def test_tensors_that_share_their_numbers_are_limited(tmp_path: Path) -> None:
    path, x = tmp_path / "file.pt", torch.ones(64, 64)
    save({"model": {str(number): x for number in range(4)}}, path)  # tied matrices
    assert len(read(path)) == 4
    save({"model": {str(number): x for number in range(400)}}, path)
    assert "times larger than the file" in refusal(path)


PICKLES = {
    "deep lists": b"\x80\x02" + b"](" * 4_000 + b".",
    "deep tuples as keys": b"\x80\x02}K\x01" + b"\x85" * 4_000 + b"K\x01s.",
    "huge memo number": b"\x80\x02]r\xff\xff\xff\xffj\xfe\xff\xff\xff.",
    "long text": b"\x80\x02X\xff\xff\xff\x7fabc.",
    "many dicts": b"\x80\x02" + b"}" * 10_001 + b".",
    "a call of a list": b"\x80\x02]]R.",
    "another opcode": b"\x80\x02\x8f.",
}


@pytest.mark.parametrize("name", PICKLES)
def test_hostile_pickles_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_file, "OPCODES", 10_000)
    path = tmp_path / "file.pt"
    saved(path)
    repacked(path, lambda members: members.update({"file/data.pkl": PICKLES[name]}))
    assert "pickle is damaged" in refusal(path)


def test_truncated_and_damaged_files_are_refused(tmp_path: Path) -> None:
    draws, path = random.Random(2), tmp_path / "file.pt"
    for zipped in (True, False):
        save({"model": {"x": torch.ones(16, 4), "y": torch.ones(3)}}, path, _use_new_zipfile_serialization=zipped)
        whole = path.read_bytes()
        for _ in range(150):
            path.write_bytes(whole[: draws.randrange(len(whole))])
            try:
                read(path)
            except (ModelError, KeyError) as error:
                assert isinstance(error, ModelError)
            else:
                raise AssertionError("a truncated file was read")
            damaged = bytearray(whole)
            damaged[draws.randrange(len(damaged))] = draws.randrange(256)
            path.write_bytes(damaged)
            try:
                read(path)
            except (ModelError, KeyError):  # KeyError: the name of the table in the pickle
                continue
    path.write_bytes(b"PK\3\4")
    assert "truncated or not a zip" in refusal(path)
    path.write_bytes(pickle.dumps({"model": {}}, 2))
    assert "cannot be imported" in refusal(path)
    path.unlink()
    assert "cannot be read" in refusal(path)
