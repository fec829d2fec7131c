import { measureText } from "../paint";
import { headsOf } from "../shown";
import { choice, inspection } from "../state";

const [HEIGHT, GAP, PADDING] = [40, 16, 12];

/** The network as blocks from input to output, with the shape of each output for this input. */
export function Flow() {
  const blocks = inspection.value!.network ?? [];
  if (!blocks.length) return <p class="quiet">The blocks of this network were not recorded.</p>;
  const width = Math.max(...blocks.map(({ text, shape, name }) => Math.max(measureText(`${name}: ${text}`), 60) + measureText(shape) + 40)) + 2 * PADDING;
  const height = blocks.length * (HEIGHT + GAP) - GAP;
  const open = (attention: string) => {
    choice.value = { attention, head: headsOf(inspection.value!, attention) === 1 ? 0 : null };
    document.getElementById("heatmap-heading")?.scrollIntoView();
  };
  return (
    <div class="scroller" tabIndex={0} role="region" aria-label="Network">
      <svg class="flow" data-testid="flow" width={width} height={height} role="group" aria-label="The network from input to output">
        {blocks.map(({ name, text, shape, attention }, index) => {
          const y = index * (HEIGHT + GAP);
          const linked = attention !== null && inspection.value!.attention[attention] !== undefined;
          const act = () => linked && open(attention);
          return (
            <g key={index} class={linked ? "block linked" : "block"} role={linked ? "button" : "img"} tabIndex={linked ? 0 : undefined} aria-label={`${name}: ${text}, output ${shape}`} onClick={act} onKeyDown={(event) => event.key === "Enter" && act()}>
              {index > 0 && <path class="arrow" d={`M${width / 2},${y - GAP}V${y - 3}m-4,-4l4,4l4,-4`} />}
              <rect x="1" y={y} width={width - 2} height={HEIGHT} rx="5" />
              <text x={PADDING} y={y + 25}>{`${name}: ${text}`}</text>
              <text class="shape" x={width - PADDING} y={y + 25} text-anchor="end">
                {shape}
              </text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}
