import { useEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import { cssColor } from "../color";
import { plotsOf, type Plot } from "../curves";
import type { Curve } from "../document";
import { useWidth } from "../hooks";
import { dark } from "../state";

// Dashes tell curves apart where colors do not.
const DASHES = [[], [6, 4], [2, 3], [10, 3, 2, 3]];

function options(plot: Plot, width: number, isDark: boolean, ink: string): uPlot.Options {
  const axis = { stroke: ink, grid: { stroke: isDark ? "#31363f" : "#e4e6e2", width: 1 }, ticks: { show: false } };
  return {
    width,
    height: 220,
    scales: { x: { time: false } },
    axes: [
      { ...axis, label: "update", size: 32, labelSize: 20, labelGap: 0 },
      { ...axis, label: plot.unit, size: 52, labelSize: 22 },
    ],
    series: [
      { label: "update" },
      ...plot.names.map((label, index) => ({
        label,
        stroke: cssColor(0.85 - (0.5 * index) / Math.max(1, plot.names.length - 1), isDark),
        dash: DASHES[index % DASHES.length],
        width: 2,
        spanGaps: true,
        points: { show: false },
      })),
    ],
  };
}

function Drawn({ plot }: { plot: Plot }) {
  const holder = useRef<HTMLDivElement>(null);
  const width = useWidth(holder);
  const isDark = dark.value;
  useEffect(() => {
    if (width === 0) return;
    const drawn = new uPlot(options(plot, width, isDark, getComputedStyle(holder.current!).color), plot.columns, holder.current!);
    return () => drawn.destroy();
  }, [plot, width, isDark]);
  return <div ref={holder} class="plot" role="img" aria-label={`${plot.names.join(", ")} in ${plot.unit} over updates`} />;
}

export function Curves({ curves }: { curves: Curve[] }) {
  const plots = useMemo(() => plotsOf(curves), [curves]);
  return (
    <div class="columns" data-testid="curves">
      {plots.map((plot) => (
        <Drawn key={plot.unit} plot={plot} />
      ))}
    </div>
  );
}
