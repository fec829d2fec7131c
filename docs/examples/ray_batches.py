"""Ray: a model is the function of `map_batches`."""

import ray

import regard

TINY = {"steps": 5, "threads": 1, "workers": 1}

if __name__ == "__main__":
    texts, labels = ["a fine film", "a dull film"] * 40, ["good", "bad"] * 40
    valid = (texts[:8], labels[:8])
    run = regard.train(texts, labels, valid=valid, task="classification", name="reviews", train=TINY)
    model = regard.load(run, regard.SupervisedPredictor[regard.Classification])

    ray.init(num_cpus=2, include_dashboard=False)
    data = ray.data.from_items([{"text": text} for text in texts])
    predicted = data.map_batches(model, batch_format="pandas", batch_size=16)
    print(predicted.take(2))
    assert predicted.count() == len(texts)
    ray.shutdown()
