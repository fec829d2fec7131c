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
  /** What the weights belong to: when it changes they are painted anew. */
  of: object;
  onSelect: () => void;
}

/** A head as a button; painted once it comes near the window. */
export function Thumbnail({ label, value, testId, selected, weights, of, onSelect }: Properties) {
  const button = useRef<HTMLButtonElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const seen = useSeen(button);
  const isDark = dark.value;
  useEffect(() => {
    if (seen) paintCells(canvas.current!, weights(), isDark);
  }, [seen, of, isDark]);
  return (
    <button ref={button} type="button" class="thumbnail" data-testid={testId} aria-pressed={selected} onClick={onSelect}>
      <canvas ref={canvas} aria-hidden="true" />
      <span>{label}</span>
      <span class="figures">{value}</span>
    </button>
  );
}
