import { colorOf } from "./color";
import { largest, type Matrix } from "./matrix";

const FONT = "system-ui, sans-serif";
const ruler = document.createElement("canvas").getContext("2d")!;
const widths = new Map<string, number>();

/** The width of a label in the font of the drawings. */
export function measureText(text: string): number {
  let width = widths.get(text);
  if (width === undefined) {
    ruler.font = `13px ${FONT}`;
    width = ruler.measureText(text).width;
    widths.set(text, width);
  }
  return width;
}

/** Paints one pixel per cell; the style sheet enlarges it. The value `max` has the strongest color. */
export function paintCells(canvas: HTMLCanvasElement, matrix: Matrix, dark: boolean, max = largest(matrix)): void {
  canvas.width = matrix.columns;
  canvas.height = matrix.rows;
  const context = canvas.getContext("2d");
  if (!context || matrix.values.length === 0) return;
  const image = context.createImageData(matrix.columns, matrix.rows);
  max ||= 1;
  matrix.values.forEach((value, index) => image.data.set([...colorOf(value / max, dark), 255], 4 * index));
  context.putImageData(image, 0, 0);
}

export interface Geometry {
  left: number;
  top: number;
  size: number;
}

/** Paints diagonal lines over the cells that a mask hides. */
export function paintMask(canvas: HTMLCanvasElement, allowed: Matrix, size: number): void {
  const ratio = devicePixelRatio;
  [canvas.width, canvas.height] = [allowed.columns * size * ratio, allowed.rows * size * ratio];
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);
  context.strokeStyle = getComputedStyle(canvas).color;
  context.globalAlpha = 0.45;
  context.beginPath();
  allowed.values.forEach((value, index) => {
    if (value !== 0) return;
    const [x, y] = [(index % allowed.columns) * size, Math.floor(index / allowed.columns) * size];
    for (let from = 0; from < size; from += 6) {
      context.moveTo(x, y + from);
      context.lineTo(x + from, y);
      context.moveTo(x + from, y + size);
      context.lineTo(x + size, y + from);
    }
  });
  context.stroke();
}

/** Paints the labels of a heat map next to its cells. */
export function paintLabels(canvas: HTMLCanvasElement, queries: string[], keys: string[], { left, top, size }: Geometry): void {
  const [width, height] = [left + keys.length * size + 1, top + queries.length * size + 1];
  const ratio = devicePixelRatio;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);
  context.font = `${Math.max(9, Math.min(13, size))}px ${FONT}`;
  const shown = (_: string, index: number) => index % Math.ceil(9 / size) === 0;
  context.fillStyle = getComputedStyle(canvas).color;
  context.textBaseline = "middle";
  context.textAlign = "right";
  queries.forEach((query, row) => shown(query, row) && context.fillText(query, left - 6, top + (row + 0.5) * size));
  context.textAlign = "left";
  context.rotate(-Math.PI / 2);
  keys.forEach((key, column) => shown(key, column) && context.fillText(key, -top + 6, left + (column + 0.5) * size));
}
