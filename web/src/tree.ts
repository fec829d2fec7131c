import { hierarchy, type HierarchyNode } from "d3-hierarchy";
import type { BeamNode } from "./document";

export interface Branch {
  /** null: the empty output, before the first piece. */
  node: BeamNode | null;
  children: Branch[];
}

export interface PlacedNode {
  node: BeamNode | null;
  /** Number of pieces up to this one. */
  depth: number;
  row: number;
  /** Index among the placed nodes. */
  parent: number | null;
  children: number[];
}

/** The hypotheses as one tree. Its root is the empty output. */
export function growBeam(nodes: BeamNode[]): Branch {
  const branches = new Map(nodes.map((node) => [node.id, { node, children: [] } as Branch]));
  const root: Branch = { node: null, children: [] };
  for (const node of nodes) {
    const parent = node.parent === null ? undefined : branches.get(node.parent);
    (parent ?? root).children.push(branches.get(node.id)!);
  }
  return root;
}

function mainFirst(a: HierarchyNode<Branch>, b: HierarchyNode<Branch>): number {
  const [left, right] = [a.data.node!, b.data.node!];
  return Number(right.best) - Number(left.best) || b.height - a.height || right.total - left.total;
}

/**
 * Place the hypotheses on a grid: steps are columns, from left to right. A hypothesis stays in one row, and the best
 * path is in the first row. Another hypothesis uses the first row below its parent that is free for its whole length.
 */
export function placeBeam(nodes: BeamNode[]): { nodes: PlacedNode[]; depth: number; rows: number } {
  const root = hierarchy(growBeam(nodes)).sort(mainFirst);
  const row = new Map<HierarchyNode<Branch>, number>();
  /** The occupied depths of each row. */
  const taken: Set<number>[] = [];
  const settle = (start: HierarchyNode<Branch>, above: number) => {
    const chain = [start];
    for (let next = start.children?.[0]; next; next = next.children?.[0]) chain.push(next);
    let free = above;
    while (taken[free] && chain.some((node) => taken[free].has(node.depth))) free++;
    taken[free] ??= new Set();
    for (const node of chain) {
      row.set(node, free);
      taken[free].add(node.depth);
    }
    for (const node of chain) node.children?.slice(1).forEach((child) => settle(child, free + 1));
  };
  settle(root, 0);
  const all = root.descendants();
  const index = new Map(all.map((node, place) => [node, place]));
  const placed = all.map((node) => ({
    node: node.data.node,
    depth: node.depth,
    row: row.get(node)!,
    parent: node.parent && index.get(node.parent)!,
    children: (node.children ?? []).map((child) => index.get(child)!),
  }));
  return { nodes: placed, depth: root.height, rows: taken.length };
}
