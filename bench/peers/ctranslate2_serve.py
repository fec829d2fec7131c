"""A thin server around CTranslate2, with the pieces of a run of ours: what somebody would write in an afternoon.

    python bench/peers/ctranslate2_serve.py RUN EXPORTED [--port 8000] [--threads 2] [--kind int8] [--beam 5]

RUN gives pieces to numbers, EXPORTED is the folder of ``regard export RUN EXPORTED --to ctranslate2``. It answers
``POST /v1/translate`` with ``{"text": …}`` as ``regard serve`` does. A request is a call of ``translate_batch`` in a
thread of its own; CTranslate2 has a worker a thread, and deals out what waits. Nothing else of a server is there: no
limits, no checks, no numbers put right.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ctranslate2
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from regard.runs.run_folder import RunFolder
from regard.tasks.translation.codecs import open_codecs
from regard.tasks.translation.config import translation_config


class Asked(BaseModel):
    text: str


def app(run: RunFolder, exported: Path, *, threads: int, kind: str, beam: int) -> FastAPI:
    source, target = open_codecs(run)
    search = translation_config(run).search
    translator = ctranslate2.Translator(str(exported), compute_type=kind, inter_threads=threads, intra_threads=1)
    numbers = {piece: number for number, piece in enumerate(target.pieces(range(len(target))))}
    pool, served = ThreadPoolExecutor(64), FastAPI()

    def translated(text: str) -> str:
        pieces = source.pieces(source.encode(text))
        found = translator.translate_batch(
            [pieces], beam_size=beam, length_penalty=search.length_penalty,
            max_decoding_length=len(pieces) + 1 + search.max_extra, min_decoding_length=0,
            suppress_sequences=[["<pad>"], ["<s>"]],
        )  # fmt: skip
        return target.decode(numbers[piece] for piece in found[0].hypotheses[0])

    @served.post("/v1/translate")
    async def translate(asked: Asked) -> dict[str, str]:
        return {"translation": await asyncio.get_running_loop().run_in_executor(pool, translated, asked.text)}

    @served.get("/readyz")
    async def ready() -> dict[str, str]:
        return {}

    return served


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("exported", type=Path)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kind", default="int8")
    parser.add_argument("--beam", type=int, default=5)
    given = parser.parse_args()
    served = app(RunFolder.open(given.run), given.exported, threads=given.threads, kind=given.kind, beam=given.beam)
    print(f"running on http://127.0.0.1:{given.port}", file=sys.stderr, flush=True)
    uvicorn.run(served, host="127.0.0.1", port=given.port, log_level="warning")


if __name__ == "__main__":
    main()
