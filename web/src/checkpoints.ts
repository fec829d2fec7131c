// Checkpoints. Several names can refer to the same weights.
import type { ModelDetails } from "./document";

/** The digest of the weights of a checkpoint; its name if the server has no digest. */
export function identityOf(model: ModelDetails, checkpoint: string): string {
  return model.weights?.[checkpoint] ?? `${model.name} ${checkpoint}`;
}

/** The name of the checkpoint of a baseline without a network. It cannot be inspected. */
export const BASELINE = "baseline";

/** The checkpoints with different weights, each with the first of its names. */
export function distinct(model: ModelDetails): string[] {
  const seen = new Set<string>();
  return model.checkpoints.filter((name) => {
    const identity = identityOf(model, name);
    return name !== BASELINE && !seen.has(identity) && seen.add(identity);
  });
}

/** The checkpoints of `model` whose weights differ from `shown`. The default, the best and the average come first. */
export function others(model: ModelDetails, shown: string): string[] {
  const order = (name: string) => (name === model.checkpoint ? 0 : name === "best" ? 1 : name === "average" ? 2 : 3);
  const named = [...model.checkpoints].reverse().sort((a, b) => order(a) - order(b));
  return distinct({ ...model, checkpoints: named }).filter((name) => identityOf(model, name) !== shown);
}

/** The name of a checkpoint, followed by other names of the same weights. */
export function labelOf(model: ModelDetails, checkpoint: string): string {
  const identity = identityOf(model, checkpoint);
  const also = model.checkpoints.filter((name) => name !== checkpoint && identityOf(model, name) === identity);
  return also.length ? `${checkpoint} (= ${also.join(", ")})` : checkpoint;
}
