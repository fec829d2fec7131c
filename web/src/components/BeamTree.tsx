import { useSignal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import type { BeamNode } from "../document";
import { fixed } from "../format";
import { inspection, status } from "../state";
import { placeBeam, type PlacedNode } from "../tree";
import { visible } from "../words";
import { Problem } from "./Problem";

const SIGNS = { live: "kept", ended: "ended", pruned: "pruned" };

function describe(node: BeamNode | null): string {
  if (!node) return "the start of the output";
  const score = node.score === null ? "" : `, score ${fixed(node.score, 3)}`;
  const best = node.best ? ", on the best path" : "";
  return `${visible(node.piece)}: log p ${fixed(node.log_probability, 3)}, sum ${fixed(node.total, 3)}${score}, ${SIGNS[node.state]}${best}`;
}

export function BeamTree() {
  const nodes = inspection.value!.beam;
  const { busy, problem } = status.extras.value;
  return (
    <>
      <Problem place="extras" doing="Repeating the search to record every hypothesis …" testId="status-beam" />
      {nodes && nodes.length > 0 && <Tree nodes={nodes} />}
      {!nodes?.length && !busy && !problem && <p class="quiet">No hypotheses were recorded.</p>}
    </>
  );
}

const STEP = 104;
const ROW = 32;
const BOX = { width: 80, height: 26 };

function path(from: PlacedNode, to: PlacedNode): string {
  const middle = BOX.height / 2 + 4;
  const [x, y, endX, endY] = [from.depth * STEP + BOX.width + 4, from.row * ROW + middle, to.depth * STEP + 4, to.row * ROW + middle];
  const half = (x + endX) / 2;
  return `M${x},${y}C${half},${y} ${half},${endY} ${endX},${endY}`;
}

/** One tab stop. Arrow keys: left to the parent, right to the first child, up and down within a step. */
function Tree({ nodes }: { nodes: BeamNode[] }) {
  const drawing = useRef<SVGSVGElement>(null);
  const focused = useSignal(0);
  const placed = useMemo(() => placeBeam(nodes), [nodes]);
  const move = (event: KeyboardEvent, index: number) => {
    const here = placed.nodes[index];
    const level = placed.nodes.filter((place) => place.depth === here.depth).sort((a, b) => a.row - b.row);
    const along = (by: number) => placed.nodes.indexOf(level[level.indexOf(here) + by]);
    const next = { ArrowLeft: here.parent, ArrowRight: here.children[0], ArrowUp: along(-1), ArrowDown: along(1) }[event.key] ?? -1;
    if (next < 0) return;
    event.preventDefault();
    focused.value = next;
    drawing.current!.querySelector<SVGElement>(`[data-index="${next}"]`)!.focus();
  };
  return (
    <>
      <div class="scroller beam" tabIndex={0} role="region" aria-label="Beam tree">
        <svg
          ref={drawing}
          data-testid="beam-tree"
          role="tree"
          aria-label="Beam search"
          width={(placed.depth + 1) * STEP}
          height={placed.rows * ROW + 8}
        >
          {placed.nodes.map((place, index) =>
            place.parent === null ? null : (
              <path
                key={`${index} path`}
                class={`branch ${place.node!.state}${place.node!.best ? " best" : ""}`}
                d={path(placed.nodes[place.parent], place)}
              />
            ),
          )}
          {placed.nodes.map((place, index) => (
            <Leaf
              key={index}
              place={place}
              index={index}
              reached={index === focused.value}
              onFocus={() => (focused.value = index)}
              onKeyDown={(event) => move(event, index)}
            />
          ))}
        </svg>
      </div>
      <p class="readout" aria-live="polite">
        {placed.nodes[focused.value]?.node ? describe(placed.nodes[focused.value].node) : "Click a piece, or use the arrow keys, to see its numbers."}
      </p>
    </>
  );
}

interface LeafProperties {
  place: PlacedNode;
  index: number;
  reached: boolean;
  onFocus: () => void;
  onKeyDown: (event: KeyboardEvent) => void;
}

function Leaf({ place: { node, depth, row }, index, reached, onFocus, onKeyDown }: LeafProperties) {
  return (
    <g
      class={`leaf ${node?.state ?? "live"}${node?.best ? " best" : ""}`}
      data-index={index}
      data-testid={node ? `beam-node-${node.id}` : "beam-root"}
      role="treeitem"
      aria-level={depth + 1}
      aria-selected={node?.best ?? false}
      aria-label={describe(node)}
      tabIndex={reached ? 0 : -1}
      transform={`translate(${depth * STEP + 4} ${row * ROW + 4})`}
      onClick={onFocus}
      onFocus={onFocus}
      onKeyDown={onKeyDown}
    >
      <title>{describe(node)}</title>
      <rect width={BOX.width} height={BOX.height} rx="4" />
      <text x="5" y="11">
        {node ? visible(node.piece).slice(0, 11) : "start"}
      </text>
      {node && (
        <text class="sum" x="5" y="22">
          {fixed(node.total)}
          {node.score !== null && ` · ${fixed(node.score)}`}
        </text>
      )}
    </g>
  );
}
