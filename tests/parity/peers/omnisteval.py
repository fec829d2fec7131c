"""OmniSTEval's side: measures of the outputs on standard input, each and their mean, as JSON."""

from __future__ import annotations

import json
import sys


def main() -> None:
    from omnisteval.data import Instance
    from omnisteval.scoring import ALScorer, LAALScorer, YAALScorer

    request = json.load(sys.stdin)
    aware = request["computation_aware"]
    instances = []
    for delays, source, reference in request["outputs"]:
        times = {"emission_ca": delays, "emission_cu": [0.0] * len(delays)} if aware else {"emission_cu": delays}
        text = " ".join(["word"] * len(delays)), " ".join(["word"] * reference)
        instances.append(Instance(prediction=text[0], reference=text[1], source_length=source, **times))
    answers = {}
    for name, kind in (("AL", ALScorer), ("LAAL", LAALScorer), ("YAAL", YAALScorer)):
        scorer = kind(computation_aware=aware)
        answers[name] = {"each": [scorer.compute(one) for one in instances], "mean": scorer(instances)}
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main()
