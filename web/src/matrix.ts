import type { Floats } from "./document";

export interface Matrix {
  rows: number;
  columns: number;
  /** Row-major. */
  values: Float32Array;
}

const decoded = new WeakMap<Floats, Float32Array>();
const means = new WeakMap<Floats, Matrix>();

/** The numbers of `floats`, decoded once per object. */
export function decode(floats: Floats): Float32Array {
  let values = decoded.get(floats);
  if (!values) {
    const bytes = Uint8Array.from(atob(floats.data), (character) => character.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    values = Float32Array.from({ length: bytes.length / 4 }, (_, index) => view.getFloat32(4 * index, true));
    decoded.set(floats, values);
  }
  return values;
}

/** A tensor with two dimensions, or one slice of a tensor with three. */
export function plane(floats: Floats, index = 0): Matrix {
  const [rows, columns] = floats.shape.slice(-2);
  const size = rows * columns;
  return { rows, columns, values: decode(floats).subarray(index * size, (index + 1) * size) };
}

/** The mean over the first of three dimensions. */
export function mean(floats: Floats): Matrix {
  let matrix = means.get(floats);
  if (!matrix) {
    const [heads, rows, columns] = floats.shape;
    const values = new Float32Array(rows * columns);
    const all = decode(floats);
    for (let index = 0; index < all.length; index++) values[index % values.length] += all[index] / heads;
    matrix = { rows, columns, values };
    means.set(floats, matrix);
  }
  return matrix;
}

export function row(matrix: Matrix, index: number): Float32Array {
  return matrix.values.subarray(index * matrix.columns, (index + 1) * matrix.columns);
}

export function pick(matrix: Matrix, rows: number[], columns: number[]): Matrix {
  const values = new Float32Array(rows.length * columns.length);
  rows.forEach((from, r) =>
    columns.forEach((source, c) => (values[r * columns.length + c] = matrix.values[from * matrix.columns + source])),
  );
  return { rows: rows.length, columns: columns.length, values };
}

function divideRows(matrix: Matrix, divisor: (row: Float32Array) => number): Matrix {
  const values = matrix.values.slice();
  for (let index = 0; index < matrix.rows; index++) {
    const part = values.subarray(index * matrix.columns, (index + 1) * matrix.columns);
    const by = divisor(part);
    if (by > 0) part.forEach((value, column) => (part[column] = value / by));
  }
  return { ...matrix, values };
}

/** Divide each row by its sum. Rows of zeros do not change. */
export function renormalize(matrix: Matrix): Matrix {
  return divideRows(matrix, (values) => values.reduce((sum, value) => sum + value, 0));
}

/** Divide each row by its largest value. Rows of zeros do not change. */
export function stretch(matrix: Matrix): Matrix {
  return divideRows(matrix, (values) => values.reduce((max, value) => Math.max(max, value), 0));
}

export function largest(matrix: Matrix): number {
  return matrix.values.reduce((max, value) => Math.max(max, value), 0);
}
