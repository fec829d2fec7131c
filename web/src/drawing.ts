// SVG documents in light colors, for print.
import { PIECE_HEIGHT, type AlignedLayout, type Placed } from "./aligned";
import { colorOf, cssColor, layerColor, layerDash } from "./color";
import { largest, type Matrix } from "./matrix";
import type { Look, Plot, Shape } from "./plot";
import { pngUrl } from "./png";
import type { Strip } from "./strip";
import { visible } from "./words";

const FONT = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
const INK = "#1d2129";
const MARGIN = 12;
const HEADING = 44;
const FAINT = "#5a616c";
const [FOR, AGAINST] = ["#0f6a8b", "#a1331c"];

export function escapeMarkup(text: string): string {
  const names: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (character) => names[character]);
}

/** The heading of a drawing: a title, and below it the model and the text. */
export interface Heading {
  title: string;
  source: string;
}

type Measure = (text: string) => number;

/** A white sheet with a heading, at least as wide as the heading. */
function sheet(width: number, height: number, { title, source }: Heading, measure: Measure, body: string): string {
  const room = Math.max(width, measure(title), measure(source));
  const [w, h] = [Math.ceil(room + 2 * MARGIN), Math.ceil(height + 2 * MARGIN + HEADING)];
  const line = (text: string, y: number, color: string) => `<text x="${MARGIN}" y="${y}" font-size="12" fill="${color}">${escapeMarkup(text)}</text>`;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}" ` +
    `font-family="${FONT}" font-size="13" fill="${INK}"><title>${escapeMarkup(title)}</title>` +
    `<rect width="${w}" height="${h}" fill="#fff"/>${line(title, MARGIN + 10, INK)}${line(source, MARGIN + 26, FAINT)}` +
    `<g transform="translate(${MARGIN} ${MARGIN + HEADING})">${body}</g></svg>`
  );
}

function round(value: number): string {
  return String(Math.round(value * 100) / 100);
}

export function drawAligned(layout: AlignedLayout, heading: Heading, measure: Measure): string {
  const arcs = layout.arcs.map(
    (arc) =>
      `<path d="${arc.path}" fill="none" stroke="${layerColor(arc.layer ?? 0, false)}" ` +
      `stroke-dasharray="${layerDash(arc.layer ?? 0) || "none"}" stroke-width="${round(0.5 + 4 * arc.weight)}" ` +
      `stroke-opacity="${round(0.2 + 0.7 * arc.weight)}"/>`,
  );
  const piece = (placed: Placed) =>
    `<rect x="${round(placed.x)}" y="${placed.y}" width="${round(placed.width)}" height="${PIECE_HEIGHT}" rx="4" fill="#eef1f4"/>` +
    `<text x="${round(placed.x + placed.width / 2)}" y="${placed.y + 16.5}" text-anchor="middle">${escapeMarkup(placed.label)}</text>`;
  return sheet(layout.width, layout.height, heading, measure, arcs.join("") + [...layout.keys, ...layout.queries].map(piece).join(""));
}

export interface HeatMapData {
  matrix: Matrix;
  allowed: Matrix | null;
  queries: string[];
  keys: string[];
  /** The types of the rows and the columns. */
  rowName: string;
  columnName: string;
}

const [CELL, SMALL, MANY] = [22, 6, 100]; // a map with more than MANY rows or columns has small cells, as an image
const BAR = 120; // pixels of the color bar

/** The color bar from 0 to the largest value. */
function colorBar(x: number, y: number, max: number, unit: string): string {
  const steps = 24;
  const parts = Array.from({ length: steps }, (_, step) => `<rect x="${round(x + 16 + (step * BAR) / steps)}" y="${y}" width="${round(BAR / steps + 0.3)}" height="9" fill="${cssColor(step / (steps - 1), false)}"/>`);
  return `<text x="${x}" y="${y + 9}" font-size="12">0</text>${parts.join("")}<text x="${x + BAR + 22}" y="${y + 9}" font-size="12">${max.toPrecision(3)} ${unit}</text>`;
}

type Place = { left: number; top: number; size: number };

/** One rectangle for each weight. */
function cellsSvg(matrix: Matrix, allowed: Matrix | null, max: number, { left, top, size }: Place): string[] {
  return [...matrix.values].map((value, index) => {
    const [row, column] = [Math.floor(index / matrix.columns), index % matrix.columns];
    const [x, y] = [round(left + column * size), round(top + row * size)];
    const hidden = allowed !== null && allowed.values[index] === 0;
    const cell = `<rect x="${x}" y="${y}" width="${size}" height="${size}" fill="${cssColor(value / max, false)}"><title>${hidden ? "hidden by the mask" : value.toPrecision(4)}</title></rect>`;
    return hidden ? `${cell}<path d="M${x},${round(top + (row + 1) * size)}l${size},${-size}" stroke="${FAINT}" stroke-width="0.7"/>` : cell;
  });
}

const GRAY = [190, 190, 190]; // a weight that the mask hides, in an image

/** One pixel for each weight. */
function cellsImage(matrix: Matrix, allowed: Matrix | null, max: number, { left, top, size }: Place): string {
  const pixels = [...matrix.values].flatMap((value, index) => [...(allowed?.values[index] === 0 ? GRAY : colorOf(value / max, false)), 255]);
  const href = pngUrl(matrix.columns, matrix.rows, Uint8Array.from(pixels));
  return shapeSvg({ tag: "image", x: left, y: top, width: matrix.columns * size, height: matrix.rows * size, href });
}

export function drawHeatMap({ matrix, allowed, queries, keys, rowName, columnName }: HeatMapData, heading: Heading, measure: Measure): string {
  const widest = (labels: string[]) => Math.max(0, ...labels.map((label) => measure(visible(label)))) + 8;
  const [left, top] = [Math.max(widest(queries), 0) + 22, widest(keys) + 22];
  const max = largest(matrix) || 1;
  const small = Math.max(matrix.columns, matrix.rows) > MANY;
  const size = small ? SMALL : CELL;
  const labelled = (index: number) => index % Math.ceil(15 / size) === 0;
  const [width, height] = [matrix.columns * size, matrix.rows * size];
  const parts = keys.map((key, column) => {
    if (!labelled(column)) return "";
    const x = round(left + (column + 0.5) * size + 4);
    return `<text transform="translate(${x} ${round(top - 5)}) rotate(-90)">${escapeMarkup(visible(key))}</text>`;
  });
  queries.forEach((query, row) => {
    if (!labelled(row)) return;
    const y = round(top + (row + 0.5) * size + 4.5);
    parts.push(`<text x="${round(left - 6)}" y="${y}" text-anchor="end">${escapeMarkup(visible(query))}</text>`);
  });
  const place = { left, top, size };
  parts.push(...(small ? [cellsImage(matrix, allowed, max, place)] : cellsSvg(matrix, allowed, max, place)));
  // The name of a short axis is longer than the axis.
  const [wideName, highName] = [measure(`key: ${columnName}`), measure(`query: ${rowName}`)];
  const middle = { x: Math.max(left + width / 2, wideName / 2), y: Math.max(top + height / 2, highName / 2 + 4) };
  const axes =
    `<text x="${round(middle.x)}" y="12" text-anchor="middle" fill="${FAINT}">${escapeMarkup(`key: ${columnName}`)}</text>` +
    `<text transform="translate(12 ${round(middle.y)}) rotate(-90)" text-anchor="middle" fill="${FAINT}">${escapeMarkup(`query: ${rowName}`)}</text>`;
  const below = Math.max(top + height, middle.y + highName / 2) + 14;
  const [wide, high] = [Math.max(left + width, middle.x + wideName / 2, BAR + 90), below + 12];
  const [hatched, from] = [`${small ? "gray" : "hatched"}: hidden by the mask`, BAR + 40 + measure(`${max.toPrecision(3)} weight`)];
  const note = allowed ? `<text x="${round(from)}" y="${below + 9}" font-size="12" fill="${FAINT}">${hatched}</text>` : "";
  return sheet(note ? Math.max(wide, from + measure(hatched)) : wide, high, heading, measure, parts.join("") + axes + colorBar(0, below, max, "weight") + note);
}

const LOOKS: Record<Look, string> = {
  axis: `fill="none" stroke="${FAINT}"`,
  grid: `fill="none" stroke="#d9dbd4"`,
  frame: `fill="none" stroke="#d9dbd4"`,
  history: `fill="none" stroke="${INK}" stroke-width="1.3"`,
  forecast: `fill="none" stroke="${FOR}" stroke-width="2"`,
  band: `fill="${FOR}" fill-opacity="0.2"`,
  for: `fill="${FOR}"`,
  against: `fill="${AGAINST}"`,
  masked: `fill="${FAINT}" fill-opacity="0.25"`,
};

const attribute = (name: string, value: string) => `${name}="${value}"`;

function shapeSvg(shape: Shape): string {
  if (shape.tag === "path") return `<path d="${shape.d}" ${LOOKS[shape.look]}/>`;
  if (shape.tag === "text") return `<text x="${round(shape.x)}" y="${round(shape.y)}" text-anchor="${shape.anchor}" font-size="12">${escapeMarkup(shape.text)}</text>`;
  const box = `x="${round(shape.x)}" y="${round(shape.y)}" width="${round(shape.width)}" height="${round(shape.height)}"`;
  if (shape.tag === "image") return `<image ${box} ${attribute("href", shape.href)} preserveAspectRatio="none" style="image-rendering:pixelated"/>`;
  const title = shape.title ? `<title>${escapeMarkup(shape.title)}</title>` : "";
  return `<rect ${box} ${LOOKS[shape.look]}${shape.opacity === undefined ? "" : ` fill-opacity="${round(shape.opacity)}"`}>${title}</rect>`;
}

/** Surfaces of numbers below each other. */
export function drawPlots(plots: Plot[], heading: Heading, measure: Measure): string {
  let y = 0;
  const parts = plots.map(({ shapes, words, height }) => {
    const heard = words.map(({ x, y: top, word }): Shape => ({ tag: "text", x: x + 4, y: top + 16, text: word.word, anchor: "start" }));
    const body = `<g transform="translate(0 ${round(y)})">${[...shapes, ...heard].map(shapeSvg).join("")}</g>`;
    y += height + 12;
    return body;
  });
  return sheet(Math.max(...plots.map(({ width }) => width)), y, heading, measure, parts.join(""));
}

/** Pieces of an input, each shaded by its value, in lines of at most `room` pixels. */
export function drawStrip({ lines, min, max, mode, unit }: Strip, heading: Heading, measure: Measure, room = 760): string {
  const size = Math.max(Math.abs(min), Math.abs(max), 1e-9);
  const parts: string[] = [];
  let [y, widest] = [0, 0];
  for (const { pieces, values, hidden } of lines) {
    let x = 0;
    pieces.forEach((piece, index) => {
      const [label, value] = [visible(piece), values[index]];
      const width = measure(label) + 8;
      if (x + width > room && x > 0) [x, y] = [0, y + 28];
      const share = value === null ? 1 : value / size;
      const color = hidden[index] ? "none" : share < 0 ? AGAINST : FOR;
      const border = share < 0 ? ` stroke="${AGAINST}" stroke-dasharray="3 2"` : "";
      parts.push(`<rect x="${round(x)}" y="${y}" width="${round(width)}" height="22" rx="3" fill="${color}" fill-opacity="${round(0.55 * Math.min(1, Math.abs(share)))}"${border}/>`);
      parts.push(`<text x="${round(x + 4)}" y="${y + 15.5}">${escapeMarkup(label)}<title>${value === null ? "+∞" : value.toPrecision(3)}</title></text>`);
      x += width + 3;
      widest = Math.max(widest, x);
    });
    y += 34;
  }
  const scale = mode === "influence" ? `solid: for the answer, dashed: against it; strongest ${size.toPrecision(3)} ${unit}` : `strongest ${size.toPrecision(3)} (share of the attention)`;
  parts.push(`<text x="0" y="${y + 8}" font-size="12" fill="${FAINT}">${escapeMarkup(scale)}</text>`);
  return sheet(Math.max(widest, measure(scale)), y + 12, heading, measure, parts.join(""));
}
