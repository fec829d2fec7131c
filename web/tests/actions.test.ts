import { afterEach, expect, test, vi } from "vitest";
import { inspectionOf, openExample, openPage, settled } from "./server";

afterEach(() => vi.unstubAllGlobals());

test("the first visit inspects the first example and does not change the address", async () => {
  const { asked, state } = await openExample();
  expect(asked[0].body).toMatchObject({ text: "Example of one.", model: "one", nbest: 4 });
  expect([state.form.text.value, state.isExample.value]).toEqual(["Example of one.", true]);
  expect(state.inspection.value?.search?.output).toBe("EXAMPLE OF ONE.");
  expect(location.hash).toBe("");
});

test("a text in the address replaces the example", async () => {
  const { asked, actions, state } = await openPage("#text=A+dog.");
  void actions.start();
  await settled();
  expect(asked.map(({ body }) => body.text)).toEqual(["A dog."]);
  expect(state.isExample.value).toBe(false);
});

test("typing hides the results, and typing the old text again shows them", async () => {
  const { state } = await openExample();
  state.form.text.value = "Example of one, but";
  expect(state.inspection.value).toBeNull();
  state.form.text.value = "  Example of one.\n";
  expect(state.inspection.value).not.toBeNull();
});

test.each(["checkpoint", "beam", "lengthPenalty"] as const)("changing %s hides the results", async (what) => {
  const { state } = await openExample();
  (state.form[what] as { value: unknown }).value = what === "checkpoint" ? "100" : 2;
  expect(state.inspection.value).toBeNull();
});

test("typing stops the running request, and its late response is dropped", async () => {
  const { asked, actions, state } = await openExample();
  state.form.text.value = "first";
  void actions.submit();
  const first = asked.at(-1)!;
  state.form.text.value = "second";
  expect(first.signal?.aborted).toBe(true);
  expect(state.status.translate.value.busy).toBe(false);
  await first.answer(inspectionOf("first"));
  state.form.text.value = "first";
  expect(state.inspection.value).toBeNull();
});

test("the late response of an earlier request is dropped", async () => {
  const { asked, actions, state } = await openExample();
  state.form.text.value = "first";
  void actions.submit();
  state.form.text.value = "second";
  void actions.submit();
  const [first, second] = asked.slice(-2);
  await second.answer(inspectionOf("second"));
  await first.answer(inspectionOf("first"));
  expect(state.inspection.value?.search?.output).toBe("SECOND");
});

test("late parts of an earlier inspection are not added to a new one", async () => {
  const { asked, actions, state } = await openExample();
  const [extras, why] = asked.slice(-2);
  expect(extras.body.include).toEqual(["ablation", "beam", "lens"]);
  expect(why.body.include).toEqual(["influence"]);
  void actions.loadVectors();
  void actions.loadOther("one", "100");
  const old = [extras, why, ...asked.slice(-2)];
  state.form.text.value = "new";
  void actions.submit();
  await asked.at(-1)!.answer(inspectionOf("new"));
  for (const each of old) await each.answer(inspectionOf("old", { beam: [], ablation: {}, vectors: {}, influences: [{ prediction: 0, surface: 0, values: [1, 0], hidden: "" }] }));
  expect(state.inspection.value?.search?.output).toBe("NEW");
  expect([state.inspection.value?.beam, state.inspection.value?.vectors, state.inspection.value?.influences, state.other.value]).toEqual([undefined, undefined, [], null]);
});

test("a new model starts with its example; a text of the user stays and is not translated", async () => {
  const { asked, actions, state } = await openExample();
  const before = asked.length;
  void actions.pickModel("two");
  expect(state.inspection.value).toBeNull();
  await settled();
  expect(asked.slice(before).map(({ body }) => [body.text, body.model])).toEqual([["Example of two.", "two"]]);
  state.form.text.value = "mine";
  await actions.pickModel("one");
  expect([asked.length, state.form.text.value]).toEqual([before + 1, "mine"]);
});

test("the chosen output and sentence are requested, and a new text resets them", async () => {
  const { asked, actions, state } = await openExample();
  void actions.chooseCandidate(2);
  expect(asked.at(-1)!.body).toMatchObject({ text: "Example of one.", candidate: 2 });
  expect(state.inspection.value).not.toBeNull(); // it is of the same text, and stays until the other comes
  void actions.chooseSentence(1);
  expect(asked.at(-1)!.body).toMatchObject({ sentence: 1 });
  expect(asked.at(-1)!.body.candidate).toBeUndefined();
  state.form.text.value = "new";
  void actions.submit();
  expect(asked.at(-1)!.body).not.toHaveProperty("sentence");
});

test("a choice is undone if the server rejects it", async () => {
  const { asked, actions, state } = await openExample();
  void actions.chooseCandidate(3);
  await asked.at(-1)!.answer({ error: "Slowdown: 120 per 1 minute" }, 429);
  expect(state.form.candidate.value).toBe(0);
  expect(state.status.translate.value.problem).toContain("too many requests");
});

test("a text with several sentences is translated as a whole, once", async () => {
  const { asked, actions, state } = await openExample();
  const found = inspectionOf("A.", { sentences: ["A.", "B."], sentence: 0 });
  state.form.text.value = "A. B.";
  void actions.submit();
  await asked.at(-1)!.answer(found);
  const whole = asked.find(({ path }) => path === "./v1/translate")!;
  expect(whole.body).toEqual({ text: "A. B.", model: "one" });
  await whole.answer({ translations: [{ text: "a. b." }] });
  expect(state.whole.value).toBe("a. b.");
  void actions.chooseSentence(1);
  await asked.at(-1)!.answer({ ...found, sentence: 1 });
  expect(asked.filter(({ path }) => path === "./v1/translate")).toHaveLength(1);
});

test("a text that is too long is not sent", async () => {
  const { asked, actions, state } = await openExample();
  const before = asked.length;
  state.form.text.value = "a".repeat(41);
  await actions.submit();
  expect(asked).toHaveLength(before);
  expect(state.status.translate.value.problem).toContain("41 characters");
});

test("the replay loads checkpoints with equal weights once", async () => {
  const { asked, actions } = await openExample();
  void actions.loadReplay();
  await asked.at(-1)!.answer(inspectionOf("x"));
  await asked.at(-1)!.answer(inspectionOf("x"));
  expect(asked.slice(-2).map(({ body }) => body.checkpoint)).toEqual(["100", "200"]);
});

test("a file is sent with the name of the model, and an unsupported file is not sent", async () => {
  const { asked, actions, state } = await openExample();
  await actions.loadFile(new File(["x"], "a.pdf"));
  expect(state.status.file.value.problem).toContain(".txt, .md");
  await actions.loadFile(new File(["x".repeat(41)], "a.txt"));
  expect(state.status.file.value.problem).toContain("too long");
  void actions.loadFile(new File(["A dog."], "notes.md"));
  await settled();
  expect(asked.at(-1)!.path).toBe("./translate_file");
  await asked.at(-1)!.answer({ translatedFileUrl: "http://elsewhere:1/download_file/abc.md" });
  expect(asked.at(-1)!.path).toBe("./download_file/abc.md");
  await asked.at(-1)!.answer("x");
  expect(state.translatedFile.value?.name).toBe("notes.de.md");
  void actions.pickModel("two");
  expect(state.translatedFile.value).toBeNull();
});

test("Enter before the model is loaded inspects the text later; a text without Enter is not inspected", async () => {
  for (const enter of [true, false]) {
    const { asked, actions, state } = await openPage();
    void actions.start();
    state.form.text.value = "early";
    if (enter) void actions.submit();
    await settled();
    expect(asked.map(({ body }) => body.text)).toEqual(enter ? ["early"] : []);
    expect(state.details.value?.name).toBe("one");
  }
});

test("submitting after a failed start loads the models again and uses the current text", async () => {
  const { asked, actions, state } = await openPage("#text=old");
  const server = globalThis.fetch;
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("no network")));
  await actions.start();
  expect(state.status.translate.value.problem).toContain("does not respond");
  expect(asked).toHaveLength(0);
  vi.stubGlobal("fetch", server);
  state.form.text.value = "new";
  void actions.submit();
  await settled();
  expect(asked.map(({ body }) => body.text)).toEqual(["new"]);
});

test("a link opens with its head, piece and cell, and a new text resets piece and cell", async () => {
  const { asked, actions, state } = await openPage("#text=A+dog.&head=decoder.0.source%3A1&cell=1%2C0&lock=query%3A1&show=attention");
  actions.followView();
  void actions.start();
  await settled();
  await asked[0].answer(inspectionOf("A dog."));
  const { lock } = await import("../src/view");
  expect([state.choice.value, state.cell.value, lock.value?.at]).toEqual([{ attention: "decoder.0.source", head: 1 }, { query: 1, key: 0 }, { side: "query", index: 1 }]);
  state.choice.value = { attention: "decoder.0.source", head: 0 };
  expect(location.hash).toContain("head=decoder.0.source%3A0");
  state.form.text.value = "A cat.";
  void actions.submit();
  await asked.at(-1)!.answer(inspectionOf("A cat."));
  expect([state.choice.value, state.cell.value, lock.value]).toEqual([{ attention: "decoder.0.source", head: 0 }, null, null]);
  expect(location.hash).not.toContain("cell");
});

test("the error for an unknown model in a link lists the served models", async () => {
  const { asked, actions, state } = await openPage("#text=A+dog.&model=gone");
  await actions.start();
  expect(asked).toEqual([]);
  expect(state.status.translate.value.problem).toBe("This server has no model “gone”; available models: one, two.");
  await actions.pickModel("two");
  expect(state.details.value?.name).toBe("two");
});
