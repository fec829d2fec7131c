import { afterEach, expect, test, vi } from "vitest";
import { floats } from "./floats";
import { openPage, settled, type Asked } from "./server";

afterEach(() => vi.unstubAllGlobals());

const SCHEMA = {
  properties: {
    length: { anyOf: [{ type: "integer", minimum: 1 }, { type: "null" }], description: "Tokens at most." },
    greedy: { type: "boolean" },
    note: { type: "string" },
  },
};

function observationOf(text: string) {
  const axis = { name: "token", labels: ["<s>", ...text] };
  const size = axis.labels.length;
  const weights = floats([2, size, size], Array.from({ length: 2 * size * size }, (_, index) => index));
  const steps = [...text].map((label) => ({ label, log_probability: -1, alternatives: [] }));
  return {
    format: "regard-observation", version: 1, model: { name: "book", task: "language-model", checkpoint: "best" }, text,
    attention: { "layers.0.self": { weights, query: axis, key: axis } }, steps, following: [],
  };
}

async function openBook(text = "ab", inspects = true, streams = false) {
  const entries = { book: { task: "language-model" } };
  const details = { task: "language-model", takes: "a text", example: null, search: undefined, inspects, streams, settings: { values: { length: 30, greedy: false, note: null }, schema: SCHEMA } };
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
  void actions.translateText();
  expect(last(asked, "./v1/inspect").body).toEqual({ text: " ab ", model: "book", checkpoint: "best" });
  await last(asked, "./v1/inspect").answer(observationOf(" ab "));
  expect(state.observation.value?.text).toBe(" ab ");
  expect(state.inspection.value).toBeNull();
  expect(location.hash).toContain("model=book");
  state.asking.text.value = " ab";
  expect(state.observation.value).toBeNull();
});

test("the chosen head stays where another text has it, and the mean of the last place is the default", async () => {
  const { asked, actions, observing, state } = await openBook();
  void actions.pickModel("book");
  await settled();
  state.asking.text.value = "ab";
  void actions.translateText();
  await last(asked, "./v1/inspect").answer(observationOf("ab"));
  expect(observing.placeView.value?.title).toBe("layers.0.self, mean of its heads");
  observing.head.value = { place: "layers.0.self", head: 1 };
  expect([...observing.placeView.value!.matrix.values]).toEqual([9, 10, 11, 12, 13, 14, 15, 16, 17]);
  observing.head.value = { place: "layers.0.self", head: 2 };
  expect(observing.settledHead.value?.head).toBeNull();
});

test("an output is asked for with what was set alone, and belongs to its input", async () => {
  const { asked, actions, observing, state } = await openBook();
  void actions.pickModel("book");
  await settled();
  expect(observing.settableFields(state.details.value?.settings).map(({ name, type, own }) => [name, type, own])).toEqual([["length", "integer", 30], ["greedy", "boolean", false]]);
  observing.set("length", 5);
  observing.set("greedy", true);
  observing.set("greedy", null);
  state.asking.text.value = "ab";
  void observing.predict();
  expect(last(asked, "./v1/predict").body).toEqual({ inputs: ["ab"], model: "book", settings: { length: 5 } });
  await last(asked, "./v1/predict").answer({ outputs: [{ text: "abcd" }] });
  expect(observing.output.value).toEqual({ input: "ab", found: { text: "abcd" } });
  expect(observing.textOf(observing.output.value!.found)).toBe("abcd");
  expect([observing.textOf(3), observing.textOf(null), observing.textOf({ text: 1 })]).toEqual([null, null, null]);
  await actions.pickModel("one");
  expect([observing.output.value, observing.wanted.value]).toEqual([null, {}]);
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
  ["", "abéc", "The server stopped before the text was whole."],
])("a text is shown as it grows, and what ends it is told", async (last_, shown, problem) => {
  const { asked, actions, observing, state } = await openBook("ab", true, true);
  void actions.pickModel("book");
  await settled();
  observing.set("length", 5);
  state.asking.text.value = "ab";
  void observing.predict();
  expect(last(asked, "./v1/generate").body).toEqual({ prompt: "ab", model: "book", length: 5, stream: true });
  const begun = 'data: {"text": "é", "finish_reason": null}\n\ndata: {"text": "c", "finish_reason": null}\n\n';
  await last(asked, "./v1/generate").answer(streamed(begun + last_));
  await settled();
  expect(observing.output.value).toEqual({ input: "ab", found: { text: shown } });
  expect(state.status.predict.value).toEqual({ busy: false, problem });
});

test("a model that cannot be looked into is not asked to", async () => {
  const { asked, actions, state } = await openBook("ab", false);
  void actions.pickModel("book");
  await settled();
  state.asking.text.value = "abc";
  const before = asked.length;
  await actions.translateText();
  expect(asked.length).toBe(before);
});

test("shades run from expected to six nats", async () => {
  const { observing } = await openBook();
  expect([0, -3, -6, -60, null].map(observing.surprise)).toEqual([0, 0.5, 1, 1, 1]);
});

test("a baseline alone predicts and is not looked into; its network is, under its own name", async () => {
  const details = { task: "translation", takes: "a text", checkpoints: ["200", "best", "baseline"], checkpoint: "baseline", inspects: false, settings: null };
  const { asked, actions, observing, state } = await openPage("#text=ab", ["one"], { entries: { one: { task: "translation" } }, details: { one: details } });
  void actions.start();
  await settled();
  expect([state.alone.value, state.translates.value]).toEqual([true, false]);
  expect(asked).toEqual([]);
  void observing.predict();
  await last(asked, "./v1/predict").answer({ outputs: [{ text: "AB" }] });
  expect(observing.textOf(observing.output.value?.found)).toBe("AB");
  state.asking.checkpoint.value = "best";
  expect([state.alone.value, state.translates.value]).toEqual([false, true]);
  void actions.translateText();
  expect(last(asked, "./v1/inspect").body).toMatchObject({ text: "ab", checkpoint: "best" });
});
