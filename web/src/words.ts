import type { Matrix } from "./matrix";

/** The grouping of pieces into words: the word index of each piece, and the words. */
export interface Words {
  of: number[];
  spelled: string[];
}

/** The words of the decoder input: the begin symbol, then all outputs except the last piece. */
export function inputWords(outputs: Words, begin: string): Words {
  const of = [0, ...outputs.of.slice(0, -1).map((word) => word + 1)];
  return { of, spelled: [begin, ...outputs.spelled].slice(0, of[of.length - 1] + 1) };
}

/** Weights between words: summed over the pieces of a key, averaged over the pieces of a query. */
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
  /** Index of the drawn head; 0 (the chosen head) by default. */
  layer?: number;
}

/** The `count` largest weights of each row that are at least `threshold`. */
export function strongest(matrix: Matrix, count: number, threshold: number): Link[] {
  const links: Link[] = [];
  for (let query = 0; query < matrix.rows; query++) {
    const rowLinks: Link[] = [];
    for (let key = 0; key < matrix.columns; key++) {
      const weight = matrix.values[query * matrix.columns + key];
      if (weight > 0 && weight >= threshold) rowLinks.push({ query, key, weight });
    }
    links.push(...rowLinks.sort((a, b) => b.weight - a.weight).slice(0, count));
  }
  return links;
}

export function isSpecial(piece: string): boolean {
  return /^<\/?s>$|^<pad>$/.test(piece);
}

/** A visible label for a piece. White space is replaced by a symbol. */
export function visible(piece: string): string {
  return piece.trim() === "" ? (piece.includes("\n") ? "↵" : piece.includes("\t") ? "⇥" : "␣") : piece;
}
