import type { Curve } from "./document";

export interface Plot {
  unit: string;
  names: string[];
  /** Updates first, then the values of each curve, null where it has none. */
  columns: [number[], ...(number | null)[][]];
}

/** One plot per unit, its curves over the union of their updates. */
export function plotsOf(curves: Curve[]): Plot[] {
  return [...new Set(curves.map((curve) => curve.unit))].map((unit) => {
    const together = curves.filter((curve) => curve.unit === unit);
    const updates = [...new Set(together.flatMap((curve) => curve.points.map(([update]) => update)))].sort((a, b) => a - b);
    const columns = together.map((curve) => {
      const values = new Map(curve.points);
      return updates.map((update) => values.get(update) ?? null);
    });
    return { unit, names: together.map((curve) => curve.name), columns: [updates, ...columns] };
  });
}
