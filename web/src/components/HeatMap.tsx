import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { exact } from "../format";
import { useWidth } from "../hooks";
import { largest, type Matrix } from "../matrix";
import { measureText, paintCells, paintLabels, paintMask } from "../paint";
import { dark } from "../state";
import { visible } from "../words";
import { Legend } from "./Legend";

interface Properties {
  matrix: Matrix;
  /** The values that determine the colors, if they differ from `matrix`. */
  colors?: Matrix;
  /** 1 where a query may attend to a key; other cells are hatched. */
  allowed?: Matrix | null;
  queries: string[];
  keys: string[];
  label: string;
  testId: string;
  onOpen?: (row: number, column: number) => void;
}

const LONGEST = 14;
const MANY = 100;

function short(label: string): string {
  const text = visible(label);
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
}

/** One tab stop; the arrow keys move a cursor over the cells. */
export function HeatMap({ matrix, colors = matrix, allowed = null, queries, keys, label, testId, onOpen }: Properties) {
  const holder = useRef<HTMLDivElement>(null);
  const cells = useRef<HTMLCanvasElement>(null);
  const labels = useRef<HTMLCanvasElement>(null);
  const mask = useRef<HTMLCanvasElement>(null);
  const mark = useRef<HTMLDivElement>(null);
  const width = useWidth(holder);
  const cursor = useSignal<{ row: number; column: number } | null>(null);
  const geometry = useMemo(() => {
    const room = (texts: string[]) => Math.ceil(Math.max(0, ...texts.map((text) => measureText(short(text))))) + 12;
    const left = room(queries);
    // Many positions have small cells; some of their labels are left out.
    const smallest = Math.max(queries.length, keys.length) > MANY ? 3 : 9;
    const size = Math.max(smallest, Math.min(28, Math.floor((width - left - 2) / keys.length)));
    return { left, top: room(keys), size };
  }, [queries, keys, width]);
  const { left, top, size } = geometry;
  const isDark = dark.value;
  useEffect(() => paintCells(cells.current!, colors, isDark), [colors, isDark]);
  useEffect(() => {
    if (allowed) paintMask(mask.current!, allowed, size);
  }, [allowed, size, isDark]);
  useEffect(() => paintLabels(labels.current!, queries.map(short), keys.map(short), geometry), [geometry, isDark]);

  const inside = cursor.value && cursor.value.row < matrix.rows && cursor.value.column < matrix.columns ? cursor.value : null;
  const isHidden = ({ row, column }: { row: number; column: number }) => allowed !== null && allowed.values[row * allowed.columns + column] === 0;
  const point = (event: PointerEvent) => {
    const box = cells.current!.getBoundingClientRect();
    const [row, column] = [Math.floor((event.clientY - box.top) / size), Math.floor((event.clientX - box.left) / size)];
    if (row >= 0 && column >= 0 && row < matrix.rows && column < matrix.columns) {
      if (inside?.row !== row || inside.column !== column) cursor.value = { row, column };
    }
  };
  const move = (event: KeyboardEvent) => {
    const { row, column } = inside ?? { row: 0, column: 0 };
    const steps: Record<string, [number, number]> = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
      Home: [0, -column], End: [0, matrix.columns - 1 - column],
    };
    const step = steps[event.key];
    if (step) {
      const within = (value: number, count: number) => Math.max(0, Math.min(count - 1, value));
      cursor.value = { row: within(row + step[0], matrix.rows), column: within(column + step[1], matrix.columns) };
      requestAnimationFrame(() => mark.current?.scrollIntoView({ block: "nearest", inline: "nearest" }));
    } else if (event.key === "Enter" && inside) onOpen?.(row, column);
    else return;
    event.preventDefault();
  };
  return (
    <div class="heatmap">
      <div ref={holder} class="scroller">
        <div
          class="cells"
          data-testid={testId}
          role="application"
          aria-roledescription="heat map"
          aria-label={`${label}; ${matrix.rows} rows, ${matrix.columns} columns. Arrow keys move${onOpen ? ", Enter shows how a weight is computed" : ""}.`}
          tabIndex={0}
          onPointerMove={point}
          onPointerDown={point}
          onClick={() => inside && onOpen?.(inside.row, inside.column)}
          onFocus={() => (cursor.value ??= { row: 0, column: 0 })}
          onKeyDown={move}
        >
          <canvas ref={labels} />
          <canvas
            ref={cells}
            class="values"
            style={{ left: `${left}px`, top: `${top}px`, width: `${matrix.columns * size}px`, height: `${matrix.rows * size}px` }}
          />
          {allowed && (
            <canvas
              ref={mask}
              class="mask"
              data-testid={`${testId}-mask`}
              style={{ left: `${left}px`, top: `${top}px`, width: `${matrix.columns * size}px`, height: `${matrix.rows * size}px` }}
            />
          )}
          {inside && (
            <div
              ref={mark}
              class="cursor"
              style={{ left: `${left + inside.column * size}px`, top: `${top + inside.row * size}px`, width: `${size}px`, height: `${size}px` }}
            />
          )}
        </div>
      </div>
      <div class="controls">
        <output class="readout" data-testid={`${testId}-value`}>
          {inside
            ? `${visible(queries[inside.row])} → ${visible(keys[inside.column])}: ${isHidden(inside) ? "hidden by the mask" : exact(matrix.values[inside.row * matrix.columns + inside.column])}`
            : "Point at a cell to see its value."}
        </output>
        <Legend max={largest(colors)} />
        {allowed && <span class="legend"><span class="hatched swatch" aria-hidden="true" /> hidden by the mask</span>}
      </div>
    </div>
  );
}
