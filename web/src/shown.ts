// The chosen head of an inspection, and its weights with their labels.
import type { Inspection } from "./document";
import { mean, plane, type Matrix } from "./matrix";
import { groupOf, wordsOf } from "./reading";
import type { Words } from "./words";

/** A head (null: the mean of the heads), or a rollout by its name. */
export type Choice = { attention: string; head: number | null } | { rollout: string };

/** A head that is drawn in addition to the chosen one. */
export type Overlaid = { attention: string; head: number | null };

export interface Shown {
  title: string;
  why: string;
  /** The type of the attention. */
  group: string;
  matrix: Matrix;
  /** 1 where a query may attend to a key; null: everywhere. */
  allowed: Matrix | null;
  /** null for a rollout. */
  attention: string | null;
  head: number | null;
  queries: string[];
  keys: string[];
  /** The names of the axes. */
  rows: string;
  columns: string;
  queryWords: Words;
  keyWords: Words;
}

/** The types of attention, encoder-decoder attention first. */
export function groupsOf(inspection: Inspection): string[] {
  const groups = [...new Set(Object.values(inspection.attention).map(groupOf))];
  return [...groups.filter((group) => group.startsWith("Encoder-decoder")), ...groups.filter((group) => !group.startsWith("Encoder-decoder"))];
}

export function headsOf(inspection: Inspection, name: string): number {
  return inspection.attention[name].weights.shape[0];
}

/** The default head: the copying attention, the aligning head, the pooling, or the last attention. */
export function defaultChoice(inspection: Inspection): Choice | null {
  const { alignment, attention } = inspection;
  const names = Object.keys(attention);
  const pointer = names.find((name) => name.startsWith("copying."));
  if (pointer) return { attention: pointer, head: null };
  if (alignment && attention[alignment.attention]) return { attention: alignment.attention, head: alignment.head };
  const last = names.find((name) => attention[name].side === "pooling") ?? names.filter((name) => attention[name].part.endsWith("source")).at(-1) ?? names.at(-1);
  return last === undefined ? null : { attention: last, head: headsOf(inspection, last) === 1 ? 0 : null };
}

/** `choice` if the inspection has it, otherwise its default. */
export function settle(inspection: Inspection, choice: Choice | null): Choice | null {
  if (choice && "rollout" in choice && inspection.rollout?.[choice.rollout]) return choice;
  if (choice && "attention" in choice && inspection.attention[choice.attention])
    if ((choice.head ?? 0) < headsOf(inspection, choice.attention)) return choice;
  return defaultChoice(inspection);
}

export function sameChoice(left: Choice | null, right: Choice | null): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}

export function titleOf(choice: Choice): string {
  if ("rollout" in choice) return `rollout of the ${choice.rollout === "source" ? "encoder-decoder attention" : `${choice.rollout} attention`}`;
  return `${choice.attention}, ${choice.head === null ? "mean of the heads" : `head ${choice.head}`}`;
}

/** The heads that can be drawn together with `choice`: they exist, have its type, and differ from it. */
export function fitting(inspection: Inspection, choice: Choice, heads: Overlaid[]): Overlaid[] {
  const { group } = show(inspection, choice);
  const exists = ({ attention, head }: Overlaid) => inspection.attention[attention] && groupOf(inspection.attention[attention]) === group && (head ?? 0) < headsOf(inspection, attention);
  return heads.filter((each) => exists(each) && !sameChoice(each, choice));
}

/** Adds `head` to `heads`, or removes it if it is in the list. */
export function toggled(heads: Overlaid[], head: Overlaid): Overlaid[] {
  const others = heads.filter((each) => !sameChoice(each, head));
  return others.length < heads.length ? others : [...heads, head];
}

/** Whether the aligned text shows the rows of `choice` one step late. */
export function readLate(inspection: Inspection, choice: Choice): boolean {
  return !("rollout" in choice) && show(inspection, choice).why !== "" && !!inspection.alignment?.shift;
}

/** Like `show`, for the aligned text. An aligning head can use the next row, in which the decoder reads the piece. */
export function showAligned(inspection: Inspection, choice: Choice): Shown {
  const shown = show(inspection, choice);
  if (!readLate(inspection, choice)) return shown;
  return { ...shown, title: `${shown.title}, read one step late`, matrix: plane(inspection.alignment!.weights) };
}

/** An attention with the axes of a rollout. */
function axesOf(inspection: Inspection, rollout: string) {
  const all = Object.values(inspection.attention);
  const part = rollout === "source" ? "source" : "self";
  return all.find((each) => each.part.endsWith(part) && (part === "source" || each.side === rollout)) ?? all[0];
}

export function show(inspection: Inspection, choice: Choice): Shown {
  const own = "rollout" in choice ? axesOf(inspection, choice.rollout) : inspection.attention[choice.attention];
  const [queries, keys] = [own.query.labels, own.key.labels];
  const axes = { queries, keys, rows: own.query.name, columns: own.key.name, queryWords: wordsOf(inspection, queries), keyWords: wordsOf(inspection, keys) };
  const shared = { title: titleOf(choice), group: groupOf(own), ...axes };
  if ("rollout" in choice) {
    const why = "The attention of all layers multiplied, with the residual connections.";
    return { ...shared, why, matrix: plane(inspection.rollout![choice.rollout]), allowed: null, attention: null, head: null };
  }
  const { alignment = null } = inspection;
  const chosen = alignment !== null && sameChoice(choice, { attention: alignment.attention, head: alignment.head });
  return {
    ...shared,
    why: chosen ? alignment.why : "",
    matrix: choice.head === null ? mean(own.weights) : plane(own.weights, choice.head),
    allowed: own.allowed && plane(own.allowed),
    ...choice,
  };
}
