"""Changes of files at random: torn bytes, extreme numbers, and values of JSON, TOML and safetensors replaced."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import tomllib
import zipfile
from collections.abc import Iterator
from typing import Any

import tomli_w

VALUES: list[Any] = [
    None, True, -1, 0, 1, 2, 2.5, float("inf"), float("nan"), 10**30, 1 << 62, 10**9, "", "a", "x" * 1000, "\ud800",
    "../../etc/passwd", "\0", "O", [], {}, [[]], [0] * 100, {"a": 1},
]  # fmt: skip
NUMBERS = ["0", "-1", "1", "1000000000", "9223372036854775807", "1e999", "-1e999", "nan", "0.0000001", "9" * 400, ""]
TEXTS = ("csv", "tsv", "txt", "jsonl", "json", "conllu", "fasta")
WHOLE: list[bytes] = [
    b"", b"[" * 100_000, b"[]", b"{}", b"null", b'"x"', b"1e999", b"9" * 5000, b"\xff\xfe", b"\x00" * 64, b"a." * 5000,
    b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.", b'{"a":' * 100_000,
]  # fmt: skip


def changed(name: str, whole: bytes, draw: random.Random) -> bytes:
    """A file with one change: of what is packed in it, of a value of its format, of a number, or of its bytes."""
    kind = name.rpartition(".")[2]
    if kind == "gz" and draw.random() < 0.5:
        return gzip.compress(changed(name.removesuffix(".gz"), gzip.decompress(whole), draw), mtime=0)
    if kind == "npz" and draw.random() < 0.5:
        return with_a_member_changed(whole, draw)
    if kind == "json" and draw.random() < 0.8:
        return structured(json.loads(whole), draw)
    if kind == "jsonl" and draw.random() < 0.8:
        lines = whole.splitlines()
        lines[draw.randrange(len(lines))] = structured(json.loads(draw.choice(lines)), draw)
        return b"\n".join(lines) + b"\n"
    if kind == "toml" and draw.random() < 0.9:
        tree = replaced(tomllib.loads(whole.decode()), draw, [each for each in VALUES if each is not None])
        return tomli_w.dumps(tree).encode("utf-8", "surrogatepass")
    if kind == "safetensors" and draw.random() < 0.7:
        size = int.from_bytes(whole[:8], "little")
        header = structured(json.loads(whole[8 : 8 + size]), draw)
        return len(header).to_bytes(8, "little") + header + whole[8 + size :]
    how = draw.random()
    if how < 0.2 and kind in TEXTS:
        return with_a_number_changed(whole, draw)
    if how < 0.2:
        return with_a_binary_number_changed(whole, draw)
    return torn(whole, draw)


def with_a_member_changed(whole: bytes, draw: random.Random) -> bytes:
    """A zip file with one member torn, or written twice, or left out; its checksums are right."""
    with zipfile.ZipFile(io.BytesIO(whole)) as packed:
        members = {name: packed.read(name) for name in packed.namelist()}
    name, how = draw.choice(list(members)), draw.random()
    if how < 0.1:
        del members[name]
    else:
        members[name] = torn(members[name], draw) if how < 0.6 else with_a_number_changed(members[name], draw)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", draw.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as packed:
        for each, data in members.items():
            packed.writestr(each, data)
    return content.getvalue()


def with_a_number_changed(whole: bytes, draw: random.Random) -> bytes:
    """One written number replaced by an extreme one."""
    places = list(re.finditer(rb"-?\d+(?:\.\d+)?", whole))
    if not places:
        return torn(whole, draw)
    place = draw.choice(places)
    return whole[: place.start()] + draw.choice(NUMBERS).encode() + whole[place.end() :]


def with_a_binary_number_changed(whole: bytes, draw: random.Random) -> bytes:
    """One, two, four or eight bytes replaced by an extreme number, in either order of bytes."""
    size = draw.choice([1, 2, 4, 8])
    if len(whole) < size:
        return torn(whole, draw)
    number = draw.choice(
        [0, 1, (1 << 8 * size) - 1, (1 << 8 * size - 1) - 1, 1 << 8 * size - 1, 10**9 % (1 << 8 * size)]
    )
    place = draw.randrange(len(whole) - size + 1)
    return whole[:place] + number.to_bytes(size, draw.choice(["little", "big"])) + whole[place + size :]


def torn(whole: bytes, draw: random.Random) -> bytes:
    data = bytearray(whole)
    how, at = draw.randrange(5), draw.randrange(max(len(data), 1))
    if how == 0:
        return bytes(data[:at])
    if how == 1:
        return bytes(data[:at]) + draw.randbytes(draw.choice([1, 8, 100])) + bytes(data[at:])
    if how == 2:
        return bytes(data + data)
    for _ in range(1 if how == 3 else 20):
        at = draw.randrange(len(data))
        data[at : at + 1] = draw.choice([b"\0", b"\xff", b"\x7f", b"\x80", bytes([data[at] ^ 1 << draw.randrange(8)])])
    return bytes(data)


def structured(tree: Any, draw: random.Random) -> bytes:
    text = json.dumps(replaced(tree, draw, VALUES))
    return text.replace("Infinity", "1e999").encode() if draw.random() < 0.5 else text.encode()


def replaced(tree: Any, draw: random.Random, values: list[Any]) -> Any:
    """One value anywhere in it taken out, or replaced."""
    places = list(inside(tree))
    if not places:
        return draw.choice(values)
    container, key = draw.choice(places)
    how = draw.random()
    if how < 0.15:
        del container[key]
    elif how < 0.2 and isinstance(container, dict):
        container["another"] = draw.choice(values)
    else:
        container[key] = draw.choice(values)
    return tree


def inside(tree: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
        yield tree, key
        if isinstance(value, dict | list):
            yield from inside(value)
