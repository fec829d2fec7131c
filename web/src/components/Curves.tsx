import { useEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import { layerColor } from "../color";
import { plotsOf, type Plot } from "../curves";
import type { ModelDetails } from "../document";
import { fixed } from "../format";
import { useWidth } from "../hooks";
import { dark } from "../state";

/** A vertical line at the best checkpoint. */
function markBest(best: number | null, ink: string): uPlot.Plugin {
  const draw = (plot: uPlot) => {
    if (best === null) return;
    const [x, { top, height }] = [plot.valToPos(best, "x", true), plot.bbox];
    plot.ctx.save();
    plot.ctx.strokeStyle = ink;
    plot.ctx.setLineDash([2, 3]);
    plot.ctx.beginPath();
    plot.ctx.moveTo(x, top);
    plot.ctx.lineTo(x, top + height);
    plot.ctx.stroke();
    plot.ctx.restore();
  };
  return { hooks: { draw } };
}

function options(plot: Plot, width: number, isDark: boolean, ink: string): uPlot.Options {
  const axis = { stroke: ink, grid: { stroke: isDark ? "#31363f" : "#e4e6e2", width: 1 }, ticks: { show: false } };
  return {
    width,
    height: 180,
    legend: { show: false },
    scales: { x: { time: false } },
    axes: [
      { ...axis, label: "update", size: 32, labelSize: 20, labelGap: 0 },
      { ...axis, label: plot.unit, size: 58, labelSize: plot.unit ? 22 : 4 },
    ],
    series: [
      { label: "update" },
      ...plot.lines.map(({ name, baseline, dots }, index) => ({
        label: name,
        stroke: baseline ? ink : layerColor(index, isDark),
        dash: baseline ? [6, 4] : [],
        width: baseline ? 1.5 : 2,
        spanGaps: true,
        points: { show: dots, size: 5 },
      })),
    ],
    plugins: [markBest(plot.best, ink)],
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
  const last = (index: number) => plot.columns[index + 1].findLast((value) => value !== null);
  return (
    <figure class="plot" data-testid={`curve-${plot.title}`}>
      <figcaption>
        <b>{plot.title}</b>
        {plot.unit && ` (${plot.unit})`}
        {plot.lines.map(({ name, baseline }, index) => (
          <span key={name} class="legend figures">
            <svg width="22" height="8" aria-hidden="true">
              <path d="M0,4H22" stroke={baseline ? "currentColor" : layerColor(index, isDark)} stroke-width="2" stroke-dasharray={baseline ? "6 4" : "none"} />
            </svg>
            {name} {last(index) === undefined ? "" : fixed(last(index)!, 3)}
          </span>
        ))}
      </figcaption>
      <div ref={holder} role="img" aria-label={`${plot.lines.map(({ name }) => name).join(", ")} over updates`} />
    </figure>
  );
}

/** One small plot for each metric of the training. */
export function Curves({ model }: { model: ModelDetails }) {
  const plots = useMemo(() => plotsOf(model), [model]);
  const best = plots[0]?.best ?? null;
  return (
    <>
      {best !== null && <p class="quiet">The vertical line marks the best checkpoint, at update {best.toLocaleString("en")}.{model.comparison && ` Baseline: ${model.comparison.description}.`}</p>}
      <div class="curves" data-testid="curves">
        {plots.map((plot) => (
          <Drawn key={plot.title} plot={plot} />
        ))}
      </div>
    </>
  );
}
