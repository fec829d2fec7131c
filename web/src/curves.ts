import type { Curve, ModelDetails } from "./document";
import { identityOf } from "./checkpoints";

export interface Line {
  name: string;
  /** Whether the line is a baseline, drawn dashed. */
  baseline: boolean;
  /** Whether to draw a dot at each point, as for validations. */
  dots: boolean;
}

/** One metric over the updates. */
export interface Plot {
  title: string;
  unit: string;
  lines: Line[];
  /** The updates, then the values of each line; null where a line has no value. */
  columns: [number[], ...(number | null)[][]];
  /** The update of the best checkpoint; null if unknown. */
  best: number | null;
}

const metricOf = (name: string) => name.replace(/^(training|validation) /, "");

/** The update of the checkpoint with the weights of "best"; null if unknown. */
export function bestUpdate(model: ModelDetails): number | null {
  if (!model.checkpoints.includes("best")) return null;
  const same = model.checkpoints.filter((name) => /^\d+$/.test(name) && identityOf(model, name) === identityOf(model, "best"));
  return same.length ? Number(same[0]) : null;
}

/** A plot for each metric: the loss first, the learning rate last. The baseline is a separate line. */
export function plotsOf(model: ModelDetails): Plot[] {
  const { curves, comparison } = model;
  const baselines = new Set(curves.flatMap(({ baseline }) => (baseline ? [`validation ${baseline}`] : [])));
  const metrics = [...new Set(curves.filter(({ name }) => !baselines.has(name)).map(({ name }) => metricOf(name)))];
  const order = (metric: string) => (metric === "loss" ? 0 : metric === "rate" ? 2 : 1);
  return metrics
    .sort((one, other) => order(one) - order(other))
    .map((metric) => {
      const own = curves.filter(({ name }) => metricOf(name) === metric);
      const named = own.find(({ baseline }) => baseline)?.baseline;
      const constant = curves.filter(({ name }) => named && name === `validation ${named}`);
      return plotOf(metric, own, constant, comparison?.metrics[metric]?.baseline, bestUpdate(model));
    });
}

function plotOf(metric: string, own: Curve[], constant: Curve[], compared: number | undefined, best: number | null): Plot {
  const together = [...own, ...constant];
  const updates = [...new Set(together.flatMap(({ points }) => points.map(([update]) => update)))].sort((a, b) => a - b);
  const columns = together.map(({ points }) => {
    const values = new Map(points);
    return updates.map((update) => values.get(update) ?? null);
  });
  const lines: Line[] = together.map(({ name }, index) => ({ name: index < own.length ? name : metricOf(name), baseline: index >= own.length, dots: name.startsWith("validation") && index < own.length }));
  if (compared !== undefined) {
    lines.push({ name: "baseline", baseline: true, dots: false });
    columns.push(updates.map(() => compared));
  }
  return { title: metric === "rate" ? "learning rate" : metric.replaceAll("_", " "), unit: own[0].unit, lines, columns: [updates, ...columns], best };
}
