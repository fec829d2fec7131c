"""joblib: a predictor is sent to several processes, which load it from the run folder."""

from joblib import Parallel, delayed

import regard

TINY = {"steps": 5, "threads": 1, "workers": 1}
Model = regard.SupervisedPredictor[regard.Classification]


def labels_of(model: Model, texts: list[str]) -> list[str | None]:
    return [output.label for output in model(texts)]


if __name__ == "__main__":
    texts, labels = ["a fine film", "a dull film"] * 40, ["good", "bad"] * 40
    valid = (texts[:8], labels[:8])
    run = regard.train(texts, labels, valid=valid, task="classification", name="reviews", train=TINY)
    model = regard.load(run, regard.SupervisedPredictor[regard.Classification])
    parts = [texts[:40], texts[40:]]
    outputs: list[list[str | None]] = Parallel(n_jobs=2)(delayed(labels_of)(model, part) for part in parts)
    assert outputs == [labels_of(model, part) for part in parts]  # bit for bit
    print([len(part) for part in outputs])
