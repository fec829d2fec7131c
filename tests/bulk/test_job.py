"""Blocks are published once, whoever works and dies; outputs are joined in order, or it is said what is missing."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.bulk import scan
from regard.bulk.merge import merge
from regard.bulk.scan import Block, BlockReader, blocks_of
from regard.bulk.worker import Share, parse_share
from regard.core import atomic_files
from regard.data.text_files import read_raw_lines
from regard.errors import ConfigError, DataError, RegardError, StorageError

from .helpers import BLOCK, Capitals, Killed, begin, finish, set_aside, work, write


def read(folder: Path) -> dict[str, bytes]:
    """All files of the output folder that users see."""
    return {path.name: path.read_bytes() for path in sorted((folder / "out").iterdir()) if path.is_file()}


def test_outputs_are_in_order_one_file_an_input(tmp_path: Path) -> None:
    sources = [write(tmp_path / name, count, count) for name, count in (("b.txt", 35), ("a.txt", 5), ("c.txt", 20))]
    found = finish(tmp_path, *sources)
    assert read(tmp_path) == {path.name: path.read_bytes().upper() for path in sources}
    assert found == (60, 60, 0, [])
    doing = Capitals()
    assert finish(tmp_path, *sources, doing=doing) == found and doing.calls == [], "the same command has nothing to do"
    assert sorted(path.name for path in (tmp_path / "out/.bulk").iterdir()) == ["done.json", "lock", "plan.json"]


@pytest.mark.parametrize("point", ["opened", "writing", "written", "synced", "linked", "renamed", "removed"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_kill_at_any_moment_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, count: int
) -> None:
    passed = 0

    def fault(reached: str) -> None:
        nonlocal passed
        passed += reached == point
        if reached == point and passed == count:
            raise Killed

    monkeypatch.setattr(atomic_files, "fault", fault)
    sources = [write(tmp_path / "a.txt", 25), write(tmp_path / "b.txt", 10, 2)]
    doing = Capitals()
    finish(tmp_path, *sources, doing=doing)
    assert read(tmp_path) == {path.name: path.read_bytes().upper() for path in sources}
    assert len(doing.seen) <= 35 + BLOCK


def test_workers_at_once_do_each_block_once(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", 300)
    job = begin(tmp_path, source)
    doings = [Capitals() for _ in range(4)]
    threads = [threading.Thread(target=work, args=(job, doing)) for doing in doings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(line for doing in doings for line in doing.seen) == sorted(source.read_text().splitlines())
    assert merge(job).lines == 300
    assert read(tmp_path) == {"a.txt": source.read_bytes().upper()}


def test_the_first_to_publish_wins(tmp_path: Path) -> None:
    path = tmp_path / "block"
    assert atomic_files.publish_first(path, [b"one", b" file"])
    assert not atomic_files.publish_first(path, [b"another"])
    assert path.read_bytes() == b"one file" and os.listdir(tmp_path) == ["block"]


def test_without_hard_links_a_block_is_published_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*paths: object) -> None:
        raise PermissionError(1, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    source = write(tmp_path / "a.txt", 25)
    assert finish(tmp_path, source).lines == 25


def test_a_full_disk_leaves_nothing_half_and_goes_on_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "a.txt", 25)
    job = begin(tmp_path, source)

    def full(reached: str) -> None:
        if reached == "writing":
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(StorageError, match="No space left"):
        patched.setattr(atomic_files, "fault", full)
        work(job)
    assert list((tmp_path / "out/.bulk/blocks").iterdir()) == []
    assert finish(tmp_path, source).lines == 25


def test_shards_do_their_own_and_merge_says_what_is_missing(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", 75)
    job = begin(tmp_path, source)
    doings = [Capitals() for _ in range(3)]
    for number in (1, 3):
        work(job, doings[number - 1], Share(number, 3))
    with pytest.raises(DataError, match="3 of 8 blocks are missing, with 25 lines") as caught:
        merge(job)
    assert "blocks 2, 5, 8;" in str(caught.value.why)
    work(job, doings[1], Share(2, 3))
    assert merge(job).lines == 75
    assert [len(doing.seen) for doing in doings] == [30, 25, 20]
    assert read(tmp_path) == {"a.txt": source.read_bytes().upper()}


@pytest.mark.parametrize("text", ["0/64", "65/64", "3", "a/b", "-1/4", "1/0", ""])
def test_a_shard_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_share(text)
    assert "--array=1-64" in str(caught.value.help)


def test_shards_count_from_one() -> None:
    assert [parse_share("1/64"), parse_share("64/64")] == [Share(1, 64), Share(64, 64)]


def test_an_input_that_changed_is_refused_and_one_that_was_touched_is_not(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", 25)
    job = begin(tmp_path, source)
    os.utime(source, (1, 1))
    begin(tmp_path, source)
    changed = source.read_text().replace(source.read_text().splitlines()[12], "other", 1)
    source.write_text(changed)
    with pytest.raises(DataError, match="has changed") as caught:
        begin(tmp_path, source)
    assert caught.value.where == str(source)
    with pytest.raises(DataError, match="has changed"):  # by a process that began before the change
        work(job)
    same_size = write(tmp_path / "b.txt", 25)
    begin(tmp_path / "other", same_size)
    same_size.write_text(same_size.read_text().replace("a", "z"))
    os.utime(same_size, (1, 1))
    with pytest.raises(DataError, match="has changed"):
        begin(tmp_path / "other", same_size)


def test_a_folder_of_another_job_is_refused(tmp_path: Path) -> None:
    source, other = write(tmp_path / "a.txt", 25), write(tmp_path / "b.txt", 25)
    begin(tmp_path, source)
    for paths, settings, word in (((source,), {"beam": 2}, "beam"), ((source, other), {}, "inputs")):
        with pytest.raises(ConfigError, match="another job") as caught:
            begin(tmp_path, *paths, **settings)
        assert word in str(caught.value.why)
    (tmp_path / "full/out").mkdir(parents=True)
    (tmp_path / "full/out/mine").write_text("")
    with pytest.raises(ConfigError, match="other files"):
        begin(tmp_path / "full", source)


@pytest.mark.parametrize("names", [("x/a.txt", "y/a.txt"), ("x/a.txt", "x/a.txt"), ("x/a.txt", "x/a.txt.gz")])
def test_names_that_collide_are_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    paths = [write(tmp_path / name, 5) for name in names]
    with pytest.raises(ConfigError, match="several inputs have the output"):
        begin(tmp_path, *paths)
    assert not (tmp_path / "out").exists()


def test_no_input_is_replaced(tmp_path: Path) -> None:
    source = write(tmp_path / "out/a.txt", 5)
    with pytest.raises(ConfigError, match="would replace an input"):
        begin(tmp_path, source)


def test_lines_of_all_kinds(tmp_path: Path) -> None:
    texts = {
        "empty": b"", "one": b"\n", "bare": b"a\nb", "windows": b"\xef\xbb\xbfa\r\n\r\nb\r\n", "blank": b"\n \n\na\n",
        "latin": b"gut\nsch\xf6n\nb\n",
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
    found = finish(tmp_path, *(tmp_path / name for name in texts))
    assert read(tmp_path) == {
        "bare": b"A\nB\n", "blank": b"\n \n\nA\n", "empty": b"", "latin": b"GUT\n\nB\n", "one": b"\n",
        "windows": b"A\n\nB\n", "quarantine.jsonl": (tmp_path / "out/quarantine.jsonl").read_bytes(),
    }  # fmt: skip
    assert found.named == [f"{tmp_path / 'latin'}:2: not UTF-8: byte 4 of the line is 0xf6: invalid start byte"]
    assert set_aside(tmp_path)[0]["text"] == "sch\\xf6n"


def test_packed_inputs_are_read_in_blocks_too(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", 45)
    packed = tmp_path / "packed.txt.gz"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    finish(tmp_path, source, packed)
    assert read(tmp_path)["packed.txt"] == source.read_bytes().upper()
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(DataError, match="gzip file is truncated"):
        begin(tmp_path / "other", packed)


@given(
    lines=st.lists(st.sampled_from([b"", b"a", b"bcd\r", b"\xc3\xa4" * 9]), max_size=30),
    end=st.booleans(), count=st.integers(1, 7), piece=st.integers(1, 40), largest=st.integers(1, 60),
)  # fmt: skip
def test_blocks_tile_a_file(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], end: bool, count: int, piece: int, largest: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "tiled"
    path.write_bytes(b"\n".join(lines) + (b"\n" if end and lines else b""))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scan, "PIECE", piece)
        patched.setattr(scan, "LARGEST", largest)
        found, start, first = [], 0, 1
        for size, stop, digest in blocks_of(path, count, lambda bytes: None):
            found.append(Block(len(found), 0, first, size, start, stop, digest))
            start, first = stop, first + size
    assert all(0 < block.lines <= count for block in found)
    with BlockReader([path]) as reader:
        read = [reader.lines(block) for block in found]
    assert [len(each) for each in read] == [block.lines for block in found]
    assert [line for each in read for line in each] == list(read_raw_lines(path))


def test_a_damaged_block_is_told_with_the_remedy(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", 25)
    job = begin(tmp_path, source)
    work(job)
    path = job.block_path(job.blocks[1])
    path.write_bytes(path.read_bytes().replace(b"A", b"B"))
    with pytest.raises(DataError, match="block are damaged") as caught:
        merge(job)
    assert str(caught.value.help).startswith(f"rm {path}") and not (tmp_path / "out/a.txt").exists()
    path.unlink()
    assert finish(tmp_path, source).lines == 25
    (tmp_path / "out/a.txt").write_text("short")
    with pytest.raises(DataError, match="differs from the one that this job wrote"):
        merge(job)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", json.dumps({"format": 99}).encode()])
def test_a_plan_that_cannot_be_read_is_an_error_of_words(tmp_path: Path, damage: bytes) -> None:
    source = write(tmp_path / "a.txt", 25)
    begin(tmp_path, source)
    (tmp_path / "out/.bulk/plan.json").write_bytes(damage)
    with pytest.raises(RegardError, match="cannot be read"):
        begin(tmp_path, source)


def test_half_a_record_of_the_journal_is_forgotten(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", 5)
    job = begin(tmp_path, source)
    job.claim_path(job.blocks[0]).write_bytes(b'{"begin": [0, 5]}\n{"end": [0, 5], "outp')
    doing = Capitals()
    work(job, doing)
    assert [len(call) for call in doing.calls] == [2, 3], "begun before, and never ended"
    assert merge(job).lines == 5


def test_a_worker_that_comes_after_the_end_has_nothing_to_do(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", 25)
    late = begin(tmp_path, source)
    finish(tmp_path, source)
    doing = Capitals()
    work(late, doing)
    assert doing.calls == [] and merge(late).lines == 25
