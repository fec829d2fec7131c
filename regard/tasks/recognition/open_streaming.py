"""Streaming recognizers of a run folder, with the attention head that their policy follows."""

from __future__ import annotations

from regard.config.stream_settings import DEFAULT_POLICY, SOUND_LAG, SOUND_UNIT, PolicyName
from regard.errors import ConfigError
from regard.inference.policies import POLICIES, make_policy
from regard.runs.run_folder import RunFolder
from regard.tasks.recognition.attention_head import find_head
from regard.tasks.recognition.config import RecognitionSearchConfig
from regard.tasks.recognition.recognizer import Recognizer
from regard.tasks.recognition.streaming import SegmentOptions, StreamingRecognizer, require_alignment


def open_streaming(
    run: RunFolder | None,
    recognizer: Recognizer,
    policy: PolicyName | None = None,
    lag: int | None = None,
    *,
    agree: int | None = None,
    options: SegmentOptions | None = None,
    search: RecognitionSearchConfig | None = None,
    checkpoint: str | None = None,
) -> StreamingRecognizer:
    """Return a recognizer of sounds that are still arriving.

    Args:
        run: the run folder of the model, in which the head that AlignAtt follows is saved; None without AlignAtt.
        recognizer: the model.
        policy: its name; None for local agreement.
        lag: of local agreement in steps, of AlignAtt in frames of 10 ms; None for 1 and 40.
        agree: of local agreement, the number of hypotheses; None for 2.
        options: of the segments.
        search: of the hypotheses; None for the settings of the run.
        checkpoint: that of the model; None for the default.

    Raises:
        ConfigError: if the model does not support the policy, or does not read sounds.
    """
    name = policy or DEFAULT_POLICY
    unit = SOUND_UNIT.get(name, "source words")
    steps = make_policy(name, SOUND_LAG.get(name, 1) if lag is None else lag, unit, agree=agree)
    alignment = None
    if POLICIES[name].needs_attention and recognizer.suffixes:
        require_alignment(recognizer)
        if run is None:
            raise ConfigError(f"{name} requires the run folder of the model", where="policy")
        alignment = find_head(run, recognizer, checkpoint)
    return StreamingRecognizer(recognizer, steps, options, search=search, alignment=alignment)
