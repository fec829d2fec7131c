"""A file or folder is the old one or the new one, whatever happens while it is written."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.core import atomic_files
from regard.errors import StorageError


class Killed(BaseException):
    """Stands for kill -9: no code of ours runs after it, but what Python itself closes."""


def kill_at(count: int) -> Callable[[str], None]:
    left = count

    def fault(point: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed(point)

    return fault


def points_of(action: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    points: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(atomic_files, "fault", points.append)
        action()
    return points


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_atomic_write_replaces_the_bytes_and_leaves_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "best.json"
    for data in (b"old", b"", b"x" * (atomic_files.CHUNK * 2 + 1)):
        atomic_files.write_bytes_atomically(file, data)
        assert file.read_bytes() == data
    assert names(tmp_path) == ["best.json"]


def test_written_files_have_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    atomic_files.write_bytes_atomically(tmp_path / "file", b"1")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_json_keeps_any_text(tmp_path: Path) -> None:
    value = {"name": "für 翻訳 \udc80", "number": 0.1}  # a file name that is not UTF-8 holds such a surrogate
    atomic_files.write_json(tmp_path / "file.json", value)
    assert json.loads((tmp_path / "file.json").read_bytes()) == value
    assert "für 翻訳" in (tmp_path / "file.json").read_text(encoding="utf-8")


def test_a_kill_at_every_moment_of_a_file_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = b"new" * atomic_files.CHUNK
    moments = points_of(lambda: atomic_files.write_bytes_atomically(tmp_path / "trial", new), monkeypatch)
    assert {"opened", "writing", "written", "synced", "renamed", "folder-synced"} <= set(moments)
    file = tmp_path / "file"
    seen = set()
    for count in range(1, len(moments) + 1):
        file.write_bytes(b"old")
        with monkeypatch.context() as patch:
            patch.setattr(atomic_files, "fault", kill_at(count))
            with pytest.raises(Killed):
                atomic_files.write_bytes_atomically(file, new)
        assert file.read_bytes() in (b"old", new)
        seen.add(file.read_bytes())
    assert seen == {b"old", new}


KILLED = """
import os, signal, sys
from pathlib import Path
from regard.core import atomic_files

assert "torch" not in sys.modules
moments = iter(range(1, {moment}))
atomic_files.fault = lambda point: next(moments, None) or os.kill(os.getpid(), signal.SIGKILL)
atomic_files.write_bytes_atomically(Path(sys.argv[1]), b"new")
print("survived")
"""


@pytest.mark.parametrize("moment", [1, 3, 4, 5])
def test_a_real_kill_in_a_process_of_its_own(tmp_path: Path, moment: int) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    program = KILLED.format(moment=moment)
    environment = {**os.environ, "PYTHONPATH": str(Path(atomic_files.__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", program, str(file)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGKILL, "", "")
    assert file.read_bytes() == (b"old" if moment <= 4 else b"new")


def test_every_file_is_synced_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary, final = tmp_path / ".run.tmp", tmp_path / "run"
    (temporary / "deep").mkdir(parents=True)
    for name in ("a", "deep/b"):
        (temporary / name).write_text(name)  # as a library would write it, without a sync of its own
    inodes = {path.stat().st_ino for path in (temporary, *temporary.rglob("*"))}
    log: list[object] = []
    note: Callable[[object], object] = log.append
    sync, rename = os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda fd: (note(os.fstat(fd).st_ino), sync(fd)))
    monkeypatch.setattr(os, "rename", lambda *paths: (note("rename"), rename(*paths)))
    atomic_files.commit_folder(temporary, final)
    moment = log.index("rename")
    assert inodes <= set(log[:moment]), "renamed before its data was on the disk"
    assert tmp_path.stat().st_ino in log[moment:], "the rename itself was not synced"
    assert (final / "deep" / "b").read_text() == "deep/b"


def test_an_atomic_write_syncs_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[object] = []
    note: Callable[[object], object] = log.append
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (note("sync"), sync(fd)))
    monkeypatch.setattr(os, "replace", lambda *paths: (note("rename"), replace(*paths)))
    atomic_files.write_bytes_atomically(tmp_path / "file", b"new")
    assert log == ["sync", "rename", "sync"]


def make_folder(path: Path, text: str) -> Path:
    path.mkdir()
    for name in ("one", "two"):
        (path / name).write_text(text)
    return path


def content(path: Path) -> dict[str, str] | None:
    return {each.name: each.read_text() for each in path.iterdir()} if path.exists() else None


def test_a_kill_at_every_moment_of_replacing_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(place: Path) -> tuple[Path, Path]:
        place.mkdir()
        return make_folder(place / ".run.tmp", "new"), make_folder(place / "run", "old")

    trial = prepare(tmp_path / "trial")
    moments = points_of(lambda: atomic_files.commit_folder(*trial), monkeypatch)
    assert {"set-aside", "renamed", "parent-synced", "old-removed"} <= set(moments)
    old, new = (dict.fromkeys(("one", "two"), text) for text in ("old", "new"))
    assert content(trial[1]) == new
    seen = []
    for count in range(1, len(moments) + 1):
        temporary, final = prepare(tmp_path / str(count))
        with monkeypatch.context() as patch:
            patch.setattr(atomic_files, "fault", kill_at(count))
            with pytest.raises(Killed):
                atomic_files.commit_folder(temporary, final)
        atomic_files.sweep(final.parent)
        assert names(final.parent) == ["run"], f"left behind after {moments[count - 1]}"
        assert content(final) in (old, new)
        seen.append(content(final))
    assert old in seen and new in seen


def test_sweep_spares_every_other_hidden_file(tmp_path: Path) -> None:
    for name in (".DS_Store", ".gitignore", "file.tmp"):
        (tmp_path / name).touch()
    atomic_files.sweep(tmp_path)
    assert names(tmp_path) == [".DS_Store", ".gitignore", "file.tmp"]


def test_remove_folder_hides_it_before_its_first_file_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_folder(tmp_path / "run", "text")
    with monkeypatch.context() as patch:
        patch.setattr(atomic_files, "fault", kill_at(1))
        with pytest.raises(Killed):
            atomic_files.remove_folder(folder)
    assert not folder.exists() and content(tmp_path / ".run.removed") == {"one": "text", "two": "text"}
    atomic_files.sweep(tmp_path)
    assert names(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    atomic_files.hidden_sibling(file, "tmp").symlink_to("/dev/full")  # the kernel itself answers ENOSPC
    with pytest.raises(StorageError) as caught:
        atomic_files.write_bytes_atomically(file, b"new")
    assert str(file) in caught.value.what and os.strerror(errno.ENOSPC) in caught.value.what
    assert "free space" in (caught.value.help or "") and caught.value.exit_code == 6
    assert file.read_bytes() == b"old" and names(tmp_path) == ["file"]


def test_a_write_cut_short_by_the_system_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (atomic_files.CHUNK + 5, hard))  # the second chunk fits only in part
    try:
        with pytest.raises(StorageError):
            atomic_files.write_bytes_atomically(file, b"x" * (2 * atomic_files.CHUNK))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.read_bytes() == b"old" and names(tmp_path) == ["file"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM])
def test_what_the_machine_refuses_has_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number), str(tmp_path / "file"))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StorageError) as caught:
        atomic_files.write_json(tmp_path / "file", {})
    assert caught.value.help == atomic_files.HELP[number] and caught.value.where == str(tmp_path / "file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StorageError):
            atomic_files.write_json(tmp_path / "file", {})
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize(("parent", "remedy"), [("missing", "mkdir -p"), ("file", "part of the path is a file")])
def test_a_folder_that_is_none_is_named_as_its_user_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parent: str, remedy: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    path = Path(parent, "page.html")
    for write in (
        lambda: atomic_files.write_bytes_atomically(path, b""),
        lambda: atomic_files.replacing(path).__enter__(),
    ):
        with pytest.raises(StorageError) as caught:
            write()
        assert caught.value.where == str(path)
        assert remedy in str(caught.value.help)


def test_sha256_is_that_of_the_standard(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")  # FIPS 180-4, example B.1
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert atomic_files.sha256(tmp_path / "abc") == expected
