"""Hugging Face datasets and polars: the same model is the function of `map`."""

import datasets
import polars

import regard

TINY = {"steps": 5, "threads": 1, "workers": 1}

rows = {"text": ["a fine film", "a dull film"] * 40, "label": ["good", "bad"] * 40}
data = datasets.Dataset.from_dict(rows).train_test_split(20, seed=1)
run = regard.train(data["train"], valid=data["test"], task="classification", name="reviews", train=TINY)
model = regard.load(run, regard.SupervisedPredictor[regard.Classification])

predicted = data["test"].map(model, batched=True, batch_size=8)
print(predicted.column_names, predicted[0]["predicted_label"])

frame = polars.DataFrame({"text": ["a fine film", "a dull end"]})
print(model.map(frame, column="text").select("text", "predicted_label"))
