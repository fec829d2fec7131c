import { linkHorizontal, linkVertical } from "d3-shape";
import { visible, type Link } from "./words";

export interface Placed {
  label: string;
  x: number;
  y: number;
  width: number;
  /** The position and anchor of the weight of a highlighted link. */
  note: { x: number; y: number; anchor: "middle" | "start" | "end" };
}

export interface Arc extends Link {
  path: string;
}

export interface AlignedLayout {
  width: number;
  height: number;
  keys: Placed[];
  queries: Placed[];
  arcs: Arc[];
}

export const PIECE_HEIGHT = 24;
const PADDING = 7;
const GAP = 4;
const NOTE = 18;
const SPAN = 120;

type Measure = (text: string) => number;

const LANE = 4;

/** Distance from the middle of a piece at which a link starts. Links of several heads are next to each other. */
function laneOf(links: Link[]): (link: Link, room: number) => number {
  const last = Math.max(0, ...links.map((link) => link.layer ?? 0));
  return (link, room) => ((link.layer ?? 0) - last / 2) * Math.min(LANE, room / (last + 1));
}

/** Layout with a row of keys above a row of queries, connected by arcs. */
export function layRows(keys: string[], queries: string[], links: Link[], measure: Measure): AlignedLayout {
  const widths = (labels: string[]) => labels.map((label) => measure(visible(label)) + 2 * PADDING);
  const [above, below] = [widths(keys), widths(queries)];
  const lengthOf = (line: number[]) => line.reduce((sum, width) => sum + width + GAP, -GAP);
  const width = Math.max(lengthOf(above), lengthOf(below), 0) + 2 * GAP;
  const lowerTop = NOTE + PIECE_HEIGHT + SPAN;
  const place = (labels: string[], line: number[], y: number, noteY: number) => {
    let next = (width - lengthOf(line)) / 2;
    return labels.map((label, index): Placed => {
      const x = next;
      next += line[index] + GAP;
      return { label: visible(label), x, y, width: line[index], note: { x: x + line[index] / 2, y: noteY, anchor: "middle" } };
    });
  };
  const placedKeys = place(keys, above, NOTE, NOTE - 5);
  const placedQueries = place(queries, below, lowerTop, lowerTop + PIECE_HEIGHT + 13);
  const lane = laneOf(links);
  const startOf = (piece: Placed, link: Link) => piece.x + piece.width / 2 + lane(link, piece.width);
  const path = linkVertical<unknown, Link, [number, number]>()
    .source((link) => [startOf(placedKeys[link.key], link), NOTE + PIECE_HEIGHT])
    .target((link) => [startOf(placedQueries[link.query], link), lowerTop]);
  const arcs = links.map((link) => ({ ...link, path: path(link) ?? "" }));
  return { width, height: lowerTop + PIECE_HEIGHT + NOTE, keys: placedKeys, queries: placedQueries, arcs };
}

/** Layout with a column of keys to the left of a column of queries, for narrow windows. */
export function layColumns(keys: string[], queries: string[], links: Link[], measure: Measure, room: number): AlignedLayout {
  const noteWidth = 36;
  const widest = (labels: string[]) => Math.max(0, ...labels.map((label) => measure(visible(label)) + 2 * PADDING));
  const [left, right] = [widest(keys), widest(queries)];
  const span = Math.max(56, Math.min(SPAN, room - left - right - 2 * noteWidth));
  const start = noteWidth + left;
  const end = start + span;
  const yOf = (index: number) => index * (PIECE_HEIGHT + 2) + 2;
  const lane = laneOf(links);
  const heightOf = (index: number, link: Link) => yOf(index) + PIECE_HEIGHT / 2 + lane(link, PIECE_HEIGHT);
  const path = linkHorizontal<unknown, Link, [number, number]>()
    .source((link) => [start, heightOf(link.key, link)])
    .target((link) => [end, heightOf(link.query, link)]);
  const textY = (index: number) => yOf(index) + PIECE_HEIGHT / 2 + 4;
  return {
    width: end + right + noteWidth,
    height: yOf(Math.max(keys.length, queries.length)),
    keys: keys.map((key, index) => {
      const width = measure(visible(key)) + 2 * PADDING;
      const note = { x: start - width - 4, y: textY(index), anchor: "end" as const };
      return { label: visible(key), x: start - width, y: yOf(index), width, note };
    }),
    queries: queries.map((query, index) => {
      const width = measure(visible(query)) + 2 * PADDING;
      const note = { x: end + width + 4, y: textY(index), anchor: "start" as const };
      return { label: visible(query), x: end, y: yOf(index), width, note };
    }),
    arcs: links.map((link) => ({ ...link, path: path(link) ?? "" })),
  };
}
