// SVG documents built from data, in the light colors, for print.
import { PIECE_HEIGHT, type AlignedLayout, type Placed } from "./aligned";
import { cssColor, layerColor, layerDash } from "./color";
import { largest, type Matrix } from "./matrix";
import { visible } from "./words";

const FONT = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
const INK = "#1d2129";
const MARGIN = 12;
const HEADING = 26;

export function escapeMarkup(text: string): string {
  const names: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (character) => names[character]);
}

function sheet(width: number, height: number, title: string, body: string): string {
  const [w, h] = [Math.ceil(width + 2 * MARGIN), Math.ceil(height + 2 * MARGIN + HEADING)];
  const heading = escapeMarkup(title);
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}" ` +
    `font-family="${FONT}" font-size="13" fill="${INK}"><title>${heading}</title>` +
    `<rect width="${w}" height="${h}" fill="#fff"/><text x="${MARGIN}" y="${MARGIN + 10}" font-size="12">${heading}</text>` +
    `<g transform="translate(${MARGIN} ${MARGIN + HEADING})">${body}</g></svg>`
  );
}

function round(value: number): string {
  return String(Math.round(value * 100) / 100);
}

export function drawAligned(layout: AlignedLayout, title: string): string {
  const arcs = layout.arcs.map(
    (arc) =>
      `<path d="${arc.path}" fill="none" stroke="${layerColor(arc.layer ?? 0, false)}" ` +
      `stroke-dasharray="${layerDash(arc.layer ?? 0) || "none"}" stroke-width="${round(0.5 + 4 * arc.weight)}" ` +
      `stroke-opacity="${round(0.2 + 0.7 * arc.weight)}"/>`,
  );
  const piece = (placed: Placed) =>
    `<rect x="${round(placed.x)}" y="${placed.y}" width="${round(placed.width)}" height="${PIECE_HEIGHT}" rx="4" fill="#eef1f4"/>` +
    `<text x="${round(placed.x + placed.width / 2)}" y="${placed.y + 16.5}" text-anchor="middle">${escapeMarkup(placed.label)}</text>`;
  return sheet(layout.width, layout.height, title, arcs.join("") + [...layout.keys, ...layout.queries].map(piece).join(""));
}

export function drawHeatMap(
  matrix: Matrix,
  queries: string[],
  keys: string[],
  title: string,
  measure: (text: string) => number,
): string {
  const cell = 22;
  const widest = (labels: string[]) => Math.max(0, ...labels.map((label) => measure(visible(label)))) + 8;
  const [left, top] = [widest(queries), widest(keys)];
  const most = largest(matrix) || 1;
  const parts = keys.map((key, column) => {
    const x = round(left + (column + 0.5) * cell + 4);
    return `<text transform="translate(${x} ${round(top - 5)}) rotate(-90)">${escapeMarkup(visible(key))}</text>`;
  });
  queries.forEach((query, row) => {
    const y = round(top + row * cell + 15.5);
    parts.push(`<text x="${round(left - 6)}" y="${y}" text-anchor="end">${escapeMarkup(visible(query))}</text>`);
  });
  matrix.values.forEach((value, index) => {
    const [row, column] = [Math.floor(index / matrix.columns), index % matrix.columns];
    const place = `x="${round(left + column * cell)}" y="${round(top + row * cell)}" width="${cell}" height="${cell}"`;
    parts.push(`<rect ${place} fill="${cssColor(value / most, false)}"><title>${value.toPrecision(4)}</title></rect>`);
  });
  return sheet(left + matrix.columns * cell, top + matrix.rows * cell, `${title}; darkest = ${most.toPrecision(3)}`, parts.join(""));
}
