import { afterEach, expect, test, vi } from "vitest";
import { advanced, EMPTY, shownText, wordsOf, type StreamAnswer } from "../src/arriving";
import { openPage, settled } from "./server";

afterEach(() => vi.unstubAllGlobals());

const answerOf = (more: Partial<StreamAnswer>): StreamAnswer => ({ committed: "", new: "", unstable: "", final: false, rest: "", read: 0, cursor: "", ...more });

test("delays are those of the commit of each word", () => {
  let stream = advanced(EMPTY, "A dog ", answerOf({ unstable: "Ein Hund", read: 2 }));
  expect(stream.delays).toEqual([]);
  stream = advanced(stream, "A dog runs ", answerOf({ committed: "Ein Hund", new: "Ein Hund", unstable: " rennt", read: 3 }));
  expect(stream.delays).toEqual([{ word: "Ein", delay: 3 }, { word: "Hund", delay: 3 }]);
  expect(shownText(stream)).toEqual({ committed: "Ein Hund", unstable: " rennt" });
  stream = advanced(stream, "A dog runs home. ", answerOf({ committed: "Ein Hund.", new: ".", read: 4 }));
  expect(stream.delays[1]).toEqual({ word: "Hund.", delay: 4 }); // punctuation was added
});

test("a sentence that is closed makes room for the next one", () => {
  const text = "A dog. A cat ";
  let stream = advanced(EMPTY, text, answerOf({ committed: "Ein Hund.", new: "Ein Hund.", final: true, rest: "A cat ", read: 2 }));
  expect(stream.closed).toBe("A dog. ");
  expect(stream.answer).toBeNull();
  stream = advanced(stream, text, answerOf({ committed: "Eine", new: "Eine", unstable: " Katze", read: 1 }));
  expect(shownText(stream)).toEqual({ committed: "Ein Hund. Eine", unstable: " Katze" });
  expect(stream.delays.map(({ word }) => word)).toEqual(["Ein", "Hund.", "Eine"]);
});

test("words are separated by any white space", () => {
  expect(wordsOf("  a\tb\n c ")).toEqual(["a", "b", "c"]);
  expect(wordsOf(" ")).toEqual([]);
});

async function openStream() {
  const page = await openPage();
  void page.actions.start();
  await settled();
  page.asked.length = 0;
  return { ...page, streaming: await import("../src/streaming") };
}

test("one request runs at a time, and the newest source follows", async () => {
  const { asked, streaming } = await openStream();
  for (const text of ["A ", "A d", "A dog ", "A dog runs "]) {
    streaming.source.value = text;
    void streaming.follow();
  }
  expect(asked.map(({ body }) => body.text)).toEqual(["A "]);
  await asked[0].answer(answerOf({ unstable: "Ein", read: 1, cursor: "1-a" }));
  expect(asked).toHaveLength(2);
  expect(asked[1].body).toMatchObject({ text: "A dog runs ", committed: "", unstable: "Ein", cursor: "1-a", final: false, policy: "local-agreement", lag: 1 });
  await asked[1].answer(answerOf({ committed: "Ein", new: "Ein", read: 3, cursor: "3-b" }));
  expect(asked).toHaveLength(2);
  expect(shownText(streaming.current.value).committed).toBe("Ein");
});

test("a source that was changed is translated again from the beginning", async () => {
  const { asked, streaming } = await openStream();
  streaming.source.value = "A dog ";
  void streaming.follow();
  await asked[0].answer(answerOf({ committed: "Ein", new: "Ein", read: 2, cursor: "2-a" }));
  streaming.source.value = "A cat ";
  void streaming.follow();
  await asked[1].answer({ error: "the beginning of the source has changed" }, 409);
  expect(asked[2].body).toMatchObject({ text: "A cat ", committed: "", cursor: "" });
  expect(streaming.restarted.value).toBe(true);
  await asked[2].answer(answerOf({ unstable: "Eine", read: 2 }));
  expect(shownText(streaming.current.value)).toEqual({ committed: "", unstable: "Eine" });
});

test("a policy that the model does not support is reported, and another one starts again", async () => {
  const { asked, streaming } = await openStream();
  streaming.source.value = "A dog ";
  streaming.choosePolicy("alignatt");
  expect(asked[0].body).toMatchObject({ policy: "alignatt", lag: 2 });
  await asked[0].answer({ error: "alignatt requires attention" }, 400);
  expect(streaming.problem.value).toBe("Alignatt requires attention.");
  streaming.choosePolicy("wait-k");
  expect(asked[1].body).toMatchObject({ policy: "wait-k", lag: 5, cursor: "" });
  expect(streaming.problem.value).toBe("");
});

test("the end of a source completes it", async () => {
  const { asked, streaming } = await openStream();
  streaming.source.value = "A dog";
  void streaming.follow(true);
  expect(asked[0].body).toMatchObject({ text: "A dog", final: true });
  await asked[0].answer(answerOf({ committed: "Ein Hund", new: "Ein Hund", final: true, read: 2 }));
  expect(asked).toHaveLength(1);
  streaming.source.value = "A dog";
  void streaming.follow();
  expect(asked).toHaveLength(1); // nothing is left to translate
});

test("an answer to an earlier policy is dropped", async () => {
  const { asked, streaming } = await openStream();
  streaming.source.value = "A dog ";
  void streaming.follow();
  streaming.choosePolicy("wait-k");
  await asked[0].answer(answerOf({ committed: "Falsch", new: "Falsch", read: 2, cursor: "2-a" }));
  expect(asked[1].body).toMatchObject({ policy: "wait-k", committed: "", cursor: "" });
  expect(shownText(streaming.current.value).committed).toBe("");
});

test("another model starts again", async () => {
  const { asked, state, streaming } = await openStream();
  streaming.source.value = "A dog ";
  void streaming.follow();
  await asked[0].answer(answerOf({ committed: "Ein", new: "Ein", read: 2, cursor: "2-a" }));
  state.details.value = { ...state.details.value!, name: "two" };
  streaming.source.value = "A dog runs ";
  void streaming.follow();
  expect(asked[1].body).toMatchObject({ model: "two", committed: "", cursor: "" });
});

test("a conflict at the beginning of a stream is an error and no loop", async () => {
  const { asked, streaming } = await openStream();
  streaming.source.value = "A dog ";
  void streaming.follow();
  await asked[0].answer({ error: "conflict" }, 409);
  expect(asked).toHaveLength(1);
  expect(streaming.problem.value).toBe("Conflict.");
});
