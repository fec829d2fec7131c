"""Streaming translators of a run folder, with the attention head that their policy follows."""

from __future__ import annotations

from typing import NamedTuple

from regard.config.settings import SearchConfig
from regard.config.stream_settings import DEFAULT_LAG, DEFAULT_POLICY, PolicyName
from regard.inference.policies import POLICIES, make_policy
from regard.inspection.aligner import find_aligner
from regard.runs.run_folder import RunFolder
from regard.tasks.translation.streaming import StreamingTranslator
from regard.tasks.translation.translator import Translator


class StreamSettings(NamedTuple):
    """Settings of a stream; None for their defaults.

    Attributes:
        policy: its name.
        lag: in words, see the policies.
        splits: complete a sentence when another one begins.
        agree: of local agreement, the number of hypotheses.
    """

    policy: PolicyName | None = None
    lag: int | None = None
    splits: bool = True
    agree: int | None = None


def open_stream(
    run: RunFolder,
    translator: Translator,
    options: StreamSettings | None = None,
    *,
    search: SearchConfig | None = None,
    checkpoint: str | None = None,
) -> StreamingTranslator:
    """Return a translator of texts that are still arriving.

    Args:
        run: the run folder of the model, in which the head that AlignAtt follows is saved.
        translator: the model.
        options: of the stream.
        search: of the hypotheses; None for the settings of the run.
        checkpoint: that of the model; None for the default.

    Raises:
        ConfigError: if the model does not support the policy, or the search does not.
    """
    options = options or StreamSettings()
    name = options.policy or DEFAULT_POLICY
    policy = make_policy(name, DEFAULT_LAG[name] if options.lag is None else options.lag, agree=options.agree)
    network = translator.without_memory
    alignment = find_aligner(run, network, checkpoint=checkpoint) if POLICIES[name].needs_attention else None
    return StreamingTranslator(translator, policy, search=search, alignment=alignment, splits=options.splits)
