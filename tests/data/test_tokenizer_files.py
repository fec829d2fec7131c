"""Received files of tokenizers: a file decides neither memory nor time, whatever its parts say."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from tokenizers import Tokenizer as Library

from regard.data.tokenizers.catalog import load_tokenizer, train_tokenizer
from regard.data.tokenizers.sentencepiece_file import _fields, require_bounded
from regard.data.tokenizers.subword import SentencePieceTokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.data.tokenizers.tokenizer_file import PATTERNS, rebuild
from regard.errors import ModelError

LINES = ["a dog runs", "two men", "b c d e f g", "the cat sat on a mat", "über 12 x"] * 20
KINDS: dict[str, dict[str, Any]] = {
    "bpe": {"kind": "bpe", "library": "tokenizers"},
    "unigram": {"kind": "unigram", "library": "tokenizers"},
    "byte-bpe": {"kind": "byte-bpe"},
}
LETTERS, MEMORY = 5000, 300 << 20  # of a text that is encoded; bytes that a file of some kilobytes may take
EXTREMES: list[Any] = [
    None, True, False, 0, 1, -1, 10**9, 2**31, 2**63, 10**30, 1e300, -0.5, "", "a", "▁", "b" * 10_000, [], {}, [[]],
    [["a", "a"]] * 3, ["a"], {"a": 10**9}, {"type": "ByteLevel"}, {"String": "a"}, {"Regex": "(a+)+$"},
    {"Fixed": 10**9}, {"type": "NFC"}, {"type": "Replace", "pattern": {"String": "a"}, "content": "b" * 10_000},
    {"type": "Prepend", "prepend": "b" * 10_000}, {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
    {"type": "Sequence", "normalizers": [{"type": "NFKD"}] * 9},
    {"type": "Strip", "content": "a", "start": 9, "stop": 9},
    {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
     "pad_token": "<pad>"},
    {"strategy": "LongestFirst", "direction": "Right", "max_length": 10**12, "stride": 10**11},
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}] * 12},
    {"type": "Sequence", "pretokenizers": [{"type": "Sequence", "pretokenizers": []}] * 9},
    {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}] * 9, "pair": [],
     "special_tokens": {"<s>": {"id": "<s>", "ids": [2] * 9, "tokens": ["<s>"] * 9}}},
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_trained_here_is_rebuilt_as_it_was(kind: str) -> None:
    trained = train_tokenizer(LINES, TokenizerConfig(**KINDS[kind]))
    content = trained.model  # type: ignore[attr-defined]
    assert Library.from_str(rebuild(content)).to_str() == Library.from_str(content.decode()).to_str()


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to every value of a tree; of lists and long tables the first and the last."""
    keys = list(tree if isinstance(tree, dict) else range(len(tree)))
    for key in dict.fromkeys([keys[0], keys[-1]] if keys and (isinstance(tree, list) or len(keys) > 12) else keys):
        yield (*path, key)
        if isinstance(tree[key], dict | list):
            yield from places(tree[key], (*path, key))


def changes(content: bytes) -> Iterator[bytes]:
    """Each value of a file replaced by each extreme, and each key taken out or joined by an unknown one."""
    for path in places(json.loads(content)):
        for value in [*EXTREMES, ...]:
            tree = json.loads(content)
            inner = tree
            for key in path[:-1]:
                inner = inner[key]
            if value is ...:
                del inner[path[-1]]
            else:
                inner[path[-1]] = value
            yield json.dumps(tree).encode()


CHILD = """
import hashlib, json, os, resource, sys
from pathlib import Path
from regard.data.tokenizers.catalog import load_tokenizer
from regard.errors import RegardError
folder, letters, memory = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
load_tokenizer(folder, "x").encode("a")
head = json.loads((folder / "x.json").read_text())
had = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
resource.setrlimit(resource.RLIMIT_AS, (had + memory, had + memory))
texts, counts = ["a" * letters, "a " * (letters // 2), "ü" * (letters // 2), "<s>" * (letters // 3)], [0, 0]
for number, content in enumerate(open(sys.argv[4], "rb")):
    print(number, flush=True, file=sys.stderr)
    content = content.removesuffix(b"\\n")
    (folder / "x.tokenizer.json").write_bytes(content)
    head["files"] = {"tokenizer.json": hashlib.sha256(content).hexdigest()}
    (folder / "x.json").write_text(json.dumps(head))
    try:
        tokenizer = load_tokenizer(folder, "x")
        pieces = tokenizer.encode_lines(texts)
        assert all(len(line) <= 4 * letters for line in pieces), f"{number}: the text grew"
        assert all(len(tokenizer.decode(line)) <= 4 * letters for line in pieces), f"{number}: the text grew"
        counts[0] += 1
    except RegardError:
        counts[1] += 1
print(*counts)
"""


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_at_every_extreme_is_harmless_or_refused(tmp_path: Path, kind: str) -> None:
    """In a process of its own, which the library may end."""
    trained = train_tokenizer(LINES, TokenizerConfig(**KINDS[kind]))
    trained.save(tmp_path, "x")
    cases = list(changes(trained.model))  # type: ignore[attr-defined]
    (tmp_path / "cases").write_bytes(b"\n".join(cases))
    arguments = [sys.executable, "-c", CHILD, *map(str, (tmp_path, LETTERS, MEMORY, tmp_path / "cases"))]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
    last = done.stderr.splitlines()[-1:]
    shown = cases[int(last[0])][:2000] if last and last[0].isdigit() else b""
    assert done.returncode == 0, f"{done.stderr[-2000:]}\n{shown!r}"
    read, refused = map(int, done.stdout.split())
    assert read + refused == len(cases) and read > 20 and refused > 500


def sealed(folder: Path, change: dict[str, Any]) -> None:
    """Change a saved tokenizer and the sha256 beside it, as somebody who means harm does."""
    path, head = folder / "x.tokenizer.json", json.loads((folder / "x.json").read_text())
    content = json.dumps(json.loads(path.read_text()) | change).encode()
    path.write_bytes(content)
    (folder / "x.json").write_text(
        json.dumps(head | {"files": {"tokenizer.json": hashlib.sha256(content).hexdigest()}})
    )


@pytest.mark.parametrize(
    "change",
    [
        {"padding": {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                     "pad_type_id": 0, "pad_token": "<pad>"}},
        {"normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": "b" * 10_000}},
        {"truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}},
        {"post_processor": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}},
        {"decoder": {"type": "Replace", "pattern": {"String": "a"}, "content": "b" * 10_000}},
        {"another": 1},
    ],
    ids=["padding", "normalizer", "truncation", "post_processor", "decoder", "unknown key"],
)  # fmt: skip
def test_parts_that_decide_memory_are_refused_by_name(
    tmp_path: Path, change: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    train_tokenizer(LINES, TokenizerConfig(kind="byte-bpe")).save(tmp_path, "x")
    sealed(tmp_path, change)
    with pytest.raises(ModelError, match=next(iter(change))) as caught:
        load_tokenizer(tmp_path, "x")
    assert caught.value.where == str(tmp_path / "x.tokenizer.json")


def split_by(pattern: str) -> bytes:
    content = json.loads(train_tokenizer(LINES, TokenizerConfig(kind="byte-bpe")).model)  # type: ignore[attr-defined]
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    bytes_of = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, bytes_of]}
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    "pattern",
    [*sorted(PATTERNS), r"\p{N}", r"\p{N}{1,3}", r"x?\|{2}y+|z",
      r"[\r\n]", r"\s?\p{L}+", r"[0-9][0-9][0-9]", r"[一-龥ࠀ-一]+", r"a|b?c*", r"\d+"],
)  # fmt: skip
def test_patterns_of_known_time_are_read(pattern: str) -> None:
    """What each alternative repeats without limit is its last part, so that nothing is tried twice."""
    library = Library.from_str(rebuild(split_by(pattern)))
    assert library.encode("the cat  12345 sat!\n").ids


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "a?" * 30 + "a" * 30, "a{0,9}" * 4 + "b", "|a", "a|", "a||b", "a+b|c+", r"\s*\s*\s*x", "a*b", r"(\w+)\1",
     "(?:a|a)*c", r"(?<=a+)b", r"(?R)", "a{1,9999}b", "a++", r"\g<0>", "x+?y", "", "[[a]]"],
)  # fmt: skip
def test_patterns_of_unknown_time_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="unsupported pattern"):
        rebuild(split_by(pattern))


def pieces_model(**options: Any) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, model_type="unigram", vocab_size=60, hard_vocab_limit=False,
        minloglevel=2, **options,
    )  # fmt: skip
    return model.getvalue()


@pytest.mark.parametrize("rule", ["identity", "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf"])
def test_the_library_s_own_tables_of_replacements_are_read(rule: str) -> None:
    require_bounded(pieces_model(normalization_rule_name=rule))


def test_a_letter_that_becomes_a_long_text_is_refused(tmp_path: Path) -> None:
    """One letter in, ten thousand out: a line of 5,000 would take 50 megabytes."""
    for length, bounded in ((9, True), (10_000, False)):
        (tmp_path / "rules.tsv").write_text("61\t" + " ".join(["62"] * length) + "\n")
        model = pieces_model(normalization_rule_tsv=str(tmp_path / "rules.tsv"))
        if bounded:
            require_bounded(model)
        else:
            with pytest.raises(ValueError, match="replaces a letter"):
                require_bounded(model)


def message(field: int, content: bytes) -> bytes:
    """A field of Protocol Buffers whose content is bytes."""
    length, size = len(content), b""
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([field << 3 | 2]) + size + bytes([length]) + content


def test_an_index_that_leads_out_of_its_table_is_refused_by_the_library() -> None:
    """The table says where in it a replacement stands; ``SentencePieceTokenizer`` relies on the check."""
    model = pieces_model(normalization_rule_name="nmt_nfkc")
    table = next(
        content for _, part in _fields(model) for field, content in _fields(part) if field == 2 and len(content) > 10**5
    )
    SentencePieceTokenizer(TokenizerConfig(kind="unigram"), model)
    far = table[:4] + (1 << 30).to_bytes(4, "little") + table[8:]
    with pytest.raises(ValueError, match="not a SentencePiece model"):
        SentencePieceTokenizer(TokenizerConfig(kind="unigram"), model.replace(table, far))


def test_a_long_piece_is_refused() -> None:
    with pytest.raises(ValueError, match="a piece"):
        require_bounded(message(1, message(1, b"a" * 1025)))
    require_bounded(message(1, message(1, b"a" * 1024)))
    with pytest.raises(ValueError, match="truncated"):
        require_bounded(message(1, message(1, b"a" * 1024))[:-1])
