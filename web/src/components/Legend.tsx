import { useEffect, useRef } from "preact/hooks";
import { paintCells } from "../paint";
import { dark } from "../state";
import { fixed } from "../format";

const STEPS = { rows: 1, columns: 64, values: Float32Array.from({ length: 64 }, (_, index) => index / 63) };

/** The color scale of a heat map. */
export function Legend({ max }: { max: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const isDark = dark.value;
  useEffect(() => paintCells(canvas.current!, STEPS, isDark), [isDark]);
  return (
    <span class="legend figures">
      0 <canvas ref={canvas} aria-hidden="true" /> {fixed(max)}
    </span>
  );
}
