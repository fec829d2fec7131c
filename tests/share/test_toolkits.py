"""Checkpoints of other translation toolkits become runs whose log-probabilities are those of torch's own layers."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from regard.errors import ModelError
from regard.share.import_folder import import_folder
from regard.tasks.load import load

pytest.importorskip("yaml", reason="the settings of Joey NMT and Sockeye are YAML")

from tests.share.toolkit_checkpoints import (
    SOURCE,
    TARGET,
    Reference,
    save,
    write_fairseq,
    write_joeynmt,
    write_opennmt,
    write_sockeye,
)

load_saved: Any = torch.load  # noqa: TID251 - of files that the test wrote


class Case(NamedTuple):
    """A writer of a checkpoint, the ids of padding, unknown, begin and end, and whether sources have an end."""

    write: Callable[[Path], Reference]
    specials: tuple[int, int, int, int]
    source_end: bool = True


JOEY = (1, 0, 2, 3)
CASES = {
    "joeynmt-pre": Case(partial(write_joeynmt, pre=True, scaled=True), JOEY),
    "joeynmt-post-unscaled": Case(partial(write_joeynmt, pre=False, scaled=False), JOEY),
    "joeynmt-tied-unscaled": Case(partial(write_joeynmt, pre=True, scaled=False, share=True), JOEY),
    "fairseq-pre": Case(partial(write_fairseq, pre=True, zipped=True), (1, 3, 2, 2)),
    "fairseq-post-legacy": Case(partial(write_fairseq, pre=False, zipped=False), (1, 3, 2, 2)),
    "opennmt": Case(partial(write_opennmt, bias=True), JOEY, source_end=False),
    "opennmt-unbiased": Case(partial(write_opennmt, bias=False), JOEY, source_end=False),
    "sockeye-pre": Case(partial(write_sockeye, pre=True), (0, 1, 2, 3)),
    "sockeye-post": Case(partial(write_sockeye, pre=False), (0, 1, 2, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_log_probabilities_are_those_of_the_checkpoint(name: str, tmp_path: Path) -> None:
    case, folder = CASES[name], tmp_path / "theirs"
    folder.mkdir()
    torch.manual_seed(3)
    reference = case.write(folder)
    model = load(import_folder(folder, tmp_path / "run").path, device="cpu")
    shared = "tied" in name
    pieces = SOURCE if shared else TARGET
    _, _, begin, end = case.specials
    for source, target in (([0, 3, 7], [1, 0, 4]), ([5], [9, 9]), ([2, 2, 11, 4, 0, 1], [])):
        lines = " ".join(SOURCE[n] for n in source), " ".join(pieces[n] for n in target)
        first, second = model.source.encode(lines[0]), model.target.encode(lines[1])
        ours = model.log_probabilities([first], [second])[0]
        ids = [n + 4 for n in source] + ([end] if case.source_end else [])
        theirs = reference.log_p(ids, [begin, *(n + 4 for n in target)])
        order = [model.target.encode(piece)[0] for piece in pieces]
        assert torch.allclose(ours[:, order], theirs[:, 4:], rtol=0, atol=1e-5)
        assert torch.allclose(ours[:, 3], theirs[:, end], rtol=0, atol=1e-5), "the end symbol"
        if case.source_end is False:
            padded = model.log_probabilities([first, [*first, *first]], [second, second])[0]
            assert torch.allclose(padded, ours, rtol=0, atol=1e-5), "a longer source next to it changes nothing"
    assert model.translate(["s1 s2"])[0].text == model.translate(["s1 s2", "s3"])[0].text


def refusal(folder: Path, path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        import_folder(folder, path)
    assert not path.exists()
    return str(caught.value)


def test_a_refusal_names_all_obstacles(tmp_path: Path) -> None:
    folder = tmp_path / "joey"
    folder.mkdir()
    write_joeynmt(folder, pre=True, scaled=True)
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("type: transformer", "type: recurrent\n    alpha: 0.5"))
    message = refusal(folder, tmp_path / "run")
    for part in ("encoder is recurrent", "decoder is recurrent", "its encoder have the factor 0.5"):
        assert part in message
    (folder / "config.yaml").write_text(text)
    content = load_saved(folder / "best.ckpt")
    content["model_state"]["encoder.layers.0.gate.weight"] = torch.zeros(2)
    del content["model_state"]["decoder.layer_norm.weight"], content["model_state"]["src_embed.lut.weight"]
    save(content, folder / "best.ckpt")
    message = refusal(folder, tmp_path / "run")
    assert "the last norm is missing" in message
    content["model_state"]["decoder.layer_norm.weight"] = torch.zeros(16)
    save(content, folder / "best.ckpt")
    message = refusal(folder, tmp_path / "run")
    assert "missing tensors: src_embed.lut.weight" in message and "no part for: encoder.layers.0.gate.weight" in message


Change = Callable[[dict[str, Any]], Any]
DAMAGE: dict[str, tuple[Change, str]] = {
    "no options": (lambda content: content.pop("opt"), "not a checkpoint of OpenNMT-py"),
    "no weights": (lambda content: content.pop("model"), "its weights are in another file"),
    "pieces missing": (lambda content: content["vocab"]["tgt"].remove("</s>"), "a special piece is missing"),
    "fewer pieces": (lambda content: content["vocab"]["tgt"].pop(), "the config implies [13, 16]"),
    "huge": (lambda content: vars(content["opt"]).update(transformer_ff=1 << 20), "the config implies [1048576, 16]"),
    "too many layers": (lambda content: vars(content["opt"]).update(layers=100_000), "less than or equal to 1000"),
    "integers": (lambda content: content["generator"].update(weight=torch.zeros(14, 16).int()), "not floating point"),
    "pieces of numbers": (lambda content: content.update(vocab=[1, [[]], ({}, [])]), "the pieces of src are missing"),
    "no table": (lambda content: content.update(model={}), "is missing"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_checkpoint_is_refused(name: str, tmp_path: Path) -> None:
    write_opennmt(tmp_path, bias=True)
    path = tmp_path / "model_step_1.pt"
    content = load_saved(path, weights_only=False)
    change, expected = DAMAGE[name]
    change(content)
    save(content, path)
    assert expected in refusal(tmp_path, tmp_path / "run")


MERGED = "a0: &a0 {k: v}\n" + "".join(  # 9⁹⁸ keys
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 99)
)
YAML = {
    "a list": ("- 1\n", "not a mapping"),
    "an object": ("model: !!python/object/apply:os.system [touch evil]\n", "encoder.num_layers"),
    "deep": ("a: " + "[" * 5000 + "\n", "cannot be imported"),
    "broken": ("a: [1\nb: {", "cannot be imported"),
    "no truth": ("a: !!bool maybe\n", "cannot be imported"),
    "endless number": (f"a: {'1:' * 20_000}1.5\n", "too large"),
    "merged": (MERGED, "merge key"),
    "no model": ("data: 3\n", "num_layers"),
}


@pytest.mark.parametrize("name", YAML)
def test_settings_make_no_object(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_joeynmt(tmp_path, pre=True, scaled=True)
    monkeypatch.chdir(tmp_path)
    text, expected = YAML[name]
    (tmp_path / "config.yaml").write_text(text)
    message = refusal(tmp_path, tmp_path / "run")
    assert expected in message or expected.rpartition(".")[2] in message
    assert not (tmp_path / "evil").exists()


def test_other_folders_are_refused_with_their_reason(tmp_path: Path) -> None:
    write_sockeye(tmp_path, pre=True)
    (tmp_path / "params.best").write_bytes(b"\x12\x01\0\0\0\0\0\0")
    assert "mx_to_pt" in refusal(tmp_path, tmp_path / "run")
    vocabulary = json.loads((tmp_path / "vocab.trg.0.json").read_text())
    write_sockeye(tmp_path, pre=True)
    (tmp_path / "vocab.trg.0.json").write_text(json.dumps(vocabulary | {"t0@@": 77}))
    assert "ids are not all" in refusal(tmp_path, tmp_path / "run")
    fairseq = tmp_path / "fairseq"
    fairseq.mkdir()
    write_fairseq(fairseq, pre=True, zipped=True)
    (fairseq / "dict.en.txt").write_text("piece without count\n")
    assert "line 1 is not a piece" in refusal(fairseq, tmp_path / "run")


def test_options_are_not_written_as_text(tmp_path: Path) -> None:
    write_fairseq(tmp_path, pre=True, zipped=True)
    path = tmp_path / "checkpoint_best.pt"
    content, name = load_saved(path, weights_only=False), ()
    for _ in range(99):  # its text has 2⁹⁹ letters
        name = (name, name)
    content["cfg"]["model"].arch = name
    save(content, path)
    assert "its architecture is not stated" in refusal(tmp_path, tmp_path / "run")
