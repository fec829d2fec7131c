import { useSignal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import type { Inspection, Word } from "../document";
import { useWidth } from "../hooks";
import { channelNames, forecastOf, isNumeric, pieceAt, pieceName, type Numeric } from "../numbers";
import { measureText } from "../paint";
import { plotOf, SHOWN, shownChannels, valuesText, type PlottedStrip, type Plot, type Shape } from "../plot";
import { playFrom, playing, sound } from "../sound";
import { channel, dark, position } from "../state";

function Drawn({ shape }: { shape: Shape }) {
  switch (shape.tag) {
    case "image":
      return <image x={shape.x} y={shape.y} width={shape.width} height={shape.height} href={shape.href} preserveAspectRatio="none" />;
    case "rect":
      return <rect class={shape.look} x={shape.x} y={shape.y} width={shape.width} height={shape.height} fill-opacity={shape.opacity} />;
    case "path":
      return <path class={shape.look} d={shape.d} />;
    case "text":
      return (
        <text x={shape.x} y={shape.y} text-anchor={shape.anchor}>
          {shape.text}
        </text>
      );
  }
}

/** Words at their seconds. A click plays the sound from there, if it is known, and chooses the frame. */
function Words({ plot, surface }: { plot: Plot; surface: Numeric }) {
  const problem = useSignal("");
  const current = sound.value;
  const choose = ({ start }: Word) => {
    position.value = pieceAt(surface, start);
    if (current !== null) playFrom(current, start).catch((error: Error) => (problem.value = error.message));
  };
  return (
    <>
      {plot.words.map(({ x, y, width, height, word }, index) => (
        <button
          type="button"
          key={index}
          class="heard"
          data-testid={`word-${index}`}
          style={{ left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` }}
          aria-label={`${word.word}, ${word.start.toFixed(2)} to ${word.end.toFixed(2)} seconds${current === null ? "" : "; play from here"}`}
          onClick={() => choose(word)}
        >
          {word.word}
        </button>
      ))}
      {problem.value && (
        <span class="problem" role="alert">
          {problem.value}
        </span>
      )}
    </>
  );
}

/** Keys that move the chosen piece, in pieces. `row`: pieces of a row of patches. */
function stepOf(key: string, row: number): number | null {
  const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row, PageDown: 10 * row, PageUp: -10 * row };
  return steps[key] ?? null;
}

interface Scrubbed {
  plot: Plot;
  count: number;
  surface: Numeric;
  describe: (piece: number) => string;
  label: string;
  testId: string;
}

/** The pieces of a drawing as a slider: arrow keys and clicks choose a piece, Esc chooses none. */
function Slider({ plot, count, surface, describe, label, testId }: Scrubbed) {
  const pointed = useSignal<number | null>(null);
  const chosen = position.value !== null && position.value < count ? position.value : null;
  const current = pointed.value ?? chosen;
  const pieceOf = (event: MouseEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return plot.at(event.clientX - box.left, event.clientY - box.top);
  };
  const row = surface.numbers.grid ? surface.numbers.grid[1] : 1;
  const move = (event: KeyboardEvent) => {
    const step = stepOf(event.key, row);
    const within = (piece: number) => Math.max(0, Math.min(count - 1, piece));
    if (step !== null) position.value = chosen === null ? 0 : within(chosen + step);
    else if (event.key === "Home") position.value = 0;
    else if (event.key === "End") position.value = count - 1;
    else if (event.key === "Escape") position.value = null;
    else return;
    pointed.value = null;
    event.preventDefault();
  };
  return (
    <>
      <div
        class="scrub"
        role="slider"
        tabIndex={0}
        data-testid={testId}
        style={{ height: `${plot.height}px` }}
        aria-label={`${label}. Arrow keys choose a position, Escape chooses none.`}
        aria-valuemin={1}
        aria-valuemax={count}
        aria-valuenow={(chosen ?? 0) + 1}
        aria-valuetext={chosen === null ? "no position chosen" : describe(chosen)}
        onPointerMove={(event) => (pointed.value = pieceOf(event))}
        onPointerLeave={() => (pointed.value = null)}
        onClick={(event) => {
          const piece = pieceOf(event);
          if (piece !== null) position.value = position.value === piece ? null : piece;
        }}
        onKeyDown={move}
      >
        {[chosen, pointed.value].map((piece, index) => {
          if (piece === null || piece >= count) return null;
          const { x, y, width, height } = plot.box(piece);
          return <div key={index} class={index ? "pointed" : "picked"} style={{ left: `${x}px`, top: `${y}px`, width: `${Math.max(2, width)}px`, height: `${height}px` }} />;
        })}
      </div>
      <output class="readout" data-testid={`${testId}-value`}>
        {current === null ? "Point at the drawing to see its values. A click chooses a position." : describe(current)}
      </output>
    </>
  );
}

function ChannelPicker({ all }: { all: string[] }) {
  return (
    <label>
      Series{" "}
      <select data-testid="channel" value={channel.value ?? ""} onChange={(event) => (channel.value = event.currentTarget.value || null)}>
        <option value="">{all.length > SHOWN ? `the first ${SHOWN} of ${all.length}` : `all ${all.length}`}</option>
        {all.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}

/** The values at a piece of a surface, or of the forecast after it. */
function describePiece(surface: Numeric, forecast: Numeric | null, piece: number, strip: PlottedStrip | undefined): string {
  const [at, own] = piece < surface.pieces.length || !forecast ? [surface, piece] : [forecast, piece - surface.pieces.length];
  const span = at === surface ? strip?.spans.find(({ from, to }) => from <= own && own < to) : undefined;
  return [pieceName(at, own), valuesText(at, own), span && strip!.describe(span)].filter(Boolean).join(" · ");
}

interface Properties {
  of: Inspection;
  /** The index of a surface with numbers. */
  index: number;
  /** Values of ranges of pieces, with their name and unit. */
  strip?: PlottedStrip;
  testId: string;
}

/** A surface of numbers: a spectrogram, lines over time, or an image. */
export function NumbersDrawing({ of: inspection, index, strip, testId }: Properties) {
  const holder = useRef<HTMLDivElement>(null);
  const width = useWidth(holder);
  const surface = inspection.surfaces[index];
  const forecast = forecastOf(inspection.surfaces, index);
  const all = isNumeric(surface) && surface.kind === "series" ? channelNames(surface) : [];
  const [chosen, isDark] = [channel.value, dark.value];
  const plot = useMemo(() => {
    if (!isNumeric(surface) || width < 40) return null;
    return plotOf(surface, forecast, shownChannels(surface, forecast, chosen), inspection.facts.words ?? [], { width, dark: isDark, measure: measureText, strip });
  }, [surface, forecast, chosen, width, isDark, inspection.facts.words, strip]);
  if (!isNumeric(surface)) return null;
  const count = surface.pieces.length + (forecast?.pieces.length ?? 0);
  const names = { frames: "Heat map of frames over time", series: "Series over time", image: "Image" } as Record<string, string>;
  return (
    <>
      {all.length > 1 && (
        <div class="controls">
          <ChannelPicker all={all} />
        </div>
      )}
      <div ref={holder} class="numbers">
        {plot && (
          <div class="plotted" style={{ width: `${plot.width}px` }}>
            <svg width={plot.width} height={plot.height} aria-hidden="true">
              {plot.shapes.map((shape, at) => (
                <Drawn key={at} shape={shape} />
              ))}
            </svg>
            <Slider
              plot={plot}
              count={count}
              surface={surface}
              label={names[surface.kind] ?? "Numbers"}
              describe={(piece) => describePiece(surface, forecast, piece, strip)}
              testId={testId}
            />
            <Words plot={plot} surface={surface} />
          </div>
        )}
      </div>
      {playing.value && (
        <p>
          <button type="button" data-testid="stop-sound" onClick={() => playing.value?.()}>
            Stop
          </button>
        </p>
      )}
    </>
  );
}
