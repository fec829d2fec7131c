import { useSignal } from "@preact/signals";
import type { Inspection, Kind } from "../document";
import { fixed } from "../format";
import { mean, plane } from "../matrix";
import { describe, measureOf, measuresOf, orderHeads, type Head } from "../measures";
import { KIND_NAMES, kindsOf, sameChoice, type Choice } from "../shown";
import { choice, inspection, settled, shown } from "../state";
import { Problem } from "./Problem";
import { Tabs } from "./Tabs";
import { Thumbnail } from "./Thumbnail";

interface Group {
  title: string;
  heads: { attention: string; head: number | null }[];
}

function groupsOf(current: Inspection, names: string[], sortBy: string | null): Group[] {
  const layers: Group[] = names.map((name) => ({
    title: `${name} (${current.attention[name].mechanism})`,
    heads: [...orderHeads(current, [name], null), { attention: name, head: null }],
  }));
  if (sortBy === null) return layers;
  const means = names.map((attention) => ({ attention, head: null }));
  const all: Head[] = orderHeads(current, names, sortBy);
  return [
    { title: `All heads, largest ${describe(sortBy).label} first`, heads: all },
    { title: "Means of the layers", heads: means },
  ];
}

function Controls({ names, measure, sorted, onMeasure, onSorted }: {
  names: string[];
  measure: string;
  sorted: boolean;
  onMeasure: (name: string) => void;
  onSorted: (on: boolean) => void;
}) {
  return (
    <div class="controls">
      <label>
        Value{" "}
        <select id="grid-measure" data-testid="grid-measure" value={measure} onChange={(event) => onMeasure(event.currentTarget.value)}>
          {names.map((name) => (
            <option key={name} value={name}>
              {describe(name).label}
            </option>
          ))}
        </select>
      </label>
      <label>
        <input
          type="checkbox"
          id="grid-sort"
          data-testid="grid-sort"
          checked={sorted}
          onChange={(event) => onSorted(event.currentTarget.checked)}
        />{" "}
        sort by it
      </label>
      <Problem place="extras" doing="Switching heads off, one by one …" testId="status-ablation" />
    </div>
  );
}

export function HeadGrid() {
  const current = inspection.value!;
  const picked = useSignal<Kind | null>(null);
  const measure = useSignal("entropy");
  const sorted = useSignal(false);
  const kinds = kindsOf(current);
  const kind = picked.value && kinds.includes(picked.value) ? picked.value : kinds.includes(shown.value!.kind) ? shown.value!.kind : kinds[0];
  const names = Object.keys(current.attention).filter((name) => current.attention[name].kind === kind);
  const measures = measuresOf(current);
  const by = measures.includes(measure.value) ? measure.value : measures[0];
  const choose = (next: Choice) => {
    picked.value = kind;
    choice.value = next;
  };
  const rollout = kind === "decoder" ? undefined : current.rollout[kind];
  return (
    <>
      <Controls
        names={measures}
        measure={by}
        sorted={sorted.value}
        onMeasure={(name) => (measure.value = name)}
        onSorted={(on) => (sorted.value = on)}
      />
      <Tabs label="Kind of attention" tabs={kinds.map((id) => ({ id, title: KIND_NAMES[id] }))} current={kind} onPick={(id) => (picked.value = id)}>
        {groupsOf(current, names, sorted.value ? by : null).map((group) => (
          <div key={group.title}>
            <h3>{group.title}</h3>
            <div class="grid" role="group" aria-label={group.title}>
              {group.heads.map(({ attention, head }) => {
                const { weights } = current.attention[attention];
                const value = measureOf(current, attention, head, by);
                const layer = sorted.value ? `${current.attention[attention].layer} · ` : "";
                return (
                  <Thumbnail
                    key={`${attention} ${head}`}
                    testId={`head-${attention}-${head ?? "mean"}`}
                    label={layer + (head === null ? "mean" : sorted.value ? String(head) : `head ${head}`)}
                    value={value === undefined ? "–" : fixed(value)}
                    selected={sameChoice(settled.value, { attention, head })}
                    of={weights}
                    weights={() => (head === null ? mean(weights) : plane(weights, head))}
                    onSelect={() => choose({ attention, head })}
                  />
                );
              })}
            </div>
          </div>
        ))}
        {rollout && (
          <div>
            <h3>Rollout</h3>
            <div class="grid" role="group" aria-label="Rollout">
              <Thumbnail
                testId={`rollout-${kind}`}
                label="rollout"
                value=""
                selected={sameChoice(settled.value, { rollout: kind })}
                of={rollout}
                weights={() => plane(rollout)}
                onSelect={() => choose({ rollout: kind })}
              />
            </div>
          </div>
        )}
      </Tabs>
      <p class="quiet">Layers and heads are counted from 0.</p>
    </>
  );
}
