import type { Matrix } from "./matrix";

/** How pieces make words: for each piece the index of its word, and the words. */
export interface Words {
  of: number[];
  spelled: string[];
}

/** The words of what a decoder is fed: the begin symbol, then those of the outputs but the last piece. */
export function inputWords(outputs: Words, begin: string): Words {
  const of = [0, ...outputs.of.slice(0, -1).map((word) => word + 1)];
  return { of, spelled: [begin, ...outputs.spelled].slice(0, of[of.length - 1] + 1) };
}

/** Weights between words: the sum over the pieces of the key, the mean over the pieces of the query. */
export function mergeWords(matrix: Matrix, queries: Words, keys: Words): Matrix {
  const columns = keys.spelled.length;
  const merged: Matrix = { rows: queries.spelled.length, columns, values: new Float32Array(queries.spelled.length * columns) };
  const pieces = new Array<number>(merged.rows).fill(0);
  queries.of.forEach((word) => pieces[word]++);
  for (let query = 0; query < matrix.rows; query++) {
    const word = queries.of[query];
    for (let key = 0; key < matrix.columns; key++)
      merged.values[word * columns + keys.of[key]] += matrix.values[query * matrix.columns + key] / pieces[word];
  }
  return merged;
}

export interface Link {
  query: number;
  key: number;
  weight: number;
  /** Which of several heads drawn over each other it is of; 0 unless given. */
  layer?: number;
}

/** The `count` largest weights of each row that reach `threshold`. */
export function strongest(matrix: Matrix, count: number, threshold: number): Link[] {
  const links: Link[] = [];
  for (let query = 0; query < matrix.rows; query++) {
    const found: Link[] = [];
    for (let key = 0; key < matrix.columns; key++) {
      const weight = matrix.values[query * matrix.columns + key];
      if (weight > 0 && weight >= threshold) found.push({ query, key, weight });
    }
    links.push(...found.sort((a, b) => b.weight - a.weight).slice(0, count));
  }
  return links;
}

export function isSpecial(piece: string): boolean {
  return /^<\/?s>$|^<pad>$/.test(piece);
}

/** A label that can be seen and pointed at even where the piece is blank. */
export function visible(piece: string): string {
  return piece.trim() === "" ? (piece.includes("\n") ? "↵" : piece.includes("\t") ? "⇥" : "␣") : piece;
}
