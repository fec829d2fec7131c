import { afterEach, expect, test, vi } from "vitest";
import { floats } from "./floats";
import { attentionOf, documentOf, openPage, predictionOf, settled, surfaceOf, type Asked } from "./server";

afterEach(() => vi.unstubAllGlobals());

const SCHEMA = {
  properties: {
    length: { anyOf: [{ type: "integer", minimum: 1 }, { type: "null" }], description: "Tokens at most." },
    greedy: { type: "boolean" },
    note: { type: "string" },
  },
};

function bookOf(text: string) {
  const labels = ["<s>", ...text];
  const weights = floats([2, labels.length, labels.length], Array.from({ length: 2 * labels.length ** 2 }, (_, index) => index));
  return documentOf({
    model: { name: "book", task: "language-model", checkpoint: "best" }, text, surfaces: [surfaceOf([...text])],
    predictions: labels.map((_, place) => predictionOf("after", [place - 1], text[place] ?? "x", { kind: "token" })),
    attention: { "decoder.0.self": attentionOf("decoder", 0, "self", weights, labels, labels) },
  });
}

async function openBook(text = "ab", inspects = true, streams = false) {
  const entries = { book: { task: "language-model" } };
  const details = { task: "language-model", takes: "a text", examples: [], search: undefined, inspects, streams, settings: { values: { length: 30, greedy: false, note: null }, schema: SCHEMA } };
  const page = await openPage(`#text=${text}`, ["one", "book"], { entries, details: { book: details } });
  void page.actions.start();
  await settled();
  await page.actions.pickModel("one");
  return page;
}

const last = (asked: Asked[], path: string) => asked.filter((each) => each.path === path).at(-1)!;

test("a model of another task is looked into with the text as it stands, and without a search", async () => {
  const { asked, actions, state } = await openBook();
  state.asking.text.value = " ab ";
  void actions.pickModel("book");
  await settled();
  expect(state.task.value).toBe("language-model");
  void actions.submit();
  expect(last(asked, "./v1/inspect").body).toEqual({ text: " ab ", model: "book", checkpoint: "best" });
  await last(asked, "./v1/inspect").answer(bookOf(" ab "));
  expect(state.inspection.value?.text).toBe(" ab ");
  expect(location.hash).toContain("model=book");
  state.asking.text.value = " ab";
  expect(state.inspection.value).toBeNull();
});

test("the chosen head stays if another text has it, and the mean of the last attention is the default", async () => {
  const { asked, actions, state } = await openBook();
  void actions.pickModel("book");
  await settled();
  state.asking.text.value = "ab";
  void actions.submit();
  await last(asked, "./v1/inspect").answer(bookOf("ab"));
  expect(state.shown.value?.title).toBe("decoder.0.self, mean of the heads");
  state.choice.value = { attention: "decoder.0.self", head: 1 };
  expect([...state.shown.value!.matrix.values]).toEqual([9, 10, 11, 12, 13, 14, 15, 16, 17]);
  state.choice.value = { attention: "decoder.0.self", head: 2 };
  expect(state.settled.value).toEqual({ attention: "decoder.0.self", head: null });
});

test("the strip has the influence on the chosen answer, or the row of a head that it was read from", async () => {
  const { asked, actions, state } = await openBook();
  const { strip, stripMode } = await import("../src/strip");
  void actions.pickModel("book");
  await settled();
  state.asking.text.value = "ab";
  void actions.submit();
  const influences = [{ prediction: 2, surface: 0, values: [0.5, -1], hidden: "replaced" }];
  await last(asked, "./v1/inspect").answer({ ...bookOf("ab"), influences });
  expect(strip.value).toMatchObject({ mode: "influence", label: "x", lines: [{ pieces: ["a", "b"], values: [0.5, -1] }], least: -1, most: 0.5, note: "replaced" });
  stripMode.value = "attention";
  state.choice.value = { attention: "decoder.0.self", head: 0 };
  expect(strip.value).toMatchObject({ mode: "attention", lines: [{ pieces: ["<s>", "a", "b"], values: [6, 7, 8], hidden: [false, false, false] }] });
  state.place.value = -1;
  expect(strip.value?.lines[0].values).toEqual([0, 1, 2]);
  stripMode.value = "influence";
  expect(strip.value).toBeNull();
});

test("an output is asked for with what was set alone, and belongs to its input", async () => {
  const { asked, actions, predicting, state } = await openBook();
  void actions.pickModel("book");
  await settled();
  expect(predicting.settableFields(state.details.value?.settings).map(({ name, type, own }) => [name, type, own])).toEqual([["length", "integer", 30], ["greedy", "boolean", false]]);
  predicting.set("length", 5);
  predicting.set("greedy", true);
  predicting.set("greedy", null);
  state.asking.text.value = "ab";
  void predicting.predict();
  expect(last(asked, "./v1/predict").body).toEqual({ inputs: ["ab"], model: "book", settings: { length: 5 } });
  await last(asked, "./v1/predict").answer({ outputs: [{ text: "abcd" }] });
  expect(predicting.output.value).toEqual({ input: "ab", found: { text: "abcd" } });
  expect(predicting.textOf(predicting.output.value!.found)).toBe("abcd");
  expect([predicting.textOf(3), predicting.textOf(null), predicting.textOf({ text: 1 })]).toEqual([null, null, null]);
  await actions.pickModel("one");
  expect([predicting.output.value, state.settings.value]).toEqual([null, {}]);
});

/** A response in two parts, cut where it may not be. */
function streamed(text: string): Response {
  const bytes = new TextEncoder().encode(text);
  const cut = bytes.findIndex((byte) => byte > 127) + 1;
  return new Response(new ReadableStream({ start: (to) => (to.enqueue(bytes.slice(0, cut)), to.enqueue(bytes.slice(cut)), to.close()) }));
}

test.each([
  ['data: {"text": "c", "finish_reason": "end"}\n\n', "abécc", ""],
  ['event: error\ndata: {"error": "This took long."}\n\n', "abéc", "This took long."],
  ["", "abéc", "The server stopped before the text was complete. Try again."],
])("a text is shown as it grows, and what ends it is told", async (last_, shown, problem) => {
  const { asked, actions, predicting, state } = await openBook("ab", true, true);
  void actions.pickModel("book");
  await settled();
  predicting.set("length", 5);
  state.asking.text.value = "ab";
  void predicting.predict();
  expect(last(asked, "./v1/generate").body).toEqual({ prompt: "ab", model: "book", length: 5, stream: true });
  const begun = 'data: {"text": "é", "finish_reason": null}\n\ndata: {"text": "c", "finish_reason": null}\n\n';
  await last(asked, "./v1/generate").answer(streamed(begun + last_));
  await settled();
  expect(predicting.output.value).toEqual({ input: "ab", found: { text: shown } });
  expect(state.status.predict.value).toEqual({ busy: false, problem });
});

test("a model that cannot be looked into is not asked to", async () => {
  const { asked, actions, state } = await openBook("ab", false);
  void actions.pickModel("book");
  await settled();
  state.asking.text.value = "abc";
  const before = asked.length;
  await actions.submit();
  expect(asked.length).toBe(before);
});

test("shades run from expected to six nats", async () => {
  const { predicting } = await openBook();
  expect([0, -3, -6, -60, null].map(predicting.surprise)).toEqual([0, 0.5, 1, 1, 1]);
});

test("a baseline alone predicts and is not looked into; its network is, under its own name", async () => {
  const details = { task: "translation", takes: "a text", checkpoints: ["200", "best", "baseline"], checkpoint: "baseline", inspects: false, settings: null };
  const { asked, actions, predicting, state } = await openPage("#text=ab", ["one"], { entries: { one: { task: "translation" } }, details: { one: details } });
  void actions.start();
  await settled();
  expect([state.alone.value, state.translates.value]).toEqual([true, false]);
  expect(asked).toEqual([]);
  void predicting.predict();
  await last(asked, "./v1/predict").answer({ outputs: [{ text: "AB" }] });
  expect(predicting.textOf(predicting.output.value?.found)).toBe("AB");
  state.asking.checkpoint.value = "best";
  expect([state.alone.value, state.translates.value]).toEqual([false, true]);
  void actions.submit();
  expect(last(asked, "./v1/inspect").body).toMatchObject({ text: "ab", checkpoint: "best" });
});
