import { useEffect, useRef } from "preact/hooks";
import { useSeen } from "../hooks";
import type { Matrix } from "../matrix";
import { paintCells } from "../paint";
import { dark } from "../state";

interface Properties {
  label: string;
  value: string;
  testId: string;
  selected: boolean;
  weights: () => Matrix;
  /** The weight with the strongest color; by default the largest weight of this head. */
  max?: number;
  /** The object that has the weights. A new object repaints the thumbnail. */
  of: object;
  onSelect: () => void;
}

/** A head as a button. It is painted when it is scrolled into view. */
export function Thumbnail({ label, value, testId, selected, weights, max, of, onSelect }: Properties) {
  const button = useRef<HTMLButtonElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const seen = useSeen(button);
  const isDark = dark.value;
  useEffect(() => {
    if (seen) paintCells(canvas.current!, weights(), isDark, max);
  }, [seen, of, isDark, max]);
  return (
    <button ref={button} type="button" class="thumbnail" data-testid={testId} aria-pressed={selected} onClick={onSelect}>
      <canvas ref={canvas} aria-hidden="true" />
      <span>{label}</span>
      <span class="figures">{value}</span>
    </button>
  );
}
