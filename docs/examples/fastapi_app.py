"""FastAPI: a route around a predictor. `regard serve RUN` is a complete server, with batches and metrics."""

import asyncio

from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient
from pydantic import BaseModel

import regard

TINY = {"steps": 5, "threads": 1, "workers": 1}

texts, labels = ["a fine film", "a dull film"] * 40, ["good", "bad"] * 40
valid = (texts[:8], labels[:8])
run = regard.train(texts, labels, valid=valid, task="classification", name="reviews", train=TINY)
model = regard.load(run, regard.SupervisedPredictor[regard.Classification])
app = FastAPI()


class Review(BaseModel):
    texts: list[str]


@app.post("/classify")
async def classify(review: Review) -> list[dict[str, float]]:
    try:  # in a thread, so the event loop is free: a predictor may be called from several threads
        outputs = await asyncio.to_thread(model, review.texts)
    except regard.DataError as error:
        raise HTTPException(422, str(error)) from error
    return [output.probabilities for output in outputs]


client = TestClient(app)  # or: uvicorn fastapi_app:app
response = client.post("/classify", json={"texts": ["a fine film", "a dull end"]})
print(response.status_code, response.json())
assert response.status_code == 200
