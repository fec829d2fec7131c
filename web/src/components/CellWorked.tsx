import { useEffect } from "preact/hooks";
import { loadVectors } from "../inspecting";
import type { Vectors } from "../document";
import { exact } from "../format";
import { row } from "../matrix";
import { cell, inspection, offline, shown, status } from "../state";
import { visible } from "../words";
import { isCausal, work } from "../worked";
import { HeadsOfCell } from "./HeadsOfCell";
import { Problem } from "./Problem";
import { SoftmaxTable } from "./SoftmaxTable";
import { Terms } from "./Terms";
import { ValueTable } from "./ValueTable";

/** The computation of a weight from its vectors, step by step. */
function Steps({ vectors, head, query, at: key }: { vectors: Vectors; head: number; query: number; at: number }) {
  const { queries, keys, matrix } = shown.value!;
  const recorded = row(matrix, query);
  if (vectors.kind === "none")
    return (
      <>
        <p>The energy of this mechanism depends on more than one query and one key. Only its weights and weighted values are listed.</p>
        <ValueTable vectors={vectors} head={head} weights={recorded} keys={keys} />
      </>
    );
  const worked = work(vectors, head, query, key, recorded);
  return (
    <>
      <div class="columns">
        <div class="column">
          <h3>1. Energy: {vectors.formula}</h3>
          <Terms worked={worked} vectors={vectors} />
        </div>
        <div class="column">
          <h3>2. Softmax over the row of {visible(queries[query])}</h3>
          <SoftmaxTable row={worked.row} keys={keys} current={key} lastSeen={isCausal(vectors) ? query : null} />
        </div>
      </div>
      <h3>3. Output: Σ α v</h3>
      <ValueTable vectors={vectors} head={head} weights={recorded} keys={keys} />
    </>
  );
}

export function CellWorked() {
  const at = cell.value;
  const { attention, head, matrix, queries, keys, title } = shown.value!;
  const vectors = attention === null ? undefined : inspection.value!.vectors?.[attention];
  const loaded = inspection.value!.vectors !== undefined;
  const inside = at !== null && at.query < matrix.rows && at.key < matrix.columns;
  const mustLoad = inside && attention !== null && head !== null && !loaded && !offline;
  const { busy } = status.vectors.value;
  useEffect(() => {
    if (mustLoad && !busy) void loadVectors();
  }, [mustLoad, at]);
  if (!inside) return <p class="quiet">Click a cell of the heat map, or press Enter on it, to see how its weight is computed.</p>;
  const weight = matrix.values[at.query * matrix.columns + at.key];
  return (
    <div data-testid="cell-panel">
      <p>
        {title}: <b>{visible(queries[at.query])}</b> (query {at.query}) → <b>{visible(keys[at.key])}</b> (key {at.key}), weight{" "}
        <b class="figures" data-testid="cell-weight">
          {exact(weight)}
        </b>
      </p>
      {attention === null && <p>A rollout is computed from the weights of all layers. It has no queries and keys.</p>}
      {attention !== null && head === null && (
        <HeadsOfCell attention={attention} weights={inspection.value!.attention[attention].weights} query={at.query} at={at.key} />
      )}
      {attention !== null && head !== null && (
        <>
          <Problem place="vectors" doing="Loading queries, keys and values …" />
          {vectors && <Steps vectors={vectors} head={head} query={at.query} at={at.key} />}
          {!vectors && loaded && <p>This attention has no queries, keys and values.</p>}
          {!loaded && offline && <p>The queries, keys and values were not saved with this page.</p>}
        </>
      )}
    </div>
  );
}
