import { colorOf } from "./color";
import { largest, type Matrix } from "./matrix";

const FONT = "system-ui, sans-serif";
const ruler = document.createElement("canvas").getContext("2d")!;
const widths = new Map<string, number>();

/** The width of a label in the type of the drawings. */
export function measureText(text: string): number {
  let width = widths.get(text);
  if (width === undefined) {
    ruler.font = `13px ${FONT}`;
    width = ruler.measureText(text).width;
    widths.set(text, width);
  }
  return width;
}

/** One pixel a cell; the style sheet makes it as large as it is to be. */
export function paintCells(canvas: HTMLCanvasElement, matrix: Matrix, dark: boolean): void {
  canvas.width = matrix.columns;
  canvas.height = matrix.rows;
  const context = canvas.getContext("2d");
  if (!context || matrix.values.length === 0) return;
  const image = context.createImageData(matrix.columns, matrix.rows);
  const most = largest(matrix) || 1;
  matrix.values.forEach((value, index) => image.data.set([...colorOf(value / most, dark), 255], 4 * index));
  context.putImageData(image, 0, 0);
}

export interface Geometry {
  left: number;
  top: number;
  size: number;
}

/** The labels of a heat map, around the place of its cells. */
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
  context.font = `${Math.min(13, size)}px ${FONT}`;
  context.fillStyle = getComputedStyle(canvas).color;
  context.textBaseline = "middle";
  context.textAlign = "right";
  queries.forEach((query, row) => context.fillText(query, left - 6, top + (row + 0.5) * size));
  context.textAlign = "left";
  context.rotate(-Math.PI / 2);
  keys.forEach((key, column) => context.fillText(key, -top + 6, left + (column + 0.5) * size));
}
