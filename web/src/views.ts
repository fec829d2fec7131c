// The data of the aligned text and the heat map, for the page and for exports.
import { computed } from "@preact/signals";
import { pick, renormalize, stretch } from "./matrix";
import { aligned, hideSpecial, linkCount, overlaid, shown, stretchRows, threshold, unit } from "./state";
import { isSpecial, mergeWords, strongest } from "./words";

export const alignedView = computed(() => {
  const current = aligned.value;
  if (!current) return null;
  const words = unit.value === "words";
  const layers = [current, ...overlaid.value].map(({ title, matrix, attention, head, queryWords, keyWords }) => ({
    title,
    attention,
    head,
    matrix: words ? mergeWords(matrix, queryWords, keyWords) : matrix,
  }));
  return {
    title: current.title + (layers.length > 1 ? `, and ${layers.length - 1} more` : ""),
    rowName: current.rows,
    columnName: current.columns,
    /** The chosen head, then the additional heads. */
    layers,
    queries: words ? current.queryWords.spelled : current.queries,
    keys: words ? current.keyWords.spelled : current.keys,
    links: layers.flatMap(({ matrix }, layer) =>
      strongest(matrix, linkCount.value, threshold.value).map((link) => ({ ...link, layer })),
    ),
  };
});

export const heatView = computed(() => {
  const current = shown.value;
  if (!current) return null;
  const visibleIndices = (labels: string[]) => labels.map((_, i) => i).filter((i) => !hideSpecial.value || !isSpecial(labels[i]));
  const [rows, columns] = [visibleIndices(current.queries), visibleIndices(current.keys)];
  const matrix = hideSpecial.value ? renormalize(pick(current.matrix, rows, columns)) : current.matrix;
  return {
    title: current.title,
    matrix,
    colors: stretchRows.value ? stretch(matrix) : matrix,
    allowed: current.allowed && pick(current.allowed, rows, columns),
    rowName: current.rows,
    columnName: current.columns,
    queries: rows.map((index) => current.queries[index]),
    keys: columns.map((index) => current.keys[index]),
    /** The query index of each row and the key index of each column. */
    rows,
    columns,
  };
});
