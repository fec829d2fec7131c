"""Folders of Marian models that are broken, hostile or cannot be ours are told apart, and nothing is left behind."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from pydantic import ValidationError

from regard.attention.positions.absolute import sinusoids
from regard.config.settings import SearchConfig
from regard.data.tokenizers.catalog import load_tokenizer, train_tokenizer
from regard.data.tokenizers.subword import MarianTokenizer
from regard.data.tokenizers.tokenizer import UNKNOWN, TokenizerConfig
from regard.errors import ConfigError, ModelError, RegardError
from regard.share.import_marian import import_marian
from regard.share.marian import sines_first
from regard.tasks.translation.translator import load

from .test_marian import THEIRS, WORDS, pieces_of, vocabulary, write_plain

LISTED = TokenizerConfig(kind="listed")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, pieces = tmp_path_factory.mktemp("whole"), pieces_of(WORDS)
    numbers = vocabulary([pieces, pieces])
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(pieces.model)
    (folder / "vocab.json").write_text(json.dumps(numbers))
    pad = numbers["<pad>"]
    write_plain(folder, THEIRS | {"vocab_size": len(numbers), "pad_token_id": pad, "decoder_start_token_id": pad})
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "theirs"))


def config(**values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


def text(name: str, content: str | bytes) -> Callable[[Path], None]:
    return lambda folder: (
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode()) and None
    )


def gone(name: str, instead: str | None = None) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        if instead is not None:
            (folder / instead).touch()

    return change


def pipe(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return change


def tensors(**values: torch.Tensor | None) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "model.safetensors"
        found: dict[str, Any] = safetensors.torch.load_file(path) | {
            name.replace("__", "."): x for name, x in values.items()
        }
        safetensors.torch.save_file({name: x for name, x in found.items() if x is not None}, path)

    return change


def pieces(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        path = folder / "vocab.json"
        found = json.loads(path.read_text())
        change(found)
        path.write_text(json.dumps(found))

    return changed


REFUSED: list[tuple[str, Callable[[Path], None], str]] = [
    ("no config", gone("config.json"), "config.json cannot be read"),
    ("config is a list", text("config.json", "[]"), "it is not a JSON object"),
    ("config is torn", text("config.json", '{"model_type'), "config.json"),
    ("config without an end", text("config.json", "[" * 100_000), "config.json"),
    ("config of a gigabyte", text("config.json", b" " * ((1 << 20) + 1)), "more than 1,048,576 bytes"),
    ("another kind of model", config(model_type="bart"), "model_type"),
    ("norms before", config(normalize_before=True), "pre-norm"),
    ("unscaled", config(scale_embedding=False), "not scaled"),
    ("another activation", config(activation_function="tanh"), "activation is tanh"),
    ("heads differ", config(decoder_attention_heads=2), "differ in their number of heads"),
    ("feed-forwards differ", config(decoder_ffn_dim=99), "differ in feed-forward width"),
    ("heads do not divide", config(encoder_attention_heads=3, decoder_attention_heads=3), "does not divide"),
    ("layers without end", config(encoder_layers=10**9), "encoder_layers"),
    ("more layers than there are", config(encoder_layers=900), "the tensor model.encoder.layers.2."),
    ("a width for no memory", config(d_model=1 << 20), "has the shape"),
    ("pieces for no memory", config(vocab_size=1 << 24, decoder_vocab_size=1 << 24), "each once"),
    ("a beam for no memory", config(num_beams=10**6), "num_beams"),
    ("not a number", config(dropout=float("nan")), "dropout"),
    ("no weights", gone("model.safetensors"), "has no model.safetensors"),
    ("a pickle", gone("model.safetensors", "pytorch_model.bin"), "is a pickle"),
    ("several files", gone("model.safetensors", "model.safetensors.index.json"), "in several files"),
    ("weights are text", text("model.safetensors", "not tensors"), "model.safetensors"),
    ("a header without end", text("model.safetensors", b"\xff" * 64), "model.safetensors"),
    ("another shape", tensors(model__shared__weight=torch.zeros(4, 16)), "model.shared.weight has the shape"),
    ("whole numbers", tensors(model__encoder__layers__0__fc1__bias=torch.zeros(24, dtype=torch.int8)), "type I8"),
    ("a tensor missing", tensors(model__decoder__layers__1__fc2__bias=None), "the tensor model.decoder.layers.1.fc2"),
    ("a tensor too many", tensors(model__encoder__layernorm_embedding__weight=torch.ones(16)), "not part of such"),
    ("other positions", tensors(model__encoder__embed_positions__weight=torch.zeros(64, 16)), "not a table of"),
    ("positions without rows", tensors(model__encoder__embed_positions__weight=torch.tensor(1.0)), "expected 2 dim"),
    ("a short bias", tensors(final_logits_bias=torch.zeros(1, 5)), "final_logits_bias has the shape"),
    ("no list", gone("vocab.json"), "vocab.json cannot be read"),
    ("a number twice", pieces(lambda found: found.update({"<unk>": 0})), "each once"),
    ("a number too high", pieces(lambda found: found.update({"<unk>": 10**9})), "each once"),
    ("no number", pieces(lambda found: found.update({"<unk>": True})), "each once"),
    ("no unknown", pieces(lambda found: found.pop("<unk>")), "the piece <unk> is missing"),
    ("half a character", pieces(lambda found: found.update({"\ud800": found.pop(">>deu<<")})), "half of a surrogate"),
    ("another end", config(eos_token_id=5), "differ from config.json"),
    ("no beginning", config(decoder_start_token_id=10**6), "decoder_start_token_id"),
    ("no tokenizer", gone("source.spm"), "source.spm cannot be read"),
    ("another tokenizer", text("target.spm", "no pieces"), "target.spm"),
    ("a tokenizer of nothing", text("source.spm", ""), "not a SentencePiece model"),
    ("a pipe", pipe("vocab.json"), "not a regular file"),
    ("a folder", lambda folder: (gone("vocab.json")(folder), (folder / "vocab.json").mkdir()) and None, "regular file"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "told"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_it_is_refused_with_the_reason(folder: Path, tmp_path: Path, change: Callable[[Path], None], told: str) -> None:
    change(folder)
    with pytest.raises(ModelError) as failure:
        import_marian(folder, tmp_path / "run")
    assert told in str(failure.value), failure.value
    assert failure.value.where and str(folder) in failure.value.where
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"], "nothing half made is left"


TABLE = sines_first(sinusoids(torch.arange(64), 16), 1)
ACCEPTED: list[tuple[str, Callable[[Path], None]]] = [
    ("tables of positions", tensors(model__decoder__embed_positions__weight=TABLE.half())),
    ("tables in fewer bits", tensors(model__encoder__embed_positions__weight=TABLE.bfloat16())),
    ("the output beside the table it is", tensors(lm_head__weight=torch.zeros(3, 16))),
    ("no bias", tensors(final_logits_bias=None)),
    ("a length penalty beyond all", config(length_penalty=400)),
    ("a length penalty below zero", config(length_penalty=-1.0)),
    ("a length penalty without end", config(length_penalty=float("inf"))),
    ("null is what is not given", config(decoder_vocab_size=None, num_beams=None)),
]  # fmt: skip


@pytest.mark.parametrize("change", [case[1] for case in ACCEPTED], ids=[case[0] for case in ACCEPTED])
def test_it_is_accepted(folder: Path, tmp_path: Path, change: Callable[[Path], None]) -> None:
    change(folder)
    import_marian(folder, tmp_path / "run")
    assert load(tmp_path / "run", device="cpu").translate(["the cat sat"])[0].candidates


@pytest.mark.parametrize(("given", "kept"), [(400, 1.0), (-1.0, 1.0), (10.5, 1.0), (0.0, 0.0), (10, 10.0)])
def test_a_length_penalty_is_within_bounds(folder: Path, tmp_path: Path, given: float, kept: float) -> None:
    config(length_penalty=given)(folder)
    assert import_marian(folder, tmp_path / "run").config.search.length_penalty == kept


@pytest.mark.parametrize(("given", "kept"), [(True, True), (False, False), ("never", False), (None, False)])
def test_a_beam_stops_as_it_did(folder: Path, tmp_path: Path, given: bool | str | None, kept: bool) -> None:
    config(early_stopping=given)(folder)
    assert import_marian(folder, tmp_path / "run").config.search.early_stopping is kept


def test_a_search_has_bounds_too() -> None:
    assert SearchConfig(length_penalty=10).length_penalty == 10
    with pytest.raises(ValidationError):
        SearchConfig(length_penalty=400)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("en", "en"), ("eng", "en"), ("deu", "de"), ("zho", "zh"), ("ast", "ast"), ("pt_BR", "pt-BR"),
        ("por_BR", "pt-BR"), ("gem", None), ("mul", None), ("roa", None), ("ROMANCE", None), ("deu+fra", None),
        ("", None),
    ],
)  # fmt: skip
def test_codes_of_languages_are_ours_and_groups_are_none(
    folder: Path, tmp_path: Path, theirs: str, ours: str | None
) -> None:
    text("tokenizer_config.json", json.dumps({"source_lang": theirs, "target_lang": "en"}))(folder)
    data = import_marian(folder, tmp_path / "run").config.data
    assert (data.source_language, data.target_language) == (ours, "en")


def test_the_output_may_stand_for_the_table_it_is(folder: Path, tmp_path: Path) -> None:
    table: torch.Tensor = safetensors.torch.load_file(folder / "model.safetensors")["model.shared.weight"]
    spoken = {"model__encoder__embed_tokens__weight": table, "model__decoder__embed_tokens__weight": table + 1}
    tensors(model__shared__weight=None, **spoken)(folder)
    config(share_encoder_decoder_embeddings=False)(folder)
    shutil.copy(folder / "vocab.json", folder / "target_vocab.json")
    import_marian(folder, tmp_path / "one")
    tensors(model__decoder__embed_tokens__weight=None, lm_head__weight=table + 1)(folder)
    import_marian(folder, tmp_path / "other")
    found = [dict(load(tmp_path / name, device="cpu").model.named_parameters()) for name in ("one", "other")]
    assert found[0].keys() == found[1].keys()
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_every_part_of_a_long_line_has_its_mark(folder: Path, tmp_path: Path) -> None:
    import_marian(folder, tmp_path / "run")
    of = load(tmp_path / "run", device="cpu")
    (mark,) = of.source.encode(">>deu<<")
    for line in ("the cat sat on a mat " * 40, "thecatsatonamat" * 40):
        plain, marked = of.parts(line), of.parts(f">>deu<< {line}")
        assert len(plain) > 1 and all(mark not in part for part in plain)
        assert all(part[0] == mark and mark not in part[1:] and 1 < len(part) <= of.max_length for part in marked)
        assert [piece for part in marked for piece in part[1:]] == [piece for part in plain for piece in part]
    assert of.parts(">>deu<< the cat") == [[mark, *of.source.encode("the cat")]]
    assert of.parts(">>deu<<") == [[mark]] and of.parts(" ") == []


def test_an_imported_run_has_nothing_to_learn_from(folder: Path, tmp_path: Path) -> None:
    from regard.training.setup import set_up

    run = import_marian(folder, tmp_path / "run")
    with pytest.raises(ConfigError, match="names no training data"):
        set_up(run, log=lambda message: None)


def test_two_lists_that_are_not_one_are_told(folder: Path, tmp_path: Path) -> None:
    import_marian(folder, tmp_path / "run")
    head = tmp_path / "run" / "tokenizer" / "target.json"
    found = json.loads(head.read_text())
    head.write_text(json.dumps(found | {"pieces": found["pieces"][:-1]}))
    with pytest.raises(ModelError, match="the tokenizers do not match the config of the run"):
        load(tmp_path / "run", device="cpu")


def test_pieces_of_a_list_have_its_numbers(tmp_path: Path) -> None:
    model = pieces_of(WORDS).model
    own = MarianTokenizer(LISTED, model, [">>de<<", "▁the", "▁cat", "▁zzz"])
    assert len(own) == 8
    assert own.encode_lines([">>de<< the cat", "the", ""]) == [[4, 5, 6], [5], []]
    assert own.encode(">>fr<< the") == [UNKNOWN, 5] and own.encode_lines([]) == []
    assert set(own.encode("dog >>de<<")) == {UNKNOWN}
    assert own.decode([5, 7, UNKNOWN, 6, 3, 5]) == "the zzz cat"
    assert own.pieces([1, 4, 7]) == ["<unk>", ">>de<<", "▁zzz"]
    own.save(tmp_path, "source")
    back = load_tokenizer(tmp_path, "source")
    assert back.digest() == own.digest() and back.encode("the cat") == [5, 6]


def test_a_list_is_not_trained() -> None:
    with pytest.raises(RegardError, match="part of an imported model"):
        train_tokenizer(["a b c"], LISTED)
