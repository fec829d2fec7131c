// Surfaces of numbers: frames, series and images. Their values, their times, and the ranges of pieces of other axes.
import type { Surface } from "./document";
import { fixed } from "./format";
import { decode } from "./matrix";

/** A surface with numbers. */
export type Numeric = Surface & { numbers: NonNullable<Surface["numbers"]> };

export function isNumeric(surface: Surface | undefined): surface is Numeric {
  return !!surface?.numbers;
}

/** A value for some consecutive pieces, from `from` up to but not including `to`; a null value is infinite. */
export interface Span {
  from: number;
  to: number;
  value: number | null;
  hidden: boolean;
}

/** The value of a channel at a piece; NaN if it is missing. */
export function valueAt({ numbers: { values } }: Numeric, piece: number, channel: number): number {
  return decode(values)[piece * values.shape[1] + channel];
}

export function channelName({ numbers }: Numeric, channel: number): string {
  return numbers.channels[channel] ?? `channel ${channel + 1}`;
}

export function channelNames(surface: Numeric): string[] {
  return Array.from({ length: surface.numbers.values.shape[1] }, (_, channel) => channelName(surface, channel));
}

/** The smallest and the largest value that is not missing. */
export function rangeOf(values: Iterable<number>): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low > high ? [0, 0] : [low, high];
}

/** The pieces of a key whose label is that of a piece or a range of pieces such as "1–4"; null for other labels. */
function labelled(label: string, pieces: Map<string, number>): [number, number] | null {
  const alone = pieces.get(label);
  if (alone !== undefined) return [alone, alone + 1];
  for (let dash = label.indexOf("–"); dash > 0; dash = label.indexOf("–", dash + 1)) {
    const [first, last] = [pieces.get(label.slice(0, dash)), pieces.get(label.slice(dash + 1))];
    if (first !== undefined && last !== undefined) return [first, last + 1];
  }
  return null;
}

/**
 * The pieces of each key. Keys are pieces or ranges of pieces, by their labels or their distance to the last piece, such
 * as "-3–+0"; other keys share the pieces in equal parts.
 */
export function rangesOf(labels: string[], { pieces }: Surface): [number, number][] {
  const back = (index: number) => (index === pieces.length - 1 ? "+0" : `-${pieces.length - 1 - index}`);
  for (const names of [pieces, pieces.map((_, index) => back(index))]) {
    const at = new Map(names.map((name, index) => [name, index]));
    const ranges = at.size === pieces.length ? labels.map((label) => labelled(label, at)) : [];
    if (ranges.length && ranges.every((range) => range !== null)) return ranges;
  }
  return labels.map((_, key) => [Math.floor((key * pieces.length) / labels.length), Math.max(Math.floor(((key + 1) * pieces.length) / labels.length), Math.floor((key * pieces.length) / labels.length) + 1)]);
}

/** The time or the label of a piece. */
export function pieceName(surface: Numeric, piece: number): string {
  const { rate, grid } = surface.numbers;
  if (surface.kind === "image" && grid) return `patch in row ${Math.floor(piece / grid[1]) + 1}, column ${(piece % grid[1]) + 1}`;
  if (rate && surface.kind === "frames") return `${fixed(piece / rate, 2)} s`;
  return surface.pieces[piece];
}

/** The piece at a time in seconds. */
export function pieceAt(surface: Numeric, seconds: number): number {
  return Math.max(0, Math.min(surface.pieces.length - 1, Math.floor(seconds * (surface.numbers.rate ?? 1))));
}

/** A number with about four digits. */
export function brief(value: number): string {
  if (Number.isNaN(value)) return "missing";
  const size = Math.abs(value);
  const text = size >= 10_000 || (size < 0.001 && size > 0) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  return text.replaceAll("-", "−");
}

/** Round numbers between two bounds, at most `count`. */
export function ticks(low: number, high: number, count: number): number[] {
  if (!(high > low)) return [low];
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw * 0.999)!;
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.max(0, Math.floor(high / step + 1e-9) - first + 1) }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

/** A series with its forecast, if it has one: channels by name, and the bands around the forecast. */
export interface Channel {
  name: string;
  history: number[];
  /** [] without a forecast. */
  forecast: number[];
  /** From the widest to the narrowest. */
  bands: { level: string; low: number[]; high: number[] }[];
}

const BAND = /^(.*)-(lo|hi)-(\d+(?:\.\d+)?)$/;

function column(surface: Numeric, channel: number): number[] {
  return surface.pieces.map((_, piece) => valueAt(surface, piece, channel));
}

/** The channels of a history and of a forecast with channels NAME, NAME-lo-80 and NAME-hi-80. */
export function channelsOf(history: Numeric, forecast: Numeric | null): Channel[] {
  const named = (surface: Numeric) => channelNames(surface).map((name, index) => [name, index] as const);
  const later = new Map(forecast ? named(forecast) : []);
  const bands = (name: string) =>
    [...later.keys()]
      .flatMap((key) => {
        const [, own, side, level] = BAND.exec(key) ?? [];
        const high = later.get(`${name}-hi-${level}`);
        return own === name && side === "lo" && high !== undefined ? [{ level, low: column(forecast!, later.get(key)!), high: column(forecast!, high) }] : [];
      })
      .sort((one, other) => Number(other.level) - Number(one.level));
  return named(history).map(([name, index]) => ({
    name,
    history: column(history, index),
    forecast: later.has(name) ? column(forecast!, later.get(name)!) : [],
    bands: bands(name),
  }));
}

/** The forecast that belongs to a history: the next surface, if both are series. */
export function forecastOf(surfaces: Surface[], index: number): Numeric | null {
  const [history, next] = [surfaces[index], surfaces[index + 1]];
  return history?.kind === "series" && next?.kind === "series" && isNumeric(next) ? next : null;
}

/** The numbers of a surface as CSV, one row for each piece; a missing value is empty. */
export function csvOf(surface: Numeric): string {
  const names = channelNames(surface);
  const quoted = (text: string) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const number = (value: number) => (Number.isNaN(value) ? "" : String(Number(value.toPrecision(7))));
  const rows = surface.pieces.map((piece, at) => [quoted(piece), ...names.map((_, channel) => number(valueAt(surface, at, channel)))]);
  return [["date", ...names.map(quoted)], ...rows].map((row) => row.join(",") + "\n").join("");
}
