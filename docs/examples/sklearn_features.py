"""scikit-learn: vectors of a model are the features of another one, and the index of a search."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import NearestNeighbors

import regard

TINY = {"steps": 5, "threads": 1, "workers": 1}

texts = [f"{word} {noun} {number}" for number in range(10) for word in ("fine", "dull") for noun in ("film", "plot")]
labels = ["good" if text.startswith("fine") else "bad" for text in texts]

run = regard.train(texts, valid=texts[:8], task="masked", name="encoder", train=TINY)  # needs no labels
model = regard.load(run, regard.Filler)
vectors = model.embed(texts)
print(vectors.shape, vectors.dtype)

scores = cross_val_score(LogisticRegression(max_iter=1000), vectors, labels, cv=4)
print(f"accuracy {np.mean(scores):.2f}")

index = NearestNeighbors(n_neighbors=3, metric="cosine").fit(vectors)
distances, numbers = index.kneighbors(model.embed(["dull film 3"]))
for distance, number in zip(distances[0], numbers[0], strict=True):
    print(f"{1 - distance:.3f} {texts[number]}")
