"""Options of the translation of recognized words, which ``regard recognize`` and ``regard evaluate`` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from regard.commands.setting_options import SharedOption
from regard.commands.streaming import PANEL
from regard.config.stream_settings import MOST_AGREE, PolicyName
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.runs.run_folder import RunFolder
    from regard.tasks.translation.streaming import StreamingTranslator

Translate = Annotated[
    Path | None,
    typer.Option(
        "--translate",
        metavar="RUN",
        help="Translate the committed words of a recognizer with this run.",
        rich_help_panel=PANEL,
    ),
]
TranslatePolicy = Annotated[
    PolicyName | None,
    typer.Option(
        "--translate-policy",
        help="Commit translated words by this policy.",
        show_default="local-agreement",
        rich_help_panel=PANEL,
    ),
]
TranslateLag = Annotated[
    int | None,
    typer.Option(
        "--translate-lag",
        min=0,
        max=1000,
        metavar="N",
        help="Lag of that policy in recognized words.",
        show_default="1; 5 of wait-k, 2 of alignatt",
        rich_help_panel=PANEL,
    ),
]
TranslateAgree = Annotated[
    int | None,
    typer.Option(
        "--translate-agree",
        min=2,
        max=MOST_AGREE,
        metavar="N",
        help="Of its local-agreement: commit words in which the last N hypotheses agree.",
        show_default="2",
        rich_help_panel=PANEL,
    ),
]
TRANSLATION_OPTIONS = {
    "translate": SharedOption(Translate),
    "translate_policy": SharedOption(TranslatePolicy),
    "translate_lag": SharedOption(TranslateLag),
    "translate_agree": SharedOption(TranslateAgree),
}


class SpokenTranslation(NamedTuple):
    """The requested translation of recognized words: see the options."""

    run: Path
    policy: PolicyName | None = None
    lag: int | None = None
    agree: int | None = None

    @classmethod
    def requested(
        cls, run: Path | None, policy: PolicyName | None, lag: int | None, agree: int | None
    ) -> SpokenTranslation | None:
        """Return the request; None without a run. ConfigError for options that require one."""
        if run is not None:
            return cls(run, policy, lag, agree)
        for name, value in (("policy", policy), ("lag", lag), ("agree", agree)):
            if value is not None:
                raise ConfigError(
                    "this option requires --translate", where=f"--translate-{name}", help="add --translate RUN"
                )
        return None

    def open(self) -> tuple[RunFolder, StreamingTranslator]:
        """Return the run folder, and its translator of texts that grow. ConfigError unless it is a translation."""
        from regard.inspection.streams import StreamSettings, open_stream
        from regard.runs.run_folder import RunFolder
        from regard.tasks.load import load, require_task
        from regard.tasks.translation.translator import Translator

        run = RunFolder.open(self.run)
        require_task(run, "translation")
        return run, open_stream(
            run, load(self.run, Translator), StreamSettings(self.policy, self.lag, agree=self.agree)
        )
