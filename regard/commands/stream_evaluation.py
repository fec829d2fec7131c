"""``regard evaluate --streaming``: quality and latency of a policy at several lags."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from regard.commands.metric_tables import aligned
from regard.commands.options import open_model, search_settings
from regard.commands.progress import progress
from regard.commands.setting_options import SharedOption
from regard.commands.spoken_translation import TRANSLATION_OPTIONS, SpokenTranslation
from regard.commands.streaming import PANEL, Agree, PolicyOption, refuse_with_streaming
from regard.config.stream_settings import DEFAULT_LAG, DEFAULT_POLICY, RATE, PolicyName
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.inspection.spoken_scores import SpokenScore
    from regard.inspection.stream_scores import StreamScore
    from regard.runs.run_folder import RunFolder
    from regard.tasks.translation.evaluation import TranslationTest

MAX_LAGS = 100

Streaming = Annotated[
    bool,
    typer.Option(
        "--streaming",
        help="Send each source word by word, or each sound step by step; measure latency.",
        rich_help_panel=PANEL,
    ),
]
Lags = Annotated[
    str | None,
    typer.Option(
        "--lag",
        metavar="N,…",
        help="Evaluate these lags, separated by commas: in source words; of sounds in steps, of alignatt in frames.",
        show_default="5 of wait-k, 1 of local-agreement, 2 of alignatt; of sounds 1, 40",
        rich_help_panel=PANEL,
    ),
]
Rate = Annotated[
    float,
    typer.Option(
        "--rate",
        min=0.01,
        max=1000,
        metavar="N",
        help="Assume N source words per second for the latency in milliseconds.",
        rich_help_panel=PANEL,
    ),
]
Together = Annotated[
    int,
    typer.Option(
        "--together",
        min=1,
        max=4096,
        metavar="N",
        help="Advance N streams in one batch: faster, but times are those of the batch.",
        rich_help_panel=PANEL,
    ),
]
Log = Annotated[
    Path | None,
    typer.Option(
        "--log",
        metavar="FILE",
        help="Write SimulEval's log of all sentences (JSON lines); with several lags, a file for each.",
        rich_help_panel=PANEL,
    ),
]
Curve = Annotated[
    Path | None,
    typer.Option(
        "--curve",
        metavar="FOLDER",
        help="Draw quality over lag for all policies in this folder (curve.png, curve.svg).",
        rich_help_panel=PANEL,
    ),
]


Step = Annotated[
    float | None,
    typer.Option(
        "--step",
        metavar="SECONDS",
        help="Of sounds: form a hypothesis after each step.",
        show_default="0.5",
        rich_help_panel=PANEL,
    ),
]


class StreamEvaluationRequest(NamedTuple):
    """Requested evaluation of streams: see the options."""

    streaming: bool = False
    policy: PolicyName | None = None
    lag: str | None = None
    agree: int | None = None
    rate: float = RATE
    together: int = 1
    log: Path | None = None
    curve: Path | None = None
    step: float | None = None
    translate: Path | None = None
    translate_policy: PolicyName | None = None
    translate_lag: int | None = None
    translate_agree: int | None = None

    @property
    def translation(self) -> SpokenTranslation | None:
        """The requested translation of recognized words. ConfigError for options that contradict each other."""
        return SpokenTranslation.requested(
            self.translate, self.translate_policy, self.translate_lag, self.translate_agree
        )

    def lags(self, policy: PolicyName, defaults: Mapping[PolicyName, int] = DEFAULT_LAG) -> list[int]:
        """Return the requested lags. ConfigError for a text that is no list of lags."""
        if self.lag is None:
            return [defaults.get(policy, DEFAULT_LAG[policy])]
        lags = [lag.strip() for lag in self.lag.split(",")]
        valid = all(lag.isascii() and lag.isdigit() and int(lag[:9]) <= 1000 for lag in lags)
        if not valid or len(lags) > MAX_LAGS:
            raise ConfigError("a list of lags is required", where="--lag", help="write whole numbers: --lag 1,2,3")
        return sorted({int(lag) for lag in lags})


STREAM_EVALUATION = {
    "streaming": SharedOption(Streaming, False),
    "policy": SharedOption(PolicyOption),
    "lag": SharedOption(Lags),
    "agree": SharedOption(Agree),
    "rate": SharedOption(Rate, RATE),
    "together": SharedOption(Together, 1),
    "log": SharedOption(Log),
    "curve": SharedOption(Curve),
    "step": SharedOption(Step),
} | TRANSLATION_OPTIONS


def evaluate_streams(
    run: RunFolder, files: list[Path], names: list[str] | None, search_options: dict[str, Any],
    opening: dict[str, Any], request: StreamEvaluationRequest, *, as_json: bool,
) -> None:  # fmt: skip
    """Print quality and latency for each lag; with ``--curve``, of all policies.

    Args:
        run: the run folder.
        files: the test files: sources, then references.
        names: the names of the metrics; None for the default ones.
        search_options: the search options of the command line.
        opening: keyword arguments of ``open_model``.
        request: the options of streams.
        as_json: whether to print JSON.
    """
    from regard.core.figure import require_drawing
    from regard.tasks.evaluation import require_metrics
    from regard.tasks.load import require_task
    from regard.tasks.translation.evaluation import TranslationTest

    require_task(run, "translation")
    refuse_with_streaming(step=request.step, translate=request.translate)
    refuse_with_streaming(translate_policy=request.translate_policy, translate_lag=request.translate_lag is not None)
    refuse_with_streaming(translate_agree=request.translate_agree)
    metrics = require_metrics(run, names)
    if request.curve is not None:
        require_drawing("--curve")
    policies = [request.policy or DEFAULT_POLICY] if request.curve is None or request.policy else list(DEFAULT_LAG)
    settings = {policy: request.lags(policy) for policy in policies}
    model = open_model(run.path, **opening)
    config: Any = run.config
    test = TranslationTest(config, model, files)
    search = search_settings(test.search, nbest=1, **search_options)
    for warning in test.warnings:
        typer.echo(f"warning: {warning}", err=True)
    scores: list[StreamScore] = []
    for policy, lags in settings.items():
        scores += _scores(run, test, policy, lags, metrics, search, request, checkpoint=opening["checkpoint"])
    if request.log is not None:
        write_logs(scores, request.log)
    if request.curve is not None:
        _draw(scores, test, metrics[0], search, request.curve, title=run.path.resolve().name)
    _print(scores, as_json=as_json)


def _scores(
    run: RunFolder, test: TranslationTest, policy: PolicyName, lags: Sequence[int], metrics: list[str], search: Any,
    request: StreamEvaluationRequest, *, checkpoint: str | None,
) -> list[StreamScore]:  # fmt: skip
    """Return the scores of a policy; if all policies are drawn, lags and policies that do not apply are left out."""
    from regard.inspection.stream_scores import score_streams
    from regard.inspection.streams import StreamSettings, open_stream

    scores = []
    for lag in lags:
        agree = request.agree if request.policy or policy == DEFAULT_POLICY else None  # of all policies, it has one
        options = StreamSettings(policy, lag, splits=False, agree=agree)
        try:
            model = open_stream(run, test.model, options, search=search, checkpoint=checkpoint)
        except ConfigError as error:
            if request.curve is None or request.policy is not None:
                raise
            typer.echo(f"left out {policy} with lag {lag}: {error.what}", err=True)
            continue
        with progress(f"{policy}, lag {lag}", len(test)) as advance:
            scores.append(
                score_streams(test, model, metrics, rate=request.rate, together=request.together, done=advance)
            )
    return scores


def write_logs(scores: Sequence[StreamScore | SpokenScore], path: Path) -> None:
    """Write a log for each score; with several, the policy and the lag are in the names of the files."""
    from regard.metrics.latency import write_instances

    for score in scores:
        policy = score.policy.replace(" ", "-")
        own = path if len(scores) == 1 else path.with_name(f"{path.stem}.{policy}-{score.lag}{path.suffix}")
        write_instances(score.instances, own)
        typer.echo(f"wrote {own}", err=True)


def _draw(
    scores: Sequence[StreamScore], test: TranslationTest, metric: str, search: Any, folder: Path, *, title: str
) -> None:
    """Draw the curves of all policies, with the score of whole sources."""
    from regard.core.atomic_files import explain_os_errors
    from regard.core.figure import Caption, save_figure
    from regard.inspection.stream_scores import draw_curves

    with progress("whole sources", len(test.inputs)) as advance:
        offline = test.score(metric, test.outputs(search, advance)).value
    caption = Caption(f"quality over lag · {title} · n = {len(test):,}", "regard evaluate --streaming --curve")
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        draw = partial(draw_curves, scores=scores, metric=metric, offline=offline)
        paths = save_figure(draw, folder, caption, name="curve")
    typer.echo(f"wrote {', '.join(path.name for path in paths)} to {folder}", err=True)


def _print(scores: Sequence[StreamScore], *, as_json: bool) -> None:
    from regard.core.task import MetricTable

    if as_json:
        typer.echo(json.dumps([score.as_dict() for score in scores], ensure_ascii=False).replace("NaN", "null"))
        return
    names = list(scores[0].figures) if scores else []
    columns = "policy", "lag", *names, "AL", "LAAL", "YAAL", "LAAL ms", "p50 ms", "p99 ms", "revised"
    rows: list[tuple[str | int | float, ...]] = []
    for score in scores:
        lags = *score.words.values(), score.milliseconds["LAAL"], *score.step
        rows.append((score.policy, score.lag, *score.figures.values(), *lags, score.revisions))
    typer.echo(aligned(MetricTable(columns, tuple(rows)), decimals=2))
    typer.echo("\nAL, LAAL, YAAL: lag in source words · LAAL ms: with computation, at the rate of --rate")
    for score in scores:
        if score.warning:
            typer.echo(f"warning: {score.policy}, lag {score.lag}: {score.warning}", err=True)
