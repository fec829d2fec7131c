"""Batch prediction without Ray: two processes read blocks of files, and the same call resumes the work."""

from pathlib import Path

import regard

TINY = {"steps": 5, "threads": 1, "workers": 1}

if __name__ == "__main__":  # the workers are processes
    texts, labels = ["a fine film", "a dull film"] * 40, ["good", "bad"] * 40
    valid = (texts[:8], labels[:8])
    run = regard.train(texts, labels, valid=valid, task="classification", name="reviews", train=TINY)

    Path("new.txt").write_text("".join(f"a fine film {number}\n" for number in range(200)))
    result = regard.predict_files(run, "new.txt", output="labeled", workers=2, block=100, threads=2)
    print(f"{result.lines} lines, {result.quarantined} failed")
    lines = Path("labeled/new.txt").read_text().splitlines()
    assert len(lines) == 200
    print(lines[0])
