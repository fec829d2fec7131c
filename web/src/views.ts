// What the aligned text and the heat map draw, shared with their export.
import { computed } from "@preact/signals";
import { pick, renormalise, stretch } from "./matrix";
import { aligned, hideSpecial, linkCount, shown, stretchRows, threshold, unit } from "./state";
import { isSpecial, mergeWords, strongest } from "./words";

export const alignedView = computed(() => {
  const current = aligned.value;
  if (!current) return null;
  const words = unit.value === "words";
  const matrix = words ? mergeWords(current.matrix, current.queryWords, current.keyWords) : current.matrix;
  return {
    title: current.title,
    kind: current.kind,
    matrix,
    queries: words ? current.queryWords.spelled : current.queries,
    keys: words ? current.keyWords.spelled : current.keys,
    links: strongest(matrix, linkCount.value, threshold.value),
  };
});

export const heatView = computed(() => {
  const current = shown.value;
  if (!current) return null;
  const kept = (labels: string[]) => labels.map((_, i) => i).filter((i) => !hideSpecial.value || !isSpecial(labels[i]));
  const [rows, columns] = [kept(current.queries), kept(current.keys)];
  const matrix = hideSpecial.value ? renormalise(pick(current.matrix, rows, columns)) : current.matrix;
  return {
    title: current.title,
    matrix,
    colours: stretchRows.value ? stretch(matrix) : matrix,
    queries: rows.map((index) => current.queries[index]),
    keys: columns.map((index) => current.keys[index]),
    /** The query and key of each row and column. */
    rows,
    columns,
  };
});
