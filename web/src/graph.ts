// The layout of a small graph: by forces, or in rings around the predicted node.
import { forceCollide, forceLink, forceManyBody, forceRadial, forceSimulation, forceX, forceY, type SimulationNodeDatum } from "d3-force";
import type { Attention, Surface } from "./document";
import type { Matrix } from "./matrix";

export const MAX_NODES = 64;
const STEPS = 200;
const RING = 90; // pixels between two rings

export interface GraphLayout {
  width: number;
  height: number;
  nodes: { x: number; y: number }[];
  edges: [number, number][];
}

/** The number of edges between each node and `center`; Infinity without a path. */
export function distances(size: number, edges: [number, number][], center: number): number[] {
  const distance = new Array<number>(size).fill(Infinity);
  distance[center] = 0;
  for (let ring = [center], hops = 1; ring.length; hops++) {
    const next = edges.flatMap(([one, other]) => (ring.includes(one) ? [other] : ring.includes(other) ? [one] : [])).filter((node) => distance[node] === Infinity);
    next.forEach((node) => (distance[node] = hops));
    ring = [...new Set(next)];
  }
  return distance;
}

/** Positions of the first `MAX_NODES` nodes; equal graphs have equal layouts. */
export function layGraph({ pieces, edges, center }: Surface): GraphLayout {
  const size = Math.min(pieces.length, MAX_NODES);
  const visibleEdges = edges.filter(([one, other]) => one < size && other < size && one !== other);
  const nodes: SimulationNodeDatum[] = Array.from({ length: size }, (_, index) => ({ index }));
  const simulation = forceSimulation(nodes)
    .force("edges", forceLink(visibleEdges.map(([source, target]) => ({ source, target }))).distance(70).strength(center === null ? 0.7 : 0.2))
    .force("apart", forceManyBody().strength(-220))
    .force("room", forceCollide(26))
    .force("x", forceX(0).strength(0.05))
    .force("y", forceY(0).strength(0.08));
  if (center !== null && center < size) {
    const far = distances(size, visibleEdges, center);
    const rim = Math.max(0, ...far.filter(Number.isFinite)) + 1;
    simulation.force("rings", forceRadial((_, index) => RING * Math.min(far[index], rim), 0, 0).strength(0.9));
    Object.assign(nodes[center], { fx: 0, fy: 0 });
  }
  simulation.stop().tick(STEPS);
  const [left, top] = [Math.min(...nodes.map(({ x }) => x!)), Math.min(...nodes.map(({ y }) => y!))];
  const margin = 48;
  return {
    width: Math.max(...nodes.map(({ x }) => x!)) - left + 2 * margin,
    height: Math.max(...nodes.map(({ y }) => y!)) - top + 2 * margin,
    nodes: nodes.map(({ x, y }) => ({ x: x! - left + margin, y: y! - top + margin })),
    edges: visibleEdges,
  };
}

/** The weight of an edge: the larger weight of its two directions; null if the attention does not cover it. */
export function edgeWeight({ query, key }: Attention, matrix: Matrix, pieces: string[], [one, other]: [number, number]): number | null {
  const weight = (from: number, to: number) => {
    const [row, column] = [query.labels.indexOf(pieces[from]), key.labels.indexOf(pieces[to])];
    return row < 0 || column < 0 ? null : matrix.values[row * matrix.columns + column];
  };
  const weights = [weight(one, other), weight(other, one)].filter((value) => value !== null);
  return weights.length ? Math.max(...weights) : null;
}
