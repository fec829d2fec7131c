import { useSignal } from "@preact/signals";
import type { Inspection } from "../document";
import { fixed } from "../format";
import { decode, mean, plane } from "../matrix";
import { describe, measureOf, measuresOf, orderHeads, type Head } from "../measures";
import { groupOf } from "../reading";
import { groupsOf as typesOf, sameChoice, show, type Choice } from "../shown";
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
    title: current.attention[name].mechanism ? `${name} (${current.attention[name].mechanism})` : name,
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

function Controls({ names, measure, sorted, own, onMeasure, onSorted, onOwn }: {
  names: string[];
  measure: string;
  sorted: boolean;
  onMeasure: (name: string) => void;
  onSorted: (on: boolean) => void;
  /** Whether each head has its own color scale. */
  own: boolean;
  onOwn: (on: boolean) => void;
}) {
  return (
    <div class="controls">
      {names.length > 0 && (
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
      )}
      {names.length > 0 && (
        <label>
          <input type="checkbox" id="grid-sort" data-testid="grid-sort" checked={sorted} onChange={(event) => onSorted(event.currentTarget.checked)} />{" "}
          sort by this value
        </label>
      )}
      <label>
        <input type="checkbox" data-testid="grid-own" checked={own} onChange={(event) => onOwn(event.currentTarget.checked)} /> separate color scale for each head
      </label>
      <Problem place="extras" doing="Switching off each head in turn …" testId="status-ablation" />
    </div>
  );
}

export function HeadGrid() {
  const current = inspection.value!;
  const chosenType = useSignal<string | null>(null);
  const measure = useSignal("entropy");
  const sorted = useSignal(false);
  const own = useSignal(false);
  const types = typesOf(current);
  const type = chosenType.value && types.includes(chosenType.value) ? chosenType.value : shown.value!.group;
  const names = Object.keys(current.attention).filter((name) => groupOf(current.attention[name]) === type);
  const measures = measuresOf(current);
  const by = measures.includes(measure.value) ? measure.value : measures[0];
  const choose = (next: Choice) => {
    chosenType.value = type;
    choice.value = next;
  };
  // All heads of a type share one scale to make them comparable.
  const max = own.value ? undefined : Math.max(...names.map((name) => decode(current.attention[name].weights).reduce((top, value) => Math.max(top, value), 0)));
  const rollout = Object.keys(current.rollout ?? {}).find((name) => show(current, { rollout: name }).group === type);
  return (
    <>
      <Controls
        names={measures}
        measure={by}
        sorted={sorted.value}
        onMeasure={(name) => (measure.value = name)}
        onSorted={(on) => (sorted.value = on)}
        own={own.value}
        onOwn={(on) => (own.value = on)}
      />
      <Tabs label="Type of attention" tabs={types.map((id) => ({ id, title: id }))} current={type} onPick={(id) => (chosenType.value = id)}>
        {groupsOf(current, names, sorted.value ? by : null).map((group) => (
          <div key={group.title}>
            <h3>{group.title}</h3>
            <div class="grid" role="group" aria-label={group.title}>
              {group.heads.map(({ attention, head }) => {
                const { weights } = current.attention[attention];
                const value = by ? measureOf(current, attention, head, by) : undefined;
                const layer = sorted.value ? `${current.attention[attention].layer ?? ""} · ` : "";
                return (
                  <Thumbnail
                    key={`${attention} ${head}`}
                    testId={`head-${attention}-${head ?? "mean"}`}
                    label={layer + (head === null ? "mean" : sorted.value ? String(head) : `head ${head}`)}
                    value={value === undefined ? "" : fixed(value)}
                    selected={sameChoice(settled.value, { attention, head })}
                    of={weights}
                    weights={() => (head === null ? mean(weights) : plane(weights, head))}
                    max={max}
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
                testId={`rollout-${rollout}`}
                label="rollout"
                value=""
                selected={sameChoice(settled.value, { rollout })}
                of={current.rollout![rollout]}
                weights={() => plane(current.rollout![rollout])}
                onSelect={() => choose({ rollout })}
              />
            </div>
          </div>
        )}
      </Tabs>
      <p class="quiet">Layers and heads are counted from 0.</p>
    </>
  );
}
