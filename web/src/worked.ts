import type { Vectors } from "./document";
import { decode, row, plane } from "./matrix";

export interface Term {
  index: number;
  query: number;
  key: number;
  /** vᵢ of additive attention; null for other attention. */
  factor: number | null;
  value: number;
}

export interface RowEntry {
  key: number;
  energy: number;
  /** exp(energy − largest energy); 0 where masked. */
  exponential: number;
  weight: number;
  recorded: number;
  masked: boolean;
}

export interface Worked {
  terms: Term[];
  sum: number;
  bias: number | null;
  energy: number;
  row: RowEntry[];
}

export function softmax(energies: number[], masked: boolean[]): { exponentials: number[]; weights: number[] } {
  const seen = energies.filter((_, index) => !masked[index]);
  const max = Math.max(...seen);
  const exponentials = energies.map((energy, index) => (masked[index] ? 0 : Math.exp(energy - max)));
  const total = exponentials.reduce((sum, value) => sum + value, 0);
  return { exponentials, weights: exponentials.map((value) => (total > 0 ? value / total : 0)) };
}

/** The terms of the energy of `query` and `key`. Their sum times the scale, plus the bias, is the energy. */
export function workTerms(vectors: Vectors, head: number, query: number, key: number): Term[] {
  const left = row(plane(vectors.query, head), query);
  const right = row(plane(vectors.key, head), key);
  const width = left.length;
  const factors = vectors.vector && decode(vectors.vector).subarray(head * width, (head + 1) * width);
  return Array.from(left, (q, index) => {
    const factor = factors ? factors[index] : null;
    const value = factor === null ? q * right[index] : factor * Math.tanh(q + right[index]);
    return { index, query: q, key: right[index], factor, value };
  });
}

function biasOf(vectors: Vectors, head: number, query: number, key: number): number | null {
  return vectors.bias ? row(plane(vectors.bias, head), query)[key] : null;
}

/** Whether no position may attend to a later one. */
export function isCausal({ allowed }: Vectors): boolean {
  const [rows, columns] = allowed.shape;
  const values = decode(allowed);
  return rows === columns && rows > 1 && values.every((value, index) => value === 0 || index % columns <= Math.floor(index / columns));
}

/** Computes one cell from its vectors: the energy, and the softmax over the unmasked keys of its row. */
export function work(vectors: Vectors, head: number, query: number, key: number, recorded: ArrayLike<number>): Worked {
  const summed = (terms: Term[]) => terms.reduce((sum, term) => sum + term.value, 0);
  const energies = Array.from(recorded, (_, other) => {
    const added = biasOf(vectors, head, query, other) ?? 0;
    return summed(workTerms(vectors, head, query, other)) * vectors.scale + added;
  });
  const masked = Array.from(row(plane(vectors.allowed), query), (allowed) => allowed === 0);
  const { exponentials, weights } = softmax(energies, masked);
  const terms = workTerms(vectors, head, query, key);
  return {
    terms,
    sum: summed(terms),
    bias: biasOf(vectors, head, query, key),
    energy: energies[key],
    row: energies.map((energy, other) => ({
      key: other,
      energy,
      exponential: exponentials[other],
      weight: weights[other],
      recorded: recorded[other],
      masked: masked[other],
    })),
  };
}

/** α v for every key, and their sum, which is the output of the head. */
export function weightedValues(vectors: Vectors, head: number, weights: ArrayLike<number>) {
  const values = plane(vectors.value, head);
  const parts = Array.from(weights, (weight, key) => Array.from(row(values, key), (value) => weight * value));
  const total = Array.from({ length: values.columns }, (_, i) => parts.reduce((sum, part) => sum + part[i], 0));
  return { parts, total };
}
