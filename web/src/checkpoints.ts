// Which checkpoints hold other weights than those that are shown: one may go under several names.
import type { ModelDetails } from "./document";

/** What tells the weights of a checkpoint from others; its name where the server does not say. */
export function identityOf(model: ModelDetails, checkpoint: string): string {
  return model.weights?.[checkpoint] ?? `${model.name} ${checkpoint}`;
}

/** In the place of a checkpoint where the model is a baseline alone, with nothing to look into. */
export const BASELINE = "baseline";

/** Each weights once, under the first of their names. */
export function distinct(model: ModelDetails): string[] {
  const seen = new Set<string>();
  return model.checkpoints.filter((name) => {
    const identity = identityOf(model, name);
    return name !== BASELINE && !seen.has(identity) && seen.add(identity);
  });
}

/** The checkpoints of `model` that differ from the weights `shown`, those first that say the most. */
export function others(model: ModelDetails, shown: string): string[] {
  const telling = (name: string) => (name === model.checkpoint ? 0 : name === "best" ? 1 : name === "average" ? 2 : 3);
  const named = [...model.checkpoints].reverse().sort((a, b) => telling(a) - telling(b));
  return distinct({ ...model, checkpoints: named }).filter((name) => identityOf(model, name) !== shown);
}

/** A name with the others that the same weights go under. */
export function labelOf(model: ModelDetails, checkpoint: string): string {
  const identity = identityOf(model, checkpoint);
  const also = model.checkpoints.filter((name) => name !== checkpoint && identityOf(model, name) === identity);
  return also.length ? `${checkpoint} (= ${also.join(", ")})` : checkpoint;
}
