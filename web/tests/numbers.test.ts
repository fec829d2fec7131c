import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Inspection } from "../src/document";
import { bytesOf } from "../src/inputs";
import { channelsOf, csvOf, rangesOf, ticks, type Numeric } from "../src/numbers";
import { framesPlot, imagePlot, linePath, seriesPlot, shownChannels, valuesText, type PlotOptions, type Shape } from "../src/plot";
import { pngUrl } from "../src/png";
import { drawPlots } from "../src/drawing";
import { floats } from "./floats";
import { attentionOf, documentOf, openPage, predictionOf, settled, surfaceOf } from "./server";

beforeEach(() => vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => undefined })));
afterEach(() => vi.unstubAllGlobals());

const measure = (text: string) => 7 * text.length;
const options: PlotOptions = { width: 400, dark: false, measure };

function numeric(kind: "frames" | "series" | "image", pieces: string[], shape: number[], values: number[], more: Partial<Numeric["numbers"]> = {}): Numeric {
  return surfaceOf(pieces, { kind, numbers: { values: floats(shape, values), channels: [], unit: "", rate: null, grid: null, ...more } }) as Numeric;
}

const FRAMES = numeric("frames", ["1", "2", "3", "4", "5"], [5, 2], [0, 1, 2, 3, 4, 5, 6, 7, NaN, 9], { rate: 2, unit: "dB" });
const HISTORY = numeric("series", ["d1", "d2", "d3"], [3, 2], [1, 10, NaN, 20, 3, 30], { channels: ["HUFL", "load, kW"] });
const FORECAST = numeric("series", ["d4", "d5"], [2, 3], [4, 3, 5, 5, 4, NaN], { channels: ["HUFL", "HUFL-lo-80", "HUFL-hi-80"] });
const IMAGE = numeric("image", ["a", "b", "c", "d"], [2, 4, 3], Array.from({ length: 24 }, (_, index) => index / 23), { grid: [1, 4] });

async function pngOf(url: string) {
  const bytes = bytesOf(url.slice("data:image/png;base64,".length));
  const word = (at: number) => new DataView(bytes.buffer).getUint32(at);
  const data = new Blob([bytes.slice(41, 41 + word(33))]).stream().pipeThrough(new DecompressionStream("deflate"));
  return { width: word(16), height: word(20), rows: new Uint8Array(await new Response(data).arrayBuffer()), end: word(bytes.length - 4) };
}
const pick = <Tag extends Shape["tag"]>(shapes: Shape[], tag: Tag) => shapes.filter((shape): shape is Extract<Shape, { tag: Tag }> => shape.tag === tag);

test("pixels become a PNG", async () => {
  const { width, height, rows, end } = await pngOf(pngUrl(1, 2, Uint8Array.from([1, 2, 3, 255, 4, 5, 6, 0])));
  expect([width, height, [...rows]]).toEqual([1, 2, [0, 1, 2, 3, 255, 0, 4, 5, 6, 0]]);
  expect(end).toBe(0xae426082); // the checksum of an empty last chunk
  expect((await pngOf(pngUrl(200, 100, new Uint8Array(80_000).fill(7)))).rows).toHaveLength(100 * 801);
});

test("a key is a piece, a range of pieces, or an equal share of them", () => {
  expect(rangesOf(["1–4", "5"], FRAMES)).toEqual([[0, 4], [4, 5]]);
  expect(rangesOf(["1", "2", "3", "4", "5"], FRAMES)[4]).toEqual([4, 5]);
  expect(rangesOf(["x", "y"], FRAMES)).toEqual([[0, 2], [2, 5]]);
  expect(rangesOf(["-4–-1", "-2–+0"], FRAMES)).toEqual([[0, 4], [2, 5]]);
  const dates = surfaceOf(["2018–01", "2018–02", "2018–03"], { kind: "series" });
  expect(rangesOf(["2018–01–2018–02", "2018–03"], dates)).toEqual([[0, 2], [2, 3]]);
});

test("ticks are round numbers inside their bounds", () => {
  expect(ticks(0, 1.2, 6)).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1, 1.2]);
  expect(ticks(-3, 17, 3)).toEqual([0, 10]);
  expect(ticks(2, 2, 3)).toEqual([2]);
});

test("a channel has its forecast and its bands, the widest first", () => {
  const wide = numeric("series", ["d4"], [1, 5], [4, 3, 5, 1, 9], { channels: ["HUFL", "HUFL-lo-80", "HUFL-hi-80", "HUFL-lo-95", "HUFL-hi-95"] });
  expect(channelsOf(HISTORY, wide)[0]).toEqual({ name: "HUFL", history: [1, NaN, 3], forecast: [4], bands: [{ level: "95", low: [1], high: [9] }, { level: "80", low: [3], high: [5] }] });
  expect(channelsOf(HISTORY, FORECAST)[1]).toMatchObject({ name: "load, kW", forecast: [], bands: [] });
  expect(shownChannels(HISTORY, FORECAST, "load, kW").map(({ name }) => name)).toEqual(["load, kW"]);
});

test("a missing value is a gap in its line", () => {
  const at = (index: number) => 10 * index;
  expect(linePath([1, 2, NaN, 4], at, (value) => value)).toBe("M0.0,1.0L10.0,2.0M30.0,4.0h1.5");
});

test("time goes to the right, channels go upwards, and a missing value is transparent", async () => {
  const plot = framesPlot(FRAMES, options);
  const { width, height, rows } = await pngOf(pick(plot.shapes, "image")[0].href);
  expect([width, height]).toEqual([5, 2]);
  const opacity = (x: number, y: number) => rows[y * 21 + 1 + 4 * x + 3];
  expect([opacity(4, 1), opacity(4, 0), opacity(0, 1)]).toEqual([0, 255, 255]);
  expect(pick(plot.shapes, "text").map(({ text }) => text)).toEqual(expect.arrayContaining(["channel 1", "0 s", "2 s", "9 dB; channels upwards"]));
  const { x, width: wide } = plot.box(4);
  expect([plot.at(x + wide / 2, 10), plot.at(x + wide + 1, 10), plot.at(0, 10)]).toEqual([4, null, null]);
  expect(valuesText(FRAMES, 4)).toBe("channel 1 missing dB, channel 2 9 dB");
});

test("words are at their seconds and do not overlap", () => {
  const words = [{ word: "seven", start: 0, end: 0.4 }, { word: "eight", start: 0.1, end: 0.5 }, { word: "one", start: 2, end: 2.4 }];
  const plot = framesPlot(FRAMES, { ...options, words });
  const [first, second, third] = plot.words;
  expect(first.x).toBeCloseTo(plot.box(0).x);
  expect([second.y > first.y, third.y === first.y]).toEqual([true, true]);
  expect(drawPlots([plot], { title: "t", source: "s" }, measure)).toContain(">seven</text>");
});

test("the forecast continues the history on one axis, and its band has a gap", () => {
  const plot = seriesPlot(HISTORY, FORECAST, channelsOf(HISTORY, FORECAST), options);
  const paths = pick(plot.shapes, "path");
  const startOf = (look: string) => Number(/M([\d.]+)/.exec(paths.find((path) => path.look === look)!.d)![1]);
  const middle = (piece: number) => plot.box(piece).x + plot.box(piece).width / 2;
  expect(startOf("history")).toBeCloseTo(middle(0), 0);
  expect(startOf("forecast")).toBeCloseTo(middle(3), 0);
  expect(paths.filter(({ look }) => look === "band")[0].d.match(/L/g)).toHaveLength(1); // one step: two points
  expect(pick(plot.shapes, "text").map(({ text }) => text)).toEqual(expect.arrayContaining(["HUFL", "load, kW"]));
});

test("values are bars over their pieces: down if negative, gray if masked", () => {
  const spans = [{ from: 0, to: 4, value: 0.5, hidden: false }, { from: 4, to: 5, value: -0.25, hidden: false }];
  const strip = { spans, name: "influence (nats)", describe: () => "x" };
  const [, , ...none] = pick(framesPlot(FRAMES, { ...options, strip }).shapes, "rect").filter(({ look }) => look !== "frame");
  const [up, down] = pick(framesPlot(FRAMES, { ...options, strip }).shapes, "rect");
  expect(none).toEqual([]);
  expect([up.look, down.look, up.y + up.height, down.height]).toEqual(["for", "against", down.y, up.height / 2]);
  expect(up.width).toBeGreaterThan(3 * down.width);
  const overlapping = { ...strip, spans: [{ ...spans[0], to: 5 }, { ...spans[1], from: 3 }] };
  const [first, second] = pick(framesPlot(FRAMES, { ...options, strip: overlapping }).shapes, "rect");
  expect(first.x + first.width).toBeLessThanOrEqual(second.x);
  const masked = { ...strip, spans: [{ ...spans[0], hidden: true }, spans[1]] };
  expect(pick(framesPlot(FRAMES, { ...options, strip: masked }).shapes, "rect")[0].look).toBe("masked");
});

test("an image has its colors, and its patches are row by row", async () => {
  const plot = imagePlot(IMAGE, options);
  const { rows } = await pngOf(pick(plot.shapes, "image")[0].href);
  expect([...rows.subarray(1, 5)]).toEqual([0, 11, 22, 255]);
  const { x, y } = plot.box(3);
  expect([plot.at(x + 1, y + 1), plot.at(x - 1, y + 1)]).toEqual([3, 2]);
  const spans = [0, 1, 2, 3].map((from) => ({ from, to: from + 1, value: from, hidden: false }));
  const over = imagePlot(IMAGE, { ...options, strip: { spans, name: "attention (share)", describe: () => "" } });
  const patches = pick(over.shapes, "rect").filter(({ look }) => look === "for");
  expect(patches.map(({ opacity }) => opacity)).toEqual([0, 0.25, 0.5, 0.75]);
  const [r, g, b] = (await pngOf(pick(over.shapes, "image").at(-1)!.href)).rows.subarray(13, 16);
  expect([r, g]).toEqual([g, b]); // gray below the colors
});

test("the forecast is CSV with empty cells for missing values", () => {
  expect(csvOf(FORECAST)).toBe("date,HUFL,HUFL-lo-80,HUFL-hi-80\nd4,4,3,5\nd5,5,4,\n");
  expect(csvOf(HISTORY).split("\n")[0]).toBe('date,HUFL,"load, kW"');
});

/** An inspection of frames whose attention joins two frames to one position. */
function inspected(more: Partial<Inspection> = {}): Inspection {
  const keys = ["1–2", "3–4", "5"];
  const attention = attentionOf("encoder", 0, "self", floats([1, 3, 3], [1, 0, 0, 0, 1, 0, 0, 0.25, 0.75]), keys, keys);
  return documentOf({ text: "line", surfaces: [FRAMES], predictions: [predictionOf("whole", [], "seven")], attention: { "encoder.0.self": attention }, ...more });
}

async function open(answer: Inspection) {
  const entries = { one: { task: "some" } };
  const page = await openPage("", ["one"], { entries, details: { one: { search: undefined, examples: ["line"], streams: false } } });
  void page.actions.start();
  await settled();
  await page.asked[0].answer(answer);
  return { ...page, strips: await import("../src/strip"), views: await import("../src/view") };
}

test("the strip of frames has the keys as ranges, and a chosen frame selects its row", async () => {
  const { state, strips, views } = await open(inspected());
  strips.stripMode.value = "attention";
  const line = () => strips.strip.value!.lines[0];
  expect(line().surface).toBe(0);
  expect(strips.spansOf(line(), FRAMES).map(({ from, to }) => [from, to])).toEqual([[0, 2], [2, 4], [4, 5]]);
  expect(strips.strip.value!.label).toContain("seven");
  state.position.value = 3;
  expect(line().values).toEqual([0, 1, 0]);
  expect(strips.strip.value!.label).toContain("3–4");
  expect(views.readView(new URLSearchParams(views.viewParameters({ ...views.viewOf(), series: "HUFL" })))).toMatchObject({ position: 3, show: "attention", series: "HUFL" });
});

test("a text that the model writes is the answer, and each of its pieces has a strip over the frames", async () => {
  const target = surfaceOf(["seven", "one", "</s>"], { separator: " " });
  const written = target.pieces.map((piece, place) => ({ ...predictionOf("after", [place - 1], piece), kind: "token" as const, at: { kind: "after" as const, pieces: [place - 1], surface: 1 } }));
  const influences = [0, 1, 2].map((prediction) => ({ prediction, surface: 0, values: [prediction, 0, 0, 0, 0], hidden: "Hidden." }));
  const { state, strips } = await open(inspected({ surfaces: [FRAMES, target], predictions: written, influences }));
  const { isContinued, writtenText } = await import("../src/reading");
  const current = state.inspection.value!;
  expect([isContinued(current), writtenText(current), strips.outputPieces()]).toEqual([false, "seven one", target.pieces]);
  expect(strips.strip.value!.label).toBe("seven");
  expect(writtenText({ ...current, facts: { text: "as decoded" } })).toBe("as decoded");
  state.place.value = 0;
  expect([strips.strip.value!.label, strips.strip.value!.lines[0].values[0]]).toEqual(["one", 1]);
});

test("without influence, the strip has the attention once the influence was refused", async () => {
  const { asked, strips } = await open(inspected());
  expect([strips.strip.value, strips.stripModes.value]).toEqual([null, ["influence", "attention"]]);
  const influence = asked.find(({ body }) => (body.include as string[] | undefined)?.includes("influence"))!;
  await influence.answer({ error: "not available" }, 400);
  expect([strips.strip.value!.mode, strips.stripModes.value]).toEqual(["attention", ["attention"]]);
});

test("a text that each state writes, as CTC does, is one text and not a list of tags", async () => {
  const { answersOf } = await import("../src/answers");
  const { isWritten } = await import("../src/reading");
  const target = surfaceOf(["a", "b"]);
  const predictions = [0, 1].map((place) => ({ ...predictionOf("piece", [place], target.pieces[place]), kind: "token" as const, at: { kind: "piece" as const, pieces: [place], surface: 1 } }));
  const current = inspected({ surfaces: [FRAMES, target], predictions });
  expect([isWritten(current), answersOf(current)]).toEqual([true, []]);
  expect([isWritten(inspected()), answersOf(inspected()).length]).toEqual([false, 1]);
});
