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

test("for other tasks the text is sent unchanged and without search settings", async () => {
  const { asked, actions, state } = await openBook();
  state.form.text.value = " ab ";
  void actions.pickModel("book");
  await settled();
  expect(state.task.value).toBe("language-model");
  void actions.submit();
  expect(last(asked, "./v1/inspect").body).toEqual({ text: " ab ", model: "book", checkpoint: "best" });
  await last(asked, "./v1/inspect").answer(bookOf(" ab "));
  expect(state.inspection.value?.text).toBe(" ab ");
  expect(location.hash).toContain("model=book");
  state.form.text.value = " ab";
  expect(state.inspection.value).toBeNull();
});

test("the chosen head stays for a new text, and the default is the mean of the last attention", async () => {
  const { asked, actions, state } = await openBook();
  void actions.pickModel("book");
  await settled();
  state.form.text.value = "ab";
  void actions.submit();
  await last(asked, "./v1/inspect").answer(bookOf("ab"));
  expect(state.shown.value?.title).toBe("decoder.0.self, mean of the heads");
  state.choice.value = { attention: "decoder.0.self", head: 1 };
  expect([...state.shown.value!.matrix.values]).toEqual([9, 10, 11, 12, 13, 14, 15, 16, 17]);
  state.choice.value = { attention: "decoder.0.self", head: 2 };
  expect(state.settled.value).toEqual({ attention: "decoder.0.self", head: null });
});

test("the strip shows the influence on the chosen answer, or its row in the chosen head", async () => {
  const { asked, actions, state } = await openBook();
  const { strip, stripMode } = await import("../src/strip");
  void actions.pickModel("book");
  await settled();
  state.form.text.value = "ab";
  void actions.submit();
  const influences = [{ prediction: 2, surface: 0, values: [0.5, -1], hidden: "replaced" }];
  await last(asked, "./v1/inspect").answer({ ...bookOf("ab"), influences });
  expect(strip.value).toMatchObject({ mode: "influence", label: "x", lines: [{ pieces: ["a", "b"], values: [0.5, -1] }], min: -1, max: 0.5, note: "replaced" });
  stripMode.value = "attention";
  state.choice.value = { attention: "decoder.0.self", head: 0 };
  expect(strip.value).toMatchObject({ mode: "attention", lines: [{ pieces: ["<s>", "a", "b"], values: [6, 7, 8], hidden: [false, false, false] }] });
  state.place.value = -1;
  expect(strip.value?.lines[0].values).toEqual([0, 1, 2]);
  stripMode.value = "influence";
  expect(strip.value).toBeNull();
});

test("a request for an output contains only changed settings, and the output belongs to its input", async () => {
  const { asked, actions, predicting, state } = await openBook();
  void actions.pickModel("book");
  await settled();
  expect(predicting.settableFields(state.details.value?.settings).map(({ name, type, own }) => [name, type, own])).toEqual([["length", "integer", 30], ["greedy", "boolean", false]]);
  predicting.set("length", 5);
  predicting.set("greedy", true);
  predicting.set("greedy", null);
  state.form.text.value = "ab";
  void predicting.predict();
  expect(last(asked, "./v1/predict").body).toEqual({ inputs: ["ab"], model: "book", settings: { length: 5 } });
  await last(asked, "./v1/predict").answer({ outputs: [{ text: "abcd" }] });
  expect(predicting.output.value).toEqual({ input: "ab", result: { text: "abcd" } });
  expect(predicting.textOf(predicting.output.value!.result)).toBe("abcd");
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
])("a text is shown while it is generated, and an error at its end is shown", async (last_, shown, problem) => {
  const { asked, actions, predicting, state } = await openBook("ab", true, true);
  void actions.pickModel("book");
  await settled();
  predicting.set("length", 5);
  state.form.text.value = "ab";
  void predicting.predict();
  expect(last(asked, "./v1/generate").body).toEqual({ prompt: "ab", model: "book", length: 5, stream: true });
  const begun = 'data: {"text": "é", "finish_reason": null}\n\ndata: {"text": "c", "finish_reason": null}\n\n';
  await last(asked, "./v1/generate").answer(streamed(begun + last_));
  await settled();
  expect(predicting.output.value).toEqual({ input: "ab", result: { text: shown } });
  expect(state.status.predict.value).toEqual({ busy: false, problem });
});

test("a model that cannot be inspected gets no inspection request", async () => {
  const { asked, actions, state } = await openBook("ab", false);
  void actions.pickModel("book");
  await settled();
  state.form.text.value = "abc";
  const before = asked.length;
  await actions.submit();
  expect(asked.length).toBe(before);
});

test("the shade increases up to six nats", async () => {
  const { predicting } = await openBook();
  expect([0, -3, -6, -60, null].map(predicting.surprise)).toEqual([0, 0.5, 1, 1, 1]);
});

test("a baseline without a network predicts and is not inspected; a checkpoint with a network is", async () => {
  const details = { task: "translation", takes: "a text", checkpoints: ["200", "best", "baseline"], checkpoint: "baseline", inspects: false, settings: null };
  const { asked, actions, predicting, state } = await openPage("#text=ab", ["one"], { entries: { one: { task: "translation" } }, details: { one: details } });
  void actions.start();
  await settled();
  expect([state.isBaseline.value, state.translates.value]).toEqual([true, false]);
  expect(asked).toEqual([]);
  void predicting.predict();
  await last(asked, "./v1/predict").answer({ outputs: [{ text: "AB" }] });
  expect(predicting.textOf(predicting.output.value?.result)).toBe("AB");
  state.form.checkpoint.value = "best";
  expect([state.isBaseline.value, state.translates.value]).toEqual([false, true]);
  void actions.submit();
  expect(last(asked, "./v1/inspect").body).toMatchObject({ text: "ab", checkpoint: "best" });
});
