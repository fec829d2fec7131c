import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { layColumns, layRows } from "../aligned";
import { fixed } from "../format";
import { useWidth } from "../hooks";
import { measureText } from "../paint";
import { READ_LATE } from "../help";
import { readLate } from "../shown";
import { aligned, choice, inspection, linkCount, settled, threshold, unit } from "../state";
import { alignedView } from "../views";
import { visible } from "../words";
import { lock, type Pointed } from "../view";
import { AlignedDrawing } from "./AlignedDrawing";
import { Layers } from "./Layers";

function Options() {
  return (
    <div class="controls">
      <fieldset class="switch">
        <legend class="hidden">Unit</legend>
        {(["pieces", "words"] as const).map((name) => (
          <label key={name}>
            <input
              type="radio"
              name="unit"
              data-testid={`unit-${name}`}
              checked={unit.value === name}
              onChange={() => (unit.value = name)}
            />{" "}
            {name === "pieces" ? "subwords" : "words"}
          </label>
        ))}
      </fieldset>
      <label>
        Links per piece: {linkCount.value}{" "}
        <input
          type="range"
          id="link-count"
          min="1"
          max="10"
          value={linkCount.value}
          onInput={(event) => (linkCount.value = Number(event.currentTarget.value))}
        />
      </label>
      <label>
        Minimum weight: {fixed(threshold.value)}{" "}
        <input
          type="range"
          id="link-threshold"
          min="0"
          max="1"
          step="0.01"
          value={threshold.value}
          onInput={(event) => (threshold.value = Number(event.currentTarget.value))}
        />
      </label>
    </div>
  );
}

export function AlignedText() {
  const holder = useRef<HTMLDivElement>(null);
  const width = useWidth(holder);
  const hovered = useSignal<Pointed | null>(null);
  useEffect(() => {
    const unlock = (event: KeyboardEvent) => event.key === "Escape" && (lock.value = null);
    window.addEventListener("keydown", unlock);
    return () => window.removeEventListener("keydown", unlock);
  }, []);
  const view = alignedView.value!;
  const layout = useComputed(() => {
    const { keys, queries, links } = alignedView.value ?? { keys: [], queries: [], links: [] };
    return { wide: layRows(keys, queries, links, measureText), narrow: (room: number) => layColumns(keys, queries, links, measureText, room) };
  });
  const identity = JSON.stringify([view.title, unit.value, inspection.value!.text, view.queries]);
  // A lock belongs to one drawing. A different attention, unit or sentence removes it.
  const locked = lock.value && (lock.value.view ?? identity) === identity ? lock.value.at : null;
  const active = locked ?? hovered.value;
  const sides = { key: view.columnName, query: view.rowName };
  const labelOf = (at: Pointed) => visible((at.side === "key" ? view.keys : view.queries)[at.index] ?? "");
  const links = active ? view.links.filter((link) => link[active.side] === active.index) : [];
  const across = active?.side === "key" ? "query" : "key";
  const why = aligned.value!.why;
  const weightsOf = (layer: number) =>
    links
      .filter((link) => (link.layer ?? 0) === layer)
      .map((link) => `${labelOf({ side: across, index: link[across] })} ${fixed(link.weight, 3)}`)
      .join(", ") || "no weight above the minimum";
  return (
    <>
      <p data-testid="attention-name">
        <b>{view.title}</b>. {why}{" "}
        {choice.value !== null && (
          <button type="button" class="plain" onClick={() => (choice.value = null)}>
            Back to the default
          </button>
        )}
      </p>
      <p class="quiet">Attention shows where the model read from, not why it decided.</p>
      {readLate(inspection.value!, settled.value!) && (
        <details class="help" data-testid="read-late">
          <summary>What “read one step late” means</summary>
          <p>{READ_LATE}</p>
        </details>
      )}
      <Options />
      <Layers />
      <div ref={holder} class="scroller">
        {width > 0 && (
          <AlignedDrawing
            layout={width < 560 || layout.value.wide.width > width ? layout.value.narrow(width) : layout.value.wide}
            matrix={view.layers[0].matrix}
            sides={sides}
            active={active}
            locked={locked}
            onHover={(at) => (hovered.value = at)}
            onLock={(at) => {
              const again = locked && at.side === locked.side && at.index === locked.index;
              lock.value = again ? null : { at, view: identity };
            }}
          />
        )}
      </div>
      <p class={active ? "readout held" : "readout"} data-testid="weights" aria-live="polite">
        {active ? (
          <>
            {locked ? (
              <b data-testid="locked">
                locked: {labelOf(locked)} ({sides[locked.side]})
              </b>
            ) : (
              labelOf(active)
            )}{" "}
            {active.side === "query" ? "→" : "←"}{" "}
            {view.layers.length === 1
              ? weightsOf(0)
              : view.layers.map(({ attention, head }, layer) => (
                  <span class="layer" key={layer}>
                    <b>{head === null ? `mean of ${attention ?? "all"}` : `${attention}, head ${head}`}:</b> {weightsOf(layer)}
                  </span>
                ))}
          </>
        ) : (
          <span class="quiet">Point at a piece to see its weights. A click or Enter locks it, and Esc unlocks it.</span>
        )}
      </p>
    </>
  );
}
