"""transformers: a classifier that Regard trained is loaded by AutoModel, with equal probabilities."""

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import regard

TINY = {"steps": 5, "threads": 1, "workers": 1}

texts, labels = ["a fine film", "a dull film"] * 40, ["good", "bad"] * 40
valid = (texts[:8], labels[:8])
run = regard.train(texts, labels, valid=valid, task="classification", for_="transformers", name="reviews", train=TINY)
report = regard.export(run, "exported", to="transformers")
print(report.message)

tokenizer = AutoTokenizer.from_pretrained("exported")
model = AutoModelForSequenceClassification.from_pretrained("exported")
with torch.inference_mode():
    batch = tokenizer("a fine end", return_tensors="pt", return_token_type_ids=False)
    expected = model(**batch).logits[0].softmax(-1)

output = regard.load(run, regard.SupervisedPredictor[regard.Classification])("a fine end")
for number, name in model.config.id2label.items():
    print(name, f"{expected[number]:.6f}", f"{output.probabilities[name]:.6f}")
    assert abs(float(expected[number]) - output.probabilities[name]) < 1e-4
