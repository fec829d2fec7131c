import type { Signal } from "@preact/signals";
import { cell, hideSpecial, stretchRows } from "../state";
import { heatView } from "../views";
import { HeatMap } from "./HeatMap";

function Check({ id, of, children }: { id: string; of: Signal<boolean>; children: string }) {
  return (
    <label>
      <input type="checkbox" id={id} checked={of.value} onChange={(event) => (of.value = event.currentTarget.checked)} /> {children}
    </label>
  );
}

export function HeatMapSection() {
  const view = heatView.value!;
  const open = (row: number, column: number) => {
    cell.value = { query: view.rows[row], key: view.columns[column] };
    requestAnimationFrame(() => document.getElementById("cell")?.scrollIntoView({ block: "nearest" }));
  };
  return (
    <>
      <p>
        <b data-testid="heatmap-name">{view.title}</b>. Rows are queries ({view.rowName}), columns are keys ({view.columnName}).
      </p>
      <div class="controls">
        <Check id="hide-special" of={hideSpecial}>
          hide special tokens and renormalize
        </Check>
        <Check id="stretch-rows" of={stretchRows}>
          scale the colors of each row to its largest weight
        </Check>
      </div>
      <HeatMap {...view} label={`Weights of ${view.title}`} testId="heatmap" onOpen={open} />
    </>
  );
}
