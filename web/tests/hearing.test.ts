import { expect, test } from "vitest";
import { heardAfter, heardText, NOTHING, pcmOf, type HeardStep } from "../src/hearing";

const stepOf = (more: Partial<HeardStep>): HeardStep => ({ seconds: 0, committed: "", new: "", unstable: "", final: false, words: [], ...more });

test("a delay is the sound from the end of a word to its commit", () => {
  let heard = heardAfter(NOTHING, stepOf({ seconds: 1, unstable: "a dog" }));
  expect(heardText(heard)).toEqual({ committed: "", unstable: "a dog" });
  heard = heardAfter(heard, stepOf({ seconds: 1.5, committed: "a", new: "a", unstable: " dog", words: [{ word: "a", start: 0.1, end: 0.4 }] }));
  expect(heardText(heard)).toEqual({ committed: "a", unstable: " dog" });
  expect(heard.delays).toEqual([{ word: "a", delay: 1.1 }]);
});

test("a closed segment stays before the next one", () => {
  let heard = heardAfter(NOTHING, stepOf({ seconds: 2, committed: "a dog", new: "a dog", final: true }));
  expect(heardText(heard)).toEqual({ committed: "a dog", unstable: "" });
  heard = heardAfter(heard, stepOf({ seconds: 2.5, unstable: "runs" }));
  expect(heardText(heard)).toEqual({ committed: "a dog", unstable: " runs" });
  heard = heardAfter(heard, stepOf({ seconds: 3, committed: "runs", new: "runs", unstable: " home" }));
  expect(heardText(heard)).toEqual({ committed: "a dog runs", unstable: " home" });
});

test("samples become 16-bit numbers, and what is too loud is clipped", () => {
  const numbers = new Int16Array(pcmOf(new Float32Array([0, 0.5, -1, 2, -2])));
  expect([...numbers]).toEqual([0, 16384, -32767, 32767, -32767]);
});
