"""The verbs that predict, as functions: ``regard.classify("runs/sst2", texts)``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from regard.answers.next_item import Recommendation
from regard.answers.tagged_tokens import Tagging
from regard.data.midi import write_midi
from regard.data.music_files import read_piece
from regard.functions.opening import RunPath, load_options, open_model, predict_with
from regard.inference.results import Translation
from regard.tasks.input_files import inputs_of
from regard.tasks.language_model.text_listener import Generated
from regard.tasks.masked.filler import Filled
from regard.tasks.masked.harmony import Harmony
from regard.tasks.masked.harmony import harmonize as add_voices
from regard.tasks.recognition.transcript import Transcript


def predict(
    run: RunPath,
    inputs: Any,
    *,
    column: str | Sequence[str] | None = None,
    checkpoint: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    engine: str | None = None,
    **settings: Any,
) -> list[Any]:
    """Return the outputs of a model of any task: ``regard.predict("runs/sst2", ["a fine film"])``.

    To predict more than once, load the model once: ``model = regard.load("runs/sst2")``.

    Args:
        run: the run folder.
        inputs: one input, an iterable of inputs, or a table; or a ``pathlib.Path``, or a list of them: files of lines
            or rows, or files that are one input each, such as sounds.
        column: the column of the inputs of a table or of files with columns. Default: as in training.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        threads: the number of CPU threads. Default: all.
        engine: the engine of a task that has several.
        settings: settings of the predictor, as for ``--set``.

    Raises:
        ConfigError: for an unknown setting.
        DataError: for an input that cannot be read, with its location.
    """
    return predict_with(run, inputs, (), column, load_options(checkpoint, device, threads, engine), settings)


def embed(
    run: RunPath,
    inputs: Any,
    *,
    layer: int | None = None,
    pooling: str = "mean",
    column: str | Sequence[str] | None = None,
    checkpoint: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    engine: str | None = None,
) -> npt.NDArray[np.float32]:
    """Return a vector for each input, (inputs, width): ``regard.embed("runs/reviews", ["a fine film"])``.

    Args:
        run: the run folder.
        inputs: see ``regard.predict``.
        layer: see ``regard.Predictor.embed``.
        pooling: ``mean``, ``max``, ``first`` or ``last``.
        column: see ``regard.predict``.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        threads: see ``regard.predict``.
        engine: see ``regard.predict``.
    """
    model = open_model(run, (), load_options(checkpoint, device, threads, engine))
    return model.embed(inputs_of(model, run, inputs, column, embedding=True), layer=layer, pooling=pooling)


def translate(
    run: RunPath,
    inputs: Any,
    *,
    prefixes: str | Sequence[str] | None = None,
    column: str | None = None,
    checkpoint: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    engine: str | None = None,
    ensemble: Sequence[str | Path] = (),
    **settings: Any,
) -> list[Translation]:
    """Translate texts: ``regard.translate("runs/m30k", ["A dog runs."], beam=5)[0].text``.

    Args:
        run: the run folder.
        inputs: see ``regard.predict``.
        prefixes: the beginning of all outputs, or of each.
        column: see ``regard.predict``.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        threads: see ``regard.predict``.
        engine: see ``regard.predict``.
        ensemble: see ``regard.load``.
        settings: keys of the config section ``search``, and ``seed``.
    """
    loading = load_options(checkpoint, device, threads, engine) | {"ensemble": ensemble}
    if prefixes is None:
        return predict_with(run, inputs, ("translation",), column, loading, settings)
    model: Any = open_model(run, ("translation",), loading)
    lines = inputs_of(model, run, inputs, column)
    beginnings = [prefixes] * len(lines) if isinstance(prefixes, str) else list(prefixes)
    translated: list[Translation] = model.translate(lines, search=model.adjusted(settings), prefixes=beginnings)
    return translated


def generate(
    run: RunPath,
    prompts: Any = "",
    *,
    samples: int = 1,
    column: str | None = None,
    checkpoint: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    engine: str | None = None,
    ensemble: Sequence[str | Path] = (),
    **settings: Any,
) -> list[Generated]:
    """Continue prompts with a language model: ``regard.generate("runs/book", "To be", length=100, seed=1)[0].text``.

    For conversations, use ``regard.load(run).chat``.

    Args:
        run: the run folder.
        prompts: see ``inputs`` of ``regard.predict``.
        samples: the number of texts for each prompt.
        column: see ``regard.predict``.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        threads: see ``regard.predict``.
        engine: see ``regard.predict``.
        ensemble: see ``regard.load``.
        settings: keys of the config section ``generate``, ``seed`` and ``greedy``.
    """
    loading = load_options(checkpoint, device, threads, engine) | {"ensemble": ensemble}
    model: Any = open_model(run, ("language-model",), loading)
    lines = inputs_of(model, run, prompts, column)
    if samples == 1:
        return cast("list[Generated]", model.predict(lines, **settings))
    return [text for line in lines for text in model.samples(line, samples, **settings)]


def fill(
    run: RunPath, texts: Any, *, top_k: int | None = None, checkpoint: str | None = None, device: str | None = None,
    threads: int | None = None,
) -> list[Filled]:  # fmt: skip
    """Fill the gaps of texts: ``regard.fill("runs/book", "A dog ___ over the fence")[0].text``.

    Args:
        run: the run folder of a masked model.
        texts: see ``inputs`` of ``regard.predict``.
        top_k: the number of candidates of each gap.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        threads: see ``regard.predict``.
    """
    return predict_with(run, texts, ("masked",), None, load_options(checkpoint, device, threads), {"top_k": top_k})


def harmonize(
    run: RunPath, file: str | Path, output: str | Path | None = None, *, voice: Sequence[int], steps: int = 1,
    tempo: int = 90, passes: int = 0, checkpoint: str | None = None, device: str | None = None,
    threads: int | None = None,
) -> Harmony:  # fmt: skip
    """Add voices to a piece with a masked model of music; see ``regard harmonize``.

    Args:
        run: the run folder.
        file: a MIDI file, or a text of frames.
        output: a MIDI file for the result; None writes none.
        voice: the numbers of the new voices among all voices, from 1, the lowest.
        steps: the frames of a quarter note.
        tempo: quarter notes in a minute, of the MIDI file that is written.
        passes: the number of times that each new pitch is predicted again.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        threads: see ``regard.predict``.

    Raises:
        ConfigError: if the run is not a model of music.
        DataError: if the file has another form or no notes, or no such voice.
    """
    model: Any = open_model(run, ("masked",), load_options(checkpoint, device, threads))
    harmony = add_voices(model, read_piece(Path(file), steps=steps), list(voice), passes=passes)
    if output is not None:
        write_midi(harmony.frames, Path(output), steps=steps, tempo=tempo)
    return harmony


def classify(
    run: RunPath, inputs: Any, *, abstain_below: float | None = None, threshold: float | None = None,
    column: str | Sequence[str] | None = None, checkpoint: str | None = None, device: str | None = None,
    threads: int | None = None, engine: str | None = None, **settings: Any,
) -> list[Any]:  # fmt: skip
    """Classify texts, sounds, images or series: ``regard.classify("runs/sst2", ["a fine film"])[0].label``.

    Args:
        run: the run folder.
        inputs: see ``regard.predict``.
        abstain_below: the least probability of a class; below it, the label is None.
        threshold: the least probability of each label, for models of several labels.
        column: see ``regard.predict``.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        threads: see ``regard.predict``.
        engine: see ``regard.predict``.
        settings: further settings of the predictor.

    Returns:
        A ``Classification``, ``LabelSet`` or ``NumberPrediction`` for each input.
    """
    chosen = {**settings, "abstain_below": abstain_below, "threshold": threshold}
    loading = load_options(checkpoint, device, threads, engine)
    return predict_with(run, inputs, ("classification",), column, loading, chosen)


def tag(
    run: RunPath, inputs: Any, *, column: str | None = None, checkpoint: str | None = None, device: str | None = None,
    threads: int | None = None, engine: str | None = None, **settings: Any,
) -> list[Tagging]:  # fmt: skip
    """Tag the tokens of sentences: ``regard.tag("runs/pos", ["the dog runs"])[0].tags``.

    Args:
        run: the run folder.
        inputs: see ``regard.predict``; a sentence is a text, or a tuple of tokens.
        column: see ``regard.predict``.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        threads: see ``regard.predict``.
        engine: see ``regard.predict``.
        settings: settings of the predictor.
    """
    return predict_with(run, inputs, ("tagging",), column, load_options(checkpoint, device, threads, engine), settings)


def recognize(
    run: RunPath, recordings: Any, *, lm: str | Path | None = None, checkpoint: str | None = None,
    device: str | None = None, threads: int | None = None, **settings: Any,
) -> list[Transcript]:  # fmt: skip
    """Recognize speech: ``regard.recognize("runs/an4", Path("a.wav"))[0].text``.

    Args:
        run: the run folder.
        recordings: see ``inputs`` of ``regard.predict``.
        lm: the run folder of a language model whose scores are added.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        threads: see ``regard.predict``.
        settings: keys of the config section ``search``.
    """
    loading = load_options(checkpoint, device, threads) | ({} if lm is None else {"lm": lm})
    return predict_with(run, recordings, ("recognition",), None, loading, settings)


def recommend(
    run: RunPath, sessions: Any, *, top_k: int | None = None, new: bool | None = None,
    column: str | None = None, checkpoint: str | None = None, device: str | None = None, threads: int | None = None,
    **settings: Any,
) -> list[Recommendation]:  # fmt: skip
    """Predict the next items of sessions: ``regard.recommend("runs/shop", [("lamp", "desk")])[0].items``.

    Args:
        run: the run folder.
        sessions: see ``inputs`` of ``regard.predict``; a session is a text of items, or a tuple of them.
        top_k: the number of items.
        new: whether to leave out items of the session.
        column: see ``regard.predict``.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        threads: see ``regard.predict``.
        settings: further settings of the predictor.
    """
    chosen = {**settings, "top_k": top_k, "new": new}
    return predict_with(run, sessions, ("next-item",), column, load_options(checkpoint, device, threads), chosen)
