import { useSignal } from "@preact/signals";
import type { Roll } from "../document";
import { download } from "../exporting";
import { midiOf, notesOf, pitchName, play } from "../music";

const [ROW, LEFT] = [7, 34];

/** Notes over time. Predicted notes are filled, given notes are outlined. */
export function PianoRoll({ roll }: { roll: Roll }) {
  const stop = useSignal<(() => void) | null>(null);
  const notes = notesOf(roll);
  if (!notes.length) return null;
  const pitches = notes.map(({ pitch }) => pitch);
  const [low, high] = [Math.min(...pitches) - 2, Math.max(...pitches) + 2];
  const frame = Math.max(4, Math.min(18, Math.round(800 / roll.frames.length)));
  const [width, height] = [LEFT + roll.frames.length * frame + 4, (high - low + 1) * ROW + 18];
  const y = (pitch: number) => (high - pitch) * ROW;
  const octaves = Array.from({ length: 11 }, (_, octave) => 12 * octave).filter((pitch) => pitch >= low && pitch <= high);
  const beats = Array.from({ length: Math.floor(roll.frames.length / roll.steps / 4) + 1 }, (_, bar) => 4 * bar);
  const toggle = () => {
    if (stop.value) stop.value();
    else stop.value = play(roll, () => (stop.value = null));
  };
  return (
    <div data-testid="roll">
      <div class="scroller" tabIndex={0} role="region" aria-label="Piano roll">
        <svg class="roll" width={width} height={height} role="img" aria-label={`Piano roll of ${notes.length} notes; pitches over quarter notes`}>
          {octaves.map((pitch) => (
            <g key={pitch}>
              <line class="grid-line" x1={LEFT} x2={width} y1={y(pitch) + ROW / 2} y2={y(pitch) + ROW / 2} />
              <text x={LEFT - 4} y={y(pitch) + ROW / 2 + 4} text-anchor="end">
                {pitchName(pitch)}
              </text>
            </g>
          ))}
          {beats.map((beat) => (
            <text key={beat} x={LEFT + beat * roll.steps * frame} y={height - 4}>
              {beat}
            </text>
          ))}
          {notes.map(({ pitch, start, length, given }, index) => (
            <rect key={index} class={given ? "note-box given" : "note-box"} x={LEFT + start * frame} y={y(pitch)} width={Math.max(2, length * frame - 1)} height={ROW - 1} rx="1.5">
              <title>{`${pitchName(pitch)}, quarter note ${(start / roll.steps).toFixed(2)}, length ${(length / roll.steps).toFixed(2)}${given ? ", given" : ""}`}</title>
            </rect>
          ))}
        </svg>
      </div>
      <p class="controls">
        <button type="button" data-testid="roll-play" onClick={toggle}>
          {stop.value ? "Stop" : "Play"}
        </button>
        <button type="button" data-testid="roll-midi" onClick={() => download(midiOf(roll).buffer as ArrayBuffer, "audio/midi", "regard.mid")}>
          Save MIDI
        </button>
        <span class="quiet">{roll.given ? "Filled notes were predicted, outlined notes were given. " : ""}Horizontal axis: quarter notes.</span>
      </p>
    </div>
  );
}
