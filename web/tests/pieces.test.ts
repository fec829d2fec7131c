import { parseMidi } from "midi-file";
import { afterEach, expect, test, vi } from "vitest";
import { glossaryOf } from "../src/glossary";
import { crossings, distances, edgeWeight, layGraph } from "../src/graph";
import { joinNames, namesOf } from "../src/inputs";
import { midiOf, notesOf, pitchName } from "../src/music";
import { floats } from "./floats";
import { attentionOf, inspectionOf, openExample, openPage, settled, surfaceOf } from "./server";

afterEach(() => vi.unstubAllGlobals());

test("names are written as a line and read back", () => {
  for (const names of [["a", "b"], ["a b", "c"], ["[x", "y"], ["é"]]) expect(namesOf(joinNames(names))).toEqual(names);
  expect([namesOf("  a   b "), namesOf("[1, 2]"), namesOf("[broken")]).toEqual([["a", "b"], ["1", "2"], ["[broken"]]);
});

test("a glossary has one term per line, and its error names the first invalid line", () => {
  expect(glossaryOf("dog = Hund\n\na = b = c")).toEqual({ terms: { dog: "Hund", a: "b = c" }, problem: "" });
  expect(glossaryOf("dog = Hund\ncat\n= x").problem).toContain("Line 2");
});

const RING = surfaceOf(["a", "b", "c", "d"], { kind: "graph", edges: [[0, 1], [1, 2], [2, 0]] });

test("equal graphs have equal layouts, nodes do not overlap, and the center is in the middle", () => {
  const layout = layGraph(RING);
  expect(layGraph(RING)).toEqual(layout);
  for (const [one, left] of layout.nodes.entries())
    for (const right of layout.nodes.slice(one + 1)) expect(Math.hypot(left.x - right.x, left.y - right.y)).toBeGreaterThan(20);
  expect(layout.nodes.every(({ x, y }) => x > 0 && y > 0 && x < layout.width && y < layout.height)).toBe(true);
  const star = layGraph({ ...RING, edges: [[0, 1], [0, 2], [0, 3]], center: 0 });
  const away = star.nodes.slice(1).map(({ x, y }) => Math.hypot(x - star.nodes[0].x, y - star.nodes[0].y));
  expect(Math.max(...away) - Math.min(...away)).toBeLessThan(40);
});

test("a planar graph is drawn without a crossing", () => {
  const edges: [number, number][] = [[0, 1], [1, 2], [2, 0], [2, 3], [3, 4], [4, 2], [4, 5], [5, 6], [6, 4], [6, 7]];
  const graph = surfaceOf([..."01234567"], { kind: "graph", edges });
  expect(crossings(layGraph(graph).nodes, edges)).toBe(0);
  const square = [[0, 0], [1, 1], [1, 0], [0, 1]].map(([x, y]) => ({ x, y }));
  expect([crossings(square, [[0, 1], [2, 3]]), crossings(square, [[0, 2], [1, 3]]), crossings(square, [[0, 1], [1, 2]])]).toEqual([1, 0, 0]);
});

test("distances follow edges in both directions", () => {
  expect(distances(4, [[0, 1], [2, 1]], 0)).toEqual([0, 1, 2, Infinity]);
});

test("the weight of an edge is the larger of its two directions, and null without a query", () => {
  const attention = attentionOf("encoder", 0, "edges", floats([1, 1, 2], [0.25, 0.75]), ["a"], ["a", "b"]);
  const matrix = { rows: 1, columns: 2, values: Float32Array.from([0.25, 0.75]) };
  expect(edgeWeight(attention, matrix, RING.pieces, [1, 0])).toBe(0.75);
  expect(edgeWeight(attention, matrix, RING.pieces, [2, 3])).toBeNull();
});

const ROLL = { steps: 2, frames: [[60, 64], [60], [60, 67]], given: [[60, 64], [60], [60]] };

test("a pitch in consecutive frames is one note, and predicted notes are not given", () => {
  expect(notesOf(ROLL)).toEqual([
    { pitch: 60, start: 0, length: 3, given: true }, { pitch: 64, start: 0, length: 1, given: true }, { pitch: 67, start: 2, length: 1, given: false },
  ]);
  expect([pitchName(60), pitchName(66)]).toEqual(["C4", "F♯4"]);
});

test("a MIDI file has each note at its time", () => {
  const { header, tracks } = parseMidi(midiOf(ROLL));
  let now = 0;
  const events = tracks[0].flatMap((event) => {
    now += event.deltaTime;
    return event.type === "noteOn" || event.type === "noteOff" ? [[event.type, event.noteNumber, now / header.ticksPerBeat!]] : [];
  });
  expect(events.sort()).toEqual([["noteOff", 60, 1.5], ["noteOff", 64, 0.5], ["noteOff", 67, 1.5], ["noteOn", 60, 0], ["noteOn", 64, 0], ["noteOn", 67, 1]].sort());
});

test("with a glossary, the whole text is translated with its terms", async () => {
  const { asked, actions, state } = await openExample();
  state.form.text.value = "A dog.";
  state.glossary.value = "dog = Hund";
  void actions.submit();
  await asked.at(-1)!.answer(inspectionOf("A dog."));
  const whole = asked.find(({ path }) => path === "./v1/translate")!;
  expect(whole.body).toMatchObject({ text: "A dog.", glossary: { dog: "Hund" } });
  await whole.answer({ translations: [{ text: "Ein Hund." }] });
  expect(state.whole.value).toBe("Ein Hund.");
  state.glossary.value = "dog";
  void actions.submit();
  await asked.at(-1)!.answer(inspectionOf("A dog."));
  expect(state.status.whole.value.problem).toContain("Line 1");
});

test("with the option on, a text is translated after a pause in typing", async () => {
  const page = await openExample();
  page.actions.followTyping();
  const requests = () => page.asked.filter(({ path, body }) => path === "./v1/inspect" && body.text === "A c" && !body.include).length;
  page.state.form.text.value = "A c";
  await new Promise((resolve) => setTimeout(resolve, 400));
  expect(requests()).toBe(0);
  page.state.translateWhileTyping.value = true;
  await new Promise((resolve) => setTimeout(resolve, 400));
  expect(requests()).toBe(1);
});

test("an input that is too long to inspect is still predicted", async () => {
  const details = { task: "classification", takes: "a text", examples: [], search: undefined, inspects: true, streams: false, settings: null };
  const { asked, actions, predicting, state } = await openPage("", ["one"], { entries: { one: { task: "classification" } }, details: { one: details } });
  void actions.start();
  await settled();
  state.form.text.value = "a long text";
  void actions.submit();
  await asked.at(-1)!.answer({ error: "Invalid request: the input is too long to inspect: 300 positions" }, 400);
  expect(asked.at(-1)!.path).toBe("./v1/predict");
  await asked.at(-1)!.answer({ outputs: [{ label: "good" }] });
  expect(predicting.output.value?.result).toEqual({ label: "good" });
  expect(state.status.translate.value.problem).toContain("too long to inspect");
});

test("snippets are quoted for the shell and for Python", async () => {
  const { state } = await openExample();
  const { curlOf, literal, pythonOf, quoted } = await import("../src/snippet");
  expect([quoted("it's"), literal("é\n")]).toEqual(["'it'\\''s'", '"\\u00e9\\n"']);
  state.form.text.value = "it's";
  expect(curlOf("http://h")).toContain("http://h/v1/translate");
  expect(curlOf("http://h")).toContain("it'\\''s");
  expect(pythonOf()).toBe('import regard\n\nmodel = regard.load("runs/one")  # the run folder\nprint(model(["it\'s"])[0])');
});
