"""pandas: train on a DataFrame, and add the predictions for another one as columns."""

import pandas

import regard

TINY = {"steps": 5, "threads": 1, "workers": 1}  # leave this out for a real training

reviews = pandas.DataFrame({"body": ["a fine film", "a dull film"] * 40, "verdict": ["good", "bad"] * 40})
columns = {"text": "body", "label": "verdict"}
run = regard.train(reviews[:60], valid=reviews[60:], task="classification", data=columns, name="reviews", train=TINY)

model = regard.load(run, regard.SupervisedPredictor[regard.Classification])
table = model.map(reviews[60:])
print(table[["body", "verdict", "predicted_label", "predicted_probability"]].head())
print(pandas.crosstab(table["verdict"], table["predicted_label"]))

titles = pandas.Series(["a fine film", "a dull end"], index=[7, 9])
print([output.label for output in model(titles)])  # a Series is an iterable of inputs
