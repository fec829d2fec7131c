"""Classifiers, taggers and masked models as folders of ``transformers``: the same logits and pieces, or a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import regard
from regard import cli
from regard.answers.number_scale import Scale
from regard.core.task_table import locate
from regard.data.labels import Labels
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import BEGIN, END, TokenizerConfig
from regard.errors import ConfigError
from regard.runs.config import load_config
from regard.share.encoder_format import obstacles, write
from regard.share.encoder_parity import compare_encoders
from regard.share.encoder_tokenizer import encoder_tokenizer_obstacles
from regard.tasks.classification.task import CLASSIFICATION
from regard.tasks.masked.task import MaskedCodec
from regard.tasks.supervised_codecs import SupervisedCodecs
from regard.tasks.tagging.task import TAGGING

SIZES = {"layers": 2, "width": 12, "feed_forward": 20, "heads": 2, "norm": "pre", "activation": "gelu"}
TEXTS = ["the cat sat on a mat", "a rat", "the  owl sat\ton a hat"]
NAMES = Labels(("bad", "good", "so"), (1, 2, 3))
ROTARY = {"position": {"kind": "rotary", "base": 500.0}}

MODELS: dict[str, dict[str, Any]] = {
    "rotary": {"position": "rotary"},
    "rotary, half, biases": ROTARY | {"position": {"kind": "rotary", "layout": "half"}, "attention_bias": True},
    "learned, relu": {"position": {"kind": "learned", "longest": 40}, "activation": "relu"},
    "sinusoids, swish, epsilon": {"activation": "swish", "normalization_epsilon": 1e-5},
    "no positions, biases of some": {"position": "none", "mixer": {"kind": "dot", "bias": ["query", "output"]}},
}
TASKS: dict[str, dict[str, Any]] = {
    "class": {"task": "classification", "model": {"pooling": "first"}},
    "several": {"task": "classification", "model": {"pooling": "first"}, "data": {"label_kind": "several"}},
    "number": {"task": "classification", "model": {"pooling": "first"}, "data": {"label_kind": "number"}},
    "tags": {"task": "tagging"},
    "masked": {"task": "masked"},
    "masked, apart": {"task": "masked", "model": {"share": "none", "output_bias": False}},
}


def config_of(name: str, model: dict[str, Any], tokenizer: str = "word") -> Any:
    task = TASKS[name]
    longest = {"context": 30} if task["task"] == "masked" else {"max_length": 30}
    data = {"train": [], "tokenizer": {"kind": tokenizer}} | longest | task.get("data", {})
    return load_config({"task": task["task"], "model": SIZES | task.get("model", {}) | model, "data": data})


def tokenizer_of(kind: str) -> Any:
    config = {"kind": kind, "size": 270 if kind == "byte-bpe" else None}
    return train_tokenizer([*TEXTS, "the owl sat on a hat"] * 3, TokenizerConfig.model_validate(config))


def made(name: str, model: dict[str, Any], tokenizer: str = "word") -> tuple[Any, Any, Any]:
    """A config, a network with parameters of its own everywhere, and its codec."""
    config, pieces = config_of(name, model, tokenizer), tokenizer_of(tokenizer)
    number = name == "number"
    codec: Any
    declared = {"classification": CLASSIFICATION, "tagging": TAGGING}.get(config.task.kind)
    if declared is not None:
        codec = SupervisedCodecs(declared.fields(config), declared.answer(config))
        codec.fields["text"].tokenizer = pieces
        if number:
            codec.answer.scale = Scale(7.0, 3.0)
        else:
            codec.answer.labels, codec.answer.temperature = NAMES, 1.7
        spec = codec.spec
    else:
        codec, spec = MaskedCodec(pieces, None), {"types": len(pieces)}
    torch.manual_seed(4)
    net = locate(config.task.kind).task().build(config, spec)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return config, net.eval(), codec


def form_of(config: Any) -> Any:
    return locate(config.task.kind).task().export_form(config)


def read_there(task: str, folder: Path) -> tuple[Any, Any]:
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
    ending = {"classification": "SequenceClassification", "tagging": "TokenClassification", "masked": "MaskedLM"}[task]
    model, notes = getattr(transformers, f"AutoModelFor{ending}").from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True
    )
    assert not notes["unexpected_keys"] and not notes["missing_keys"]
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", TASKS)
def test_logits_are_the_same(name: str, model: str, tmp_path: Path) -> None:
    config, net, codec = made(name, MODELS[model])
    form = form_of(config)
    assert obstacles(form, config) == []
    write(form, config, net, codec, tmp_path / "out")
    theirs, reader = read_there(config.task.kind, tmp_path / "out")
    texts = [*TEXTS, "a rat\tthe cat sat"] if config.task.kind == "classification" else TEXTS
    parity = compare_encoders(form, net, codec, theirs, reader, texts)
    assert parity.same and parity.largest > 0.5 and parity.texts == len(texts), parity
    expected = "EsmFor" if "rotary" in model else "MegatronBertFor"
    assert type(theirs).__name__.startswith(expected)


def test_what_is_told_is_told_there(tmp_path: Path) -> None:
    config, net, codec = made("class", MODELS["rotary"])
    write(form_of(config), config, net, codec, tmp_path / "out")
    theirs, reader = read_there("classification", tmp_path / "out")
    own = locate("classification").task().predictor(net, codec, config)([TEXTS[0]])[0]
    with torch.no_grad():
        p = theirs(**reader(TEXTS[0], return_tensors="pt", return_token_type_ids=False)).logits.softmax(-1)[0]
    assert theirs.config.id2label == {0: "bad", 1: "good", 2: "so"}
    assert p.tolist() == pytest.approx(list(own.probabilities.values()), abs=1e-5)


@pytest.mark.parametrize("kind", ["word", "character", "byte", "byte-bpe"])
def test_tokenizers_frame_a_text_and_know_the_mask(kind: str, tmp_path: Path) -> None:
    config, net, codec = made("masked", MODELS["rotary"], kind)
    write(form_of(config), config, net, codec, tmp_path / "out")
    theirs, reader = read_there("masked", tmp_path / "out")
    own = codec.tokenizer
    for text in TEXTS:
        assert reader(text)["input_ids"] == [BEGIN, *own.encode(text), END]
    assert reader.mask_token_id == len(own) == theirs.config.vocab_size - 1
    assert reader("a <mask>", add_special_tokens=False)["input_ids"][-1] == len(own)
    assert reader("☃☃", add_special_tokens=False)["input_ids"] == own.encode("☃☃")
    pieces = [piece for word in TEXTS[0].split() for piece in own.encode(word)]
    read = reader(TEXTS[0].split(), is_split_into_words=True)
    assert read["input_ids"] == [BEGIN, *pieces, END] or kind == "byte-bpe"
    assert read.word_ids()[1] == 0 and read.word_ids()[0] is None


@pytest.mark.parametrize(
    ("name", "model", "reason", "setting"),
    [
        ("class", {"norm": "post"}, "post-norm", "model.norm=pre"),
        ("class", {"pooling": "attention"}, "pooling is attention", "model.pooling=first"),
        ("tags", {"affixes": 10}, "affixes", "model.affixes=0"),
        ("tags", {"activation": "relu", "position": "rotary"}, "", "--set model."),
        ("tags", {"normalization": "rms"}, "rms", "model.normalization=layer"),
        ("class", {"encoder": {"kind": "recurrent", "width": 8}}, "recurrent", "model.encoder.kind=transformer"),
        ("masked", {"activation": "relu2"}, "relu2", "model.activation=gelu"),
        ("masked", {"normalization_epsilon": 1e-3}, "epsilon", "model.normalization_epsilon"),
        ("tags", {"mixer": "additive"}, "its mixer is additive", "model.mixer=dot"),
        ("tags", {"qk_norm": True}, "qk_norm", ""),
    ],
)
def test_what_no_class_can_say_is_refused_with_the_key(
    name: str, model: dict[str, Any], reason: str, setting: str
) -> None:
    sizes = {} if "encoder" in model else SIZES
    config = config_of(name, sizes | model) if sizes else _recurrent(model)
    told = "; ".join(obstacles(form_of(config), config))
    assert reason in told and setting in told


def _recurrent(model: dict[str, Any]) -> Any:
    return load_config({"task": "classification", "model": model | {"pooling": "first"}, "data": {"train": []}})


def test_other_pieces_are_refused() -> None:
    config = TokenizerConfig(kind="k-mer", k=2)
    told = "; ".join(encoder_tokenizer_obstacles(config))
    assert "k-mer" in told and "word, character" in told


def test_no_name_is_written_twice(tmp_path: Path) -> None:
    config, net, codec = made("tags", MODELS["rotary"])
    write(form_of(config), config, net, codec, tmp_path / "out")
    found = json.loads((tmp_path / "out" / "config.json").read_text())
    assert found["architectures"] == ["EsmForTokenClassification"] and "mask_token_id" not in found


def exported(run: Path, to: str) -> Any:
    return CliRunner().invoke(cli.build_app(), ["export", str(run), str(run.parent / "out"), "--to", to])


def trained(folder: Path, task: str, model: dict[str, Any], text: str) -> Path:
    path = folder / ("a.txt" if task == "masked" else "a.tsv")
    path.write_text(text, encoding="utf-8")
    data = {"train": [{"source": str(path)}], "valid": [{"source": str(path)}]}
    data |= {"context": 30} if task == "masked" else {}
    model = {"layers": 1, "width": 12, "feed_forward": 20, "heads": 2} | model
    train = {"steps": 2, "threads": 1, "batch_tokens": 30}
    return regard.train({"task": task, "model": model, "data": data, "train": train}, folder / "run")


@pytest.mark.parametrize("name", ["class", "tags", "masked"])
def test_a_run_is_exported_and_compared(name: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
    model = SIZES | {"position": "rotary", "layers": 1} | TASKS[name].get("model", {})
    end = "\n\n" if name == "tags" else "\n"
    run = trained(tmp_path, TASKS[name]["task"], model, f"film\tgood{end}one film\tbad{end}")
    done = exported(run, "transformers")
    assert done.exit_code == 0 and "equal pieces for" in done.output, done.output
    parity = json.loads((tmp_path / "out" / "parity.json").read_text())
    assert parity["texts"] == parity["pieces"] > 0 and parity["difference"] < 1e-4


def test_another_task_that_declares_the_form_is_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
    (tmp_path / "own_tags.py").write_text(
        "from dataclasses import replace\n"
        "from regard.tasks.tagging.config import TaggingConfig as CONFIG\n"
        "from regard.tasks.tagging.task import TASK as TAGGING\n"
        "TASK = replace(TAGGING, name='own')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("REGARD_TASKS", "own_tags:TASK")
    run = trained(tmp_path, "own_tags:TASK", SIZES | {"position": "rotary"}, "film\tN\n\none\tD\nfilm\tN\n\n")
    done = exported(run, "transformers")
    assert done.exit_code == 0 and "equal pieces for 2 of 2 texts" in done.output, done.output


def test_the_command_names_the_settings(tmp_path: Path) -> None:
    run = trained(tmp_path, "classification", {}, "good film\tgood\nbad one\tbad\n")
    with pytest.raises(ConfigError, match=r"post-norm[\s\S]*--set model\.norm=pre.*--set model\.pooling=first"):
        raise exported(run, "transformers").exception
    with pytest.raises(ConfigError, match=r"--to [a-z, -]+transformers or hub"):
        raise exported(run, "gguf").exception
