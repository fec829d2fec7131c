import { layerColor, layerDash } from "../color";
import { headsOf, sameChoice, toggled, type Overlaid } from "../shown";
import { dark, inspection, overlay, settled } from "../state";
import { alignedView } from "../views";

function Swatch({ layer }: { layer: number }) {
  return (
    <svg width="22" height="8" aria-hidden="true">
      <path d="M0,4H22" stroke={layerColor(layer, dark.value)} stroke-width="3" stroke-dasharray={layerDash(layer) || "none"} />
    </svg>
  );
}

/** The heads that can be drawn: all heads of the chosen layer, and drawn heads of other layers. */
export function Layers() {
  const choice = settled.value!;
  const { layers } = alignedView.value!;
  if ("rollout" in choice) return null;
  const own: Overlaid[] = [...Array(headsOf(inspection.value!, choice.attention)).keys()].map((head) => ({ attention: choice.attention, head }));
  const drawn = layers.map(({ attention, head }) => ({ attention, head }) as Overlaid);
  const elsewhere = drawn.slice(1).filter((each) => !own.some((head) => sameChoice(head, each)));
  const layerOf = (head: Overlaid) => drawn.findIndex((each) => sameChoice(each, head));
  const chip = (head: Overlaid, name: string) => {
    const layer = layerOf(head);
    return (
      <button
        type="button"
        key={name}
        class="chip"
        data-testid={`overlay-${head.attention}-${head.head ?? "mean"}`}
        aria-label={`Draw ${head.head === null ? "the mean" : `head ${head.head}`} of ${head.attention}`}
        aria-pressed={layer >= 0}
        disabled={layer === 0}
        onClick={() => (overlay.value = toggled(overlay.value, head))}
      >
        {layer >= 0 && <Swatch layer={layer} />} {name}
      </button>
    );
  };
  return (
    <div class="controls" role="group" aria-label="Heads drawn over each other" data-testid="layers">
      <span>Heads drawn:</span>
      <span class="chips">
        {drawn[0].head === null && chip(drawn[0], "mean")}
        {own.map((head) => chip(head, String(head.head)))}
        {elsewhere.map((head) => chip(head, `${head.attention}, ${head.head ?? "mean"}`))}
      </span>
      {layers.length < own.length + elsewhere.length && (
        <button type="button" class="plain" data-testid="overlay-all" onClick={() => (overlay.value = [...overlay.value.filter((each) => each.attention !== choice.attention), ...own])}>
          all
        </button>
      )}
      {layers.length > 1 && (
        <button type="button" class="plain" data-testid="overlay-none" onClick={() => (overlay.value = [])}>
          only the first
        </button>
      )}
    </div>
  );
}
