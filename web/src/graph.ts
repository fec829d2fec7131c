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

/** The nodes in the order of a traversal, depth first or breadth first, over all components. */
function traversal(size: number, edges: [number, number][], depthFirst: boolean): number[] {
  const order: number[] = [];
  const seen = new Set<number>();
  for (let start = 0; start < size; start++) {
    const open = [start];
    while (open.length) {
      const node = depthFirst ? open.pop()! : open.shift()!;
      if (seen.has(node)) continue;
      seen.add(node);
      order.push(node);
      open.push(...edges.flatMap(([one, other]) => (one === node ? [other] : other === node ? [one] : [])).filter((next) => !seen.has(next)));
    }
  }
  return order;
}

type Point = { x: number; y: number };

/** The number of pairs of edges without a common node that cross. */
export function crossings(nodes: Point[], edges: [number, number][]): number {
  const side = (a: Point, b: Point, c: Point) => Math.sign((b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x));
  let count = 0;
  edges.forEach(([a, b], index) => {
    for (const [c, d] of edges.slice(index + 1)) {
      if (a === c || a === d || b === c || b === d) continue;
      const [p, q, r, t] = [nodes[a], nodes[b], nodes[c], nodes[d]];
      if (side(p, q, r) !== side(p, q, t) && side(r, t, p) !== side(r, t, q)) count++;
    }
  });
  return count;
}

/** One layout, which starts with the nodes on a circle in this order. */
function simulate(order: number[], edges: [number, number][], center: number | null): Point[] {
  const nodes: SimulationNodeDatum[] = [];
  order.forEach((node, place) => {
    const angle = (2 * Math.PI * place) / order.length;
    nodes[node] = { x: 20 * order.length * Math.cos(angle), y: 20 * order.length * Math.sin(angle) };
  });
  const simulation = forceSimulation(nodes)
    .force("edges", forceLink(edges.map(([source, target]) => ({ source, target }))).distance(70).strength(center === null ? 0.7 : 0.2))
    .force("apart", forceManyBody().strength(-220))
    .force("room", forceCollide(26))
    .force("x", forceX(0).strength(0.05))
    .force("y", forceY(0).strength(0.08));
  if (center !== null) {
    const hops = distances(order.length, edges, center);
    const rim = Math.max(0, ...hops.filter(Number.isFinite)) + 1;
    simulation.force("rings", forceRadial((_, index) => RING * Math.min(hops[index], rim), 0, 0).strength(0.9));
    Object.assign(nodes[center], { fx: 0, fy: 0 });
  }
  simulation.stop().tick(STEPS);
  return nodes.map(({ x, y }) => ({ x: x!, y: y! }));
}

/** Positions of the first `MAX_NODES` nodes, with few crossings; equal graphs have equal layouts. */
export function layGraph({ pieces, edges, center }: Surface): GraphLayout {
  const size = Math.min(pieces.length, MAX_NODES);
  const visible = edges.filter(([one, other]) => one < size && other < size && one !== other);
  const inner = center !== null && center < size ? center : null;
  const layouts = [true, false].map((depthFirst) => simulate(traversal(size, visible, depthFirst), visible, inner));
  const [nodes] = layouts.sort((one, other) => crossings(one, visible) - crossings(other, visible));
  const [left, top] = [Math.min(...nodes.map(({ x }) => x)), Math.min(...nodes.map(({ y }) => y))];
  const margin = 48;
  return {
    width: Math.max(...nodes.map(({ x }) => x)) - left + 2 * margin,
    height: Math.max(...nodes.map(({ y }) => y)) - top + 2 * margin,
    nodes: nodes.map(({ x, y }) => ({ x: x - left + margin, y: y - top + margin })),
    edges: visible,
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
