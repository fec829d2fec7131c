// Layouts of surfaces of numbers, as shapes. The page and the exports draw the same shapes.
import { colorOf } from "./color";
import type { Word } from "./document";
import { decode } from "./matrix";
import { brief, channelName, channelsOf, rangeOf, ticks, valueAt, type Channel, type Numeric, type Span } from "./numbers";
import { pngUrl } from "./png";

export type Look = "axis" | "grid" | "frame" | "history" | "forecast" | "band" | "for" | "against" | "masked";

export type Shape =
  | { tag: "image"; x: number; y: number; width: number; height: number; href: string }
  | { tag: "rect"; x: number; y: number; width: number; height: number; look: Look; opacity?: number; title?: string }
  | { tag: "path"; d: string; look: Look }
  | { tag: "text"; x: number; y: number; text: string; anchor: "start" | "middle" | "end" };

export interface Plot {
  width: number;
  height: number;
  shapes: Shape[];
  /** The rectangle of a piece, for the pointer and the marks. */
  box: (piece: number) => { x: number; y: number; width: number; height: number };
  /** The piece at a point; null outside. */
  at: (x: number, y: number) => number | null;
  /** The rectangle of each word, which `shapes` does not contain. */
  words: { x: number; y: number; width: number; height: number; word: Word }[];
}

/** Values of ranges of pieces, with their name, and a description of each. */
export interface PlottedStrip {
  spans: Span[];
  name: string;
  describe: (span: Span) => string;
}

export interface PlotOptions {
  width: number;
  dark: boolean;
  measure: (text: string) => number;
  /** Values above the plot, or over the patches of an image. */
  strip?: PlottedStrip;
  words?: Word[];
}

const [STRIP, GAP, LINE, RIGHT] = [44, 16, 18, 14];

const sizeOf = (spans: Span[]) => Math.max(1e-9, ...spans.map(({ value }) => Math.abs(value ?? 0)));
const shareOf = (value: number | null, size: number) => (value === null ? 1 : value / size);

/** Bars for the values of the spans; a negative one goes down. */
function bars({ spans, name, describe }: PlottedStrip, x: (piece: number) => number, left: number, right: number): Shape[] {
  const size = sizeOf(spans);
  const signed = spans.some(({ value }) => (value ?? 0) < 0);
  const [middle, reach] = [LINE + (signed ? STRIP / 2 : STRIP), signed ? STRIP / 2 : STRIP];
  const shapes: Shape[] = [{ tag: "text", x: left, y: 12, text: name, anchor: "start" }];
  for (const [index, span] of spans.entries()) {
    const share = shareOf(span.value, size);
    const next = spans[index + 1]?.from ?? span.to; // patches can overlap, bars do not
    const [from, to] = [x(span.from), x(next > span.from ? Math.min(span.to, next) : span.to)];
    const height = Math.abs(share) * reach;
    const width = Math.max(0.5, to - from - (to - from > 4 ? 1 : 0));
    const title = describe(span);
    if (span.hidden) shapes.push({ tag: "rect", x: from, y: LINE, width, height: STRIP, look: "masked", title });
    else shapes.push({ tag: "rect", x: from, y: share < 0 ? middle : middle - height, width, height, look: share < 0 ? "against" : "for", title });
  }
  shapes.push({ tag: "path", d: `M${left},${middle}H${right}`, look: "axis" });
  shapes.push({ tag: "text", x: left - 6, y: LINE + 9, text: brief(size), anchor: "end" });
  if (signed) shapes.push({ tag: "text", x: left - 6, y: LINE + STRIP, text: brief(-size), anchor: "end" });
  return shapes;
}

/** Labels below an axis: those of `pieces` that do not touch. */
function labelsBelow(y: number, marks: { x: number; text: string }[], width: number, measure: (text: string) => number): Shape[] {
  const shapes: Shape[] = [];
  let free = -Infinity;
  for (const { x, text } of marks) {
    const half = measure(text) / 2;
    const middle = Math.max(half + 1, Math.min(width - half - 1, x));
    if (middle - half < free) continue;
    free = middle + half + 12;
    shapes.push({ tag: "path", d: `M${x},${y}v4`, look: "axis" }, { tag: "text", x: middle, y: y + 16, text, anchor: "middle" });
  }
  return shapes;
}

/** Colors of values between their smallest and largest one; missing values are transparent. */
function heat(surface: Numeric, dark: boolean): string {
  const [pieces, channels] = surface.numbers.values.shape;
  const values = decode(surface.numbers.values);
  const [low, high] = rangeOf(values);
  const pixels = new Uint8Array(4 * values.length);
  for (let piece = 0; piece < pieces; piece++)
    for (let channel = 0; channel < channels; channel++) {
      const value = values[piece * channels + channel];
      if (!Number.isNaN(value)) pixels.set([...colorOf((value - low) / (high - low || 1), dark), 255], 4 * ((channels - 1 - channel) * pieces + piece));
    }
  return pngUrl(pieces, channels, pixels);
}

/** The colors from the smallest to the largest value, and the directions of the axes. */
function colorScale(surface: Numeric, x: number, y: number, dark: boolean, measure: (text: string) => number, more: string): Shape[] {
  const [low, high] = rangeOf(decode(surface.numbers.values)).map(brief);
  const steps = Array.from({ length: 64 }, (_, step) => [...colorOf(step / 63, dark), 255]).flat();
  const from = x + measure(low) + 6;
  return [
    { tag: "text", x, y: y + 11, text: low, anchor: "start" },
    { tag: "image", x: from, y: y + 2, width: 96, height: 10, href: pngUrl(64, 1, Uint8Array.from(steps)) },
    { tag: "text", x: from + 102, y: y + 11, text: `${high} ${surface.numbers.unit}`.trim() + `; channels upwards${more}`, anchor: "start" },
  ];
}

/** Words below a spectrogram, in as few rows as possible without touching. */
function layWords(words: Word[], x: (seconds: number) => number, top: number, measure: (text: string) => number, width: number) {
  const ends: number[] = [];
  return words.map((word) => {
    const size = Math.max(measure(word.word) + 8, 24);
    const left = Math.max(0, Math.min(width - size, x(word.start)));
    let row = ends.findIndex((end) => end <= left);
    if (row < 0) row = ends.length;
    ends[row] = left + size + 2;
    return { x: left, y: top + row * 26, width: size, height: 24, word };
  });
}

function inBox(area: { x: number; y: number; width: number; height: number }, count: number) {
  return {
    box: (piece: number) => ({ ...area, x: area.x + (piece * area.width) / count, width: area.width / count }),
    at: (x: number, y: number) =>
      x < area.x || x >= area.x + area.width || y < area.y || y > area.y + area.height ? null : Math.floor(((x - area.x) * count) / area.width),
  };
}

/** Frames as a heat map: time to the right, channels upwards. */
export function framesPlot(surface: Numeric, { width, dark, measure, strip, words = [] }: PlotOptions): Plot {
  const [pieces, channels] = surface.numbers.values.shape;
  const { rate } = surface.numbers;
  const names = channels <= 12 ? Array.from({ length: channels }, (_, channel) => channelName(surface, channel)) : [channelName(surface, 0), channelName(surface, channels - 1)];
  const left = Math.ceil(Math.max(44, ...names.map((name) => measure(name) + 10), strip ? measure(brief(-sizeOf(strip.spans))) + 10 : 0));
  const right = width - RIGHT;
  const height = channels <= 12 ? channels * 18 : Math.max(120, Math.min(240, 3 * channels));
  const top = strip ? LINE + STRIP + GAP : 6;
  const x = (piece: number) => left + (piece * (right - left)) / pieces;
  const area = { x: left, y: top, width: right - left, height };
  const middle = (channel: number) => top + height - ((channel + 0.5) * height) / channels;
  const marks = (rate ? ticks(0, pieces / rate, (right - left) / 70) : ticks(1, pieces, (right - left) / 50).filter(Number.isInteger)).map((tick) => ({
    x: rate ? x(tick * rate) : x(tick - 0.5),
    text: rate ? `${brief(tick)} s` : String(tick),
  }));
  const placed = rate ? layWords(words, (seconds) => x(seconds * rate), top + height + 26, measure, width) : [];
  const shapes: Shape[] = [
    ...(strip ? bars(strip, x, left, right) : []),
    { tag: "image", ...area, href: heat(surface, dark) },
    { tag: "rect", ...area, look: "frame" },
    ...names.map((text, index): Shape => ({ tag: "text", x: left - 6, y: middle(names.length === channels ? index : index * (channels - 1)) + 4, text, anchor: "end" })),
    ...labelsBelow(top + height, marks, width, measure),
    ...placed.map(({ y, word }): Shape => ({ tag: "path", d: `M${x(word.start * rate!)},${y}H${Math.max(x(word.end * rate!), x(word.start * rate!) + 2)}`, look: "forecast" })),
  ];
  const below = Math.max(top + height + 26, ...placed.map((word) => word.y + word.height + 6));
  shapes.push(...colorScale(surface, left, below, dark, measure, rate ? "" : ", frames to the right"));
  return { width, height: below + 20, shapes, ...inBox(area, pieces), words: placed };
}

/** A line through values; a missing value is a gap, and a value between two gaps is a dash. */
export function linePath(values: number[], x: (index: number) => number, y: (value: number) => number): string {
  const point = (index: number) => `${x(index).toFixed(1)},${y(values[index]).toFixed(1)}`;
  let path = "";
  values.forEach((value, index) => {
    if (Number.isNaN(value)) return;
    const starts = index === 0 || Number.isNaN(values[index - 1]);
    path += `${starts ? "M" : "L"}${point(index)}`;
    if (starts && (index + 1 === values.length || Number.isNaN(values[index + 1]))) path += "h1.5";
  });
  return path;
}

/** The area between two lines, one polygon for each run without missing values. */
function bandPath(low: number[], high: number[], x: (index: number) => number, y: (value: number) => number): string {
  const known = low.map((value, index) => !Number.isNaN(value + high[index]));
  let path = "";
  for (let from = 0; from < known.length; from++) {
    if (!known[from]) continue;
    let to = from;
    while (known[to]) to++;
    const run = Array.from({ length: to - from }, (_, index) => from + index);
    const points = [...run.map((index) => [x(index), y(high[index])]), ...run.reverse().map((index) => [x(index), y(low[index])])];
    path += `M${points.map(([px, py]) => `${px.toFixed(1)},${py.toFixed(1)}`).join("L")}Z`;
    from = to;
  }
  return path;
}

const PANEL = 96;

/** Series below each other, with one axis of time. The forecast continues the history. */
export function seriesPlot(surface: Numeric, forecast: Numeric | null, channels: Channel[], { width, measure, strip }: PlotOptions): Plot {
  const [past, ahead] = [surface.pieces.length, forecast?.pieces.length ?? 0];
  const ranges = channels.map(({ history, forecast: later, bands }) => rangeOf([...history, ...later, ...bands.flatMap(({ low, high }) => [...low, ...high])]));
  const scales = ranges.map(([low, high]) => (high > low ? [low, high] : [low - 1, high + 1]));
  const labels = scales.map(([low, high]) => ticks(low, high, 3));
  const left = Math.ceil(Math.max(44, ...labels.flat().map((tick) => measure(brief(tick)) + 10), strip ? measure(brief(-sizeOf(strip.spans))) + 10 : 0));
  const right = width - RIGHT;
  const x = (piece: number) => left + (piece * (right - left)) / (past + ahead);
  const top = strip ? LINE + STRIP + GAP : 0;
  const bottom = top + channels.length * (PANEL + LINE + 6);
  const shapes: Shape[] = strip ? bars(strip, x, left, right) : [];
  const unit = surface.numbers.unit && ` (${surface.numbers.unit})`;
  channels.forEach(({ name, history, forecast: later, bands }, index) => {
    const from = top + index * (PANEL + LINE + 6) + LINE;
    const [low, high] = scales[index];
    const y = (value: number) => from + PANEL - ((value - low) / (high - low)) * PANEL;
    const [before, after] = [(piece: number) => x(piece + 0.5), (piece: number) => x(past + piece + 0.5)];
    shapes.push({ tag: "text", x: left, y: from - 5, text: name + unit, anchor: "start" });
    for (const tick of labels[index]) shapes.push({ tag: "path", d: `M${left},${y(tick)}H${right}`, look: "grid" }, { tag: "text", x: left - 6, y: y(tick) + 4, text: brief(tick), anchor: "end" });
    for (const band of bands) shapes.push({ tag: "path", d: bandPath(band.low, band.high, after, y), look: "band" });
    shapes.push({ tag: "path", d: linePath(history, before, y), look: "history" });
    if (later.length) shapes.push({ tag: "path", d: linePath(later, after, y), look: "forecast" });
    if (ahead) shapes.push({ tag: "path", d: `M${x(past)},${from}V${from + PANEL}`, look: "axis" });
  });
  const times = [...surface.pieces, ...(forecast?.pieces ?? [])];
  const step = Math.max(1, Math.ceil((times.length * (Math.max(...times.map((time) => measure(time))) + 16)) / (right - left)));
  const marks = times.flatMap((text, piece) => (piece % step !== Math.floor(step / 2) ? [] : [{ x: x(piece + 0.5), text }]));
  shapes.push({ tag: "path", d: `M${left},${bottom}H${right}`, look: "axis" }, ...labelsBelow(bottom, marks, width, measure));
  const area = { x: left, y: top, width: right - left, height: bottom - top };
  return { width, height: bottom + 22, shapes, ...inBox(area, past + ahead), words: [] };
}

const PICTURE = 320;

/** The pixels of an image; in gray, to draw colors over it. */
function pixelsOf(surface: Numeric, gray: boolean): string {
  const [high, wide, depth] = surface.numbers.values.shape;
  const values = decode(surface.numbers.values);
  const pixels = new Uint8Array(4 * high * wide);
  for (let pixel = 0; pixel < high * wide; pixel++) {
    const color = [0, 1, 2].map((index) => 255 * Math.max(0, Math.min(1, values[pixel * depth + (depth >= 3 ? index : 0)] || 0)));
    const light = 0.3 * color[0] + 0.59 * color[1] + 0.11 * color[2];
    pixels.set([...color.map((value) => Math.round(gray ? light : value)), 255], 4 * pixel);
  }
  return pngUrl(wide, high, pixels);
}

/** An image; the values of the patches are drawn over a second copy of it, in gray. */
export function imagePlot(surface: Numeric, { width, measure, strip }: PlotOptions): Plot {
  const [high, wide] = surface.numbers.values.shape;
  const [rows, columns] = surface.numbers.grid ?? [1, 1];
  const [beside, top] = [!!strip && width >= 2 * 160 + 24, strip ? LINE : 0];
  const scale = Math.min(PICTURE / Math.max(high, wide), (beside ? (width - 24) / 2 : width - 4) / wide);
  const [w, h] = [wide * scale, high * scale];
  const area = { x: beside ? w + 20 : 1, y: top + 1, width: w, height: h };
  const cell = (piece: number) => ({ x: area.x + ((piece % columns) * w) / columns, y: area.y + (Math.floor(piece / columns) * h) / rows, width: w / columns, height: h / rows });
  const shapes: Shape[] = [];
  if (beside) shapes.push({ tag: "image", ...area, x: 1, href: pixelsOf(surface, false) }, { tag: "rect", ...area, x: 1, look: "frame" });
  shapes.push({ tag: "image", ...area, href: pixelsOf(surface, !!strip) }, { tag: "rect", ...area, look: "frame" });
  const size = strip ? sizeOf(strip.spans) : 1;
  for (const span of strip?.spans ?? []) {
    const share = shareOf(span.value, size);
    for (let piece = span.from; piece < span.to; piece++)
      shapes.push({ tag: "rect", ...cell(piece), look: span.hidden ? "masked" : share < 0 ? "against" : "for", opacity: span.hidden ? 1 : Math.min(0.75, 0.75 * Math.abs(share)), title: strip!.describe(span) });
  }
  const title = strip ? `${strip.name}, up to ${brief(size)}` : "";
  if (strip) shapes.push({ tag: "text", x: area.x, y: 12, text: title, anchor: "start" });
  const room = area.x + Math.max(w + 2, measure(title));
  return {
    width: Math.min(width, Math.ceil(room)), height: top + h + 4, shapes, words: [], box: cell,
    at: (x, y) => {
      const [column, row] = [Math.floor(((x - area.x) * columns) / w), Math.floor(((y - area.y) * rows) / h)];
      return column < 0 || row < 0 || column >= columns || row >= rows ? null : row * columns + column;
    },
  };
}

export const SHOWN = 6; // series that are drawn below each other

/** The drawn series: the chosen one, or the first ones; none of another surface. */
export function shownChannels(surface: Numeric, forecast: Numeric | null, chosen: string | null): Channel[] {
  if (surface.kind !== "series") return [];
  const all = channelsOf(surface, forecast);
  const one = all.filter(({ name }) => name === chosen);
  return one.length ? one : all.slice(0, SHOWN);
}

/** The plot of a surface; of a series, with its forecast. */
export function plotOf(surface: Numeric, forecast: Numeric | null, channels: Channel[], words: Word[], options: PlotOptions): Plot {
  if (surface.kind === "series") return seriesPlot(surface, forecast, channels, options);
  if (surface.kind === "image") return imagePlot(surface, options);
  return framesPlot(surface, { ...options, words });
}

/** The values of a piece: up to six channels, or the color of a patch. */
export function valuesText(surface: Numeric, piece: number): string {
  if (surface.kind === "image") return "";
  const { shape } = surface.numbers.values;
  const unit = surface.numbers.unit && ` ${surface.numbers.unit}`;
  const values = Array.from({ length: shape[1] }, (_, channel) => valueAt(surface, piece, channel));
  if (shape[1] <= 6) return values.map((value, channel) => `${channelName(surface, channel)} ${brief(value)}${unit}`).join(", ");
  const [low, high] = rangeOf(values);
  return `${shape[1]} channels, ${brief(low)} to ${brief(high)}${unit}`;
}
