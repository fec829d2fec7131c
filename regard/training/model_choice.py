"""The end of a training: the choice between the network, the baseline alone and both (``train.choose``)."""

from __future__ import annotations

from collections.abc import Callable

from regard.errors import ModelError
from regard.runs.baseline_choice import BaselineChoice, read_choice, write_choice
from regard.runs.run_folder import RunFolder
from regard.training.final_comparison import trained_network
from regard.training.setup import TrainingInputs


def choose_model(
    run: RunFolder, inputs: TrainingInputs, log: Callable[[str], None], interrupted: Callable[[], bool]
) -> bool:
    """Choose between the default checkpoint of the network and the baseline alone, once, and save the figures.

    Returns:
        False if interrupted; nothing is saved then, and a resumed run chooses.
    """
    task, config, valid = run.task, run.config, inputs.data.valid
    if config.train.choose == "network" or task.choose_baseline is None or valid is None or read_choice(run.path):
        return True
    baseline = task.open_baseline(run, inputs.data.codecs)
    if baseline is None:
        return True
    _, net = trained_network(run, inputs.data, next(inputs.net.parameters()).device)
    predictor = task.predictor(net, inputs.data.codecs, config)
    try:
        choice = task.choose_baseline(config, predictor, baseline, valid, interrupted)
    except ModelError as error:
        log(f"warning: the network is not compared with its baseline: {error.what}")
        return True
    except KeyboardInterrupt:
        if not interrupted():
            raise
        return False
    if choice is None:
        log("the model is the network: too few validation examples for a comparison with the baseline")
        return True
    write_choice(run.path, choice)
    log(_report(choice))
    return True


def _report(choice: BaselineChoice) -> str:
    """Return the line about the choice, with the way to change it."""
    report = f"the model is the {choice.model}: {choice.figures}"
    if choice.model == "network":
        return report
    return f"{report}; use the network alone with --checkpoint best, or train with --set train.choose=network"
