import { useMemo } from "preact/hooks";
import { fixed } from "../format";
import { edgeWeight } from "../graph";
import { isNumeric, pieceName } from "../numbers";
import { influence, strongestInfluences } from "../predicting";
import { inspection, place, settled, shown, status } from "../state";
import { outputPieces, plottedStrip, signed, strip, stripMode, stripModes, writtenValue, type Strip, type StripLine, type StripMode } from "../strip";
import { isSpecial, visible } from "../words";
import { isSpelled } from "../answers";
import { nodeLabels } from "./Answer";
import { GraphDrawing } from "./GraphDrawing";
import { NumbersDrawing } from "./NumbersDrawing";
import { Problem } from "./Problem";

const NAMES: Record<StripMode, string> = { influence: "influence", attention: "attention", rollout: "rollout" };

// Maximum percentage of color behind a text. The text must remain legible.
const MAX_SHADE = 45;

const written = ({ mode, unit }: Strip, value: number | null) => writtenValue(mode, unit, value);

function Modes() {
  const modes = stripModes.value;
  if (modes.length < 2) return null;
  return (
    <fieldset class="switch">
      <legend class="hidden">Values</legend>
      {modes.map((mode) => (
        <label key={mode}>
          <input type="radio" name="strip" data-testid={`strip-${mode}`} checked={(strip.value?.mode ?? stripMode.value) === mode} onChange={() => (stripMode.value = mode)} /> {NAMES[mode]}
        </label>
      ))}
    </fieldset>
  );
}

/** The pieces of an output. A click displays the influences on that piece. */
function Outputs() {
  const pieces = outputPieces();
  if (!pieces.length) return null;
  const current = inspection.value!;
  return (
    <p class="chips" data-testid="output-pieces">
      {pieces.map((piece, index) => {
        const at = current.predictions[index]?.at.pieces[0];
        const chosen = place.value === null ? index === 0 : place.value === at;
        return (
          <button type="button" class="chip" key={index} aria-pressed={chosen} data-testid={`output-piece-${index}`} onClick={() => (place.value = at)}>
            {visible(piece)}
          </button>
        );
      })}
    </p>
  );
}

/** One line of the input, each piece shaded by its value. */
function Line({ of, line, from, letters }: { of: Strip; line: StripLine; from: number; letters: boolean }) {
  const size = Math.max(Math.abs(of.min), Math.abs(of.max), 1e-9);
  return (
    <p class={`lines answered${letters ? " letters" : ""}`} data-testid={from ? `strip-line-${from}` : "influences"}>
      {line.pieces.map((piece, index) => {
        const value = line.values[index];
        const share = value === null ? 1 : value / size;
        if (isSpecial(piece) && of.mode === "influence") return null;
        const hidden = line.hidden[index];
        return (
          <span key={index}>
            <span
              class={`influenced${share < 0 ? " against" : ""}${hidden ? " hatched" : ""}`}
              style={{ "--share": `${Math.round(MAX_SHADE * Math.min(1, Math.abs(share)))}%`, "--rise": 1 + Math.min(1, Math.abs(share)) }}
              title={`${visible(piece)}: ${hidden ? "hidden by the mask" : written(of, value)}`}
              data-testid={from ? undefined : `influence-${index}`}
            >
              {visible(piece)}
            </span>
            {!letters ? " " : (index + 1) % 10 ? "" : <sub class="quiet">{index + 1} </sub>}
            {piece.includes("\n") && "\n"}
          </span>
        );
      })}
    </p>
  );
}

function Scale({ of }: { of: Strip }) {
  const size = Math.max(Math.abs(of.min), Math.abs(of.max), 1e-9);
  if (of.mode !== "influence")
    return (
      <span class="legend figures">
        0 <span class="ramp" aria-hidden="true" /> {fixed(size, 3)} (share of the attention)
      </span>
    );
  return (
    <span class="legend figures">
      against {signed(-size)} <span class="ramp against" aria-hidden="true" /> 0 <span class="ramp" aria-hidden="true" /> for {signed(size)} {of.unit}
    </span>
  );
}

/** The graph of the input. A ring is the influence of a node; the width of an edge is its weight in the chosen head. */
function Graph({ of }: { of: Strip }) {
  const current = inspection.value!;
  const [surface] = current.surfaces;
  const values = of.mode === "influence" ? of.lines[0].values : null;
  const size = Math.max(Math.abs(of.min), Math.abs(of.max), 1e-9);
  const head = settled.value && "attention" in settled.value ? current.attention[settled.value.attention] : null;
  const weight = (edge: [number, number]) => (head ? edgeWeight(head, shown.value!.matrix, surface.pieces, edge) : null);
  return (
    <GraphDrawing
      surface={surface}
      labels={nodeLabels(current)}
      share={weight}
      ring={values?.map((value) => (value === null ? 1 : value / size))}
      describe={(node) => `${surface.pieces[node]}${values ? `: ${written(of, values[node])}` : ""}`}
      answered={new Set(current.predictions.filter(({ at }) => at.kind === "node").map(({ at }) => at.pieces[0]))}
      testId="why-graph"
    />
  );
}

/** The text of a piece, or its time or place. */
function nameOf(index: number, piece: number, text: string): string {
  const surface = inspection.value!.surfaces[index];
  return isNumeric(surface) ? pieceName(surface, piece) : visible(text);
}

/** A surface of numbers with a bar for each value. */
function Numbers({ of, line }: { of: Strip; line: StripLine }) {
  const current = inspection.value!;
  const drawn = useMemo(() => plottedStrip(of, line, current.surfaces[line.surface!]), [of, line, current]);
  return <NumbersDrawing of={current} index={line.surface!} strip={drawn} testId={`why-numbers-${line.surface}`} />;
}

/** One line of the strip as text or as a drawing. */
function StripPart({ of, line, from, letters }: { of: Strip; line: StripLine; from: number; letters: boolean }) {
  return line.surface === null ? <Line of={of} line={line} from={from} letters={letters} /> : <Numbers of={of} line={line} />;
}

/** The input, each piece shaded by its influence on the answer, or by the attention of a head. */
export function Why() {
  const current = strip.value;
  const graph = inspection.value!.surfaces[0]?.kind === "graph";
  const letters = inspection.value!.surfaces[0] !== undefined && isSpelled(inspection.value!.surfaces[0]);
  return (
    <>
      <Modes />
      <Outputs />
      <Problem place="why" doing="Hiding each piece in turn …" />
      {!current && !status.why.value.busy && !status.why.value.problem && <p class="quiet">Influence was not computed for this answer.</p>}
      {current && (
        <>
          <p>
            {current.mode === "influence" ? "Influence on" : "Attention for"} <b data-testid="influence-of">{visible(current.label)}</b>:
          </p>
          {graph ? <Graph of={current} /> : current.lines.map((line, index) => <StripPart key={index} of={current} line={line} from={index} letters={letters} />)}
          {current.lines.some(({ surface }) => surface === null) && <Scale of={current} />}
          {current.mode === "influence" && influence.value && (
            <ol class="figures" data-testid="strongest">
              {strongestInfluences(influence.value).map(({ surface, index, piece, value }, order) => (
                <li key={order}>
                  <b>{nameOf(surface, index, piece)}</b> {written(current, value)}
                </li>
              ))}
            </ol>
          )}
          <p class="quiet">
            {current.mode === "influence" && "How pieces are hidden: "}
            {current.note}
          </p>
        </>
      )}
    </>
  );
}
