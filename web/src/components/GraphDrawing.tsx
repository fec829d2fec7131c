import { useMemo } from "preact/hooks";
import { huesOf } from "../answers";
import type { Surface } from "../document";
import { layGraph, MAX_NODES } from "../graph";
import { place } from "../state";
import { visible } from "../words";

interface Properties {
  surface: Surface;
  /** The label of each node; null if unknown. Nodes with equal labels have the same color. */
  labels: (string | null)[];
  /** The relative width of an edge, from 0 to 1; null for a thin edge. */
  share?: (edge: [number, number]) => number | null;
  /** The size of the ring of each node, from −1 to 1. */
  ring?: (number | null)[];
  /** The tooltip of a node. */
  describe: (node: number) => string;
  /** Nodes that can be chosen. */
  answered: Set<number>;
  testId: string;
}

/** A node-link drawing. Color: label of a node. Ring: influence of a node. Width: weight of an edge. */
export function GraphDrawing({ surface, labels, share, ring, describe, answered, testId }: Properties) {
  const layout = useMemo(() => layGraph(surface), [surface]);
  const hues = huesOf(labels.filter((label) => label !== null));
  const more = surface.pieces.length - layout.nodes.length;
  return (
    <>
      <svg class="graph" data-testid={testId} role="group" aria-label={`Graph of ${surface.pieces.length} nodes and ${surface.edges.length} edges`} viewBox={`0 0 ${layout.width} ${layout.height}`} style={{ maxWidth: `${layout.width * 1.2}px` }}>
        {layout.edges.map((edge, index) => {
          const [from, to] = edge.map((node) => layout.nodes[node]);
          const weight = share?.(edge) ?? null;
          return (
            <line key={index} x1={from.x} y1={from.y} x2={to.x} y2={to.y} class={weight === null ? "edge" : "edge weighted"} stroke-width={weight === null ? 1 : 1 + 7 * weight}>
              {weight !== null && <title>{`${surface.pieces[edge[0]]} – ${surface.pieces[edge[1]]}: ${weight.toFixed(3)}`}</title>}
            </line>
          );
        })}
        {layout.nodes.map(({ x, y }, node) => {
          const label = labels[node];
          const size = ring?.[node] ?? null;
          const chosen = place.value === node || (place.value === null && surface.center === node);
          const choose = () => answered.has(node) && (place.value = place.value === node ? null : node);
          return (
            <g
              key={node}
              class={`node${chosen ? " on" : ""}`}
              data-testid={`node-${node}`}
              role={answered.has(node) ? "button" : "img"}
              tabIndex={answered.has(node) ? 0 : undefined}
              aria-label={describe(node)}
              aria-pressed={answered.has(node) ? chosen : undefined}
              onClick={choose}
              onKeyDown={(event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), choose())}
            >
              <title>{describe(node)}</title>
              {size !== null && Math.abs(size) > 0.02 && <circle class={size < 0 ? "ring against" : "ring"} cx={x} cy={y} r={11 + 4 * Math.abs(size)} stroke-width={8 * Math.abs(size)} />}
              <circle cx={x} cy={y} r={node === surface.center ? 12 : 9} class="dot" style={label === null ? undefined : { "--hue": hues.get(label) }} />
              <text x={x} y={y + (size !== null && Math.abs(size) > 0.02 ? 34 : 24)}>
                {visible(surface.pieces[node].length > 14 ? `${surface.pieces[node].slice(0, 13)}…` : surface.pieces[node])}
              </text>
            </g>
          );
        })}
      </svg>
      {hues.size > 0 && (
        <p class="legend" data-testid={`${testId}-legend`}>
          {[...hues].map(([label, hue]) => (
            <span key={label}>
              <span class="swatch" style={{ "--hue": hue }} aria-hidden="true" /> {label}
            </span>
          ))}
        </p>
      )}
      {more > 0 && <p class="quiet">The drawing shows the first {MAX_NODES} nodes. {more} more are not drawn.</p>}
    </>
  );
}
