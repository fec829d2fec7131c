import { answersOf, huesOf, inputsOf, spanLabel, type Answer as Form, type Marked } from "../answers";
import { unknownNotice } from "../characters";
import type { Inspection } from "../document";
import { moveFocus } from "../hooks";
import { forecastOf, isNumeric } from "../numbers";
import { isContinued, isWritten, writtenText } from "../reading";
import { inspection, place } from "../state";
import { visible } from "../words";
import { Copy } from "./Copy";
import { Forecast } from "./Forecast";
import { GraphDrawing } from "./GraphDrawing";
import { NextBars } from "./NextBars";
import { NumbersDrawing } from "./NumbersDrawing";
import { PianoRoll } from "./PianoRoll";
import { chance, Ranked } from "./Ranked";
import { StepText } from "./StepText";

/** Pieces of a text, each with its answer. The alternatives of the chosen piece are listed below. */
function Pieces({ pieces, form }: { pieces: Marked[]; form: "tags" | "gaps" }) {
  const chosen = place.value;
  const current = chosen === null ? null : pieces[chosen]?.answer;
  const stop = current ? chosen : pieces.findIndex(({ answer }) => answer !== null);
  const hues = huesOf(pieces.flatMap(({ answer }) => (answer && spanLabel(answer.label) !== null ? [spanLabel(answer.label)!] : [])));
  return (
    <>
      <p class={`lines answered ${form}`} data-testid="pieces" role="group" aria-label={form === "gaps" ? "Text with gaps" : "Words; arrow keys move"} onKeyDown={moveFocus}>
        {pieces.map(({ text, answer }, index) => {
          if (!answer) return <span key={index}>{text}</span>;
          const label = `${visible(form === "gaps" ? "gap" : text)}: ${visible(answer.label)}, ${chance(answer.log_probability)}`;
          const shared = {
            type: "button" as const, "aria-label": label, title: label, "aria-pressed": chosen === index,
            "data-testid": `piece-${index}`, tabIndex: index === stop ? 0 : -1, onClick: () => (place.value = chosen === index ? null : index),
          };
          const span = spanLabel(answer.label);
          const inside = /^[IEL]-/.test(answer.label) && index > 0;
          return form === "gaps" ? (
            <button key={index} class="gap" {...shared}>
              {visible(answer.label)}
            </button>
          ) : (
            <span key={index}>
              <button class={`tagged${span === null ? " outside" : ""}${inside ? " inside" : ""}`} style={span === null ? undefined : { "--hue": hues.get(span) }} {...shared}>
                <span>{text}</span>
                <span class="tag">{visible(answer.label)}</span>
              </button>{" "}
            </span>
          );
        })}
      </p>
      <div aria-live="polite">
        {current ? (
          <>
            <p>
              Most probable at <b>{form === "gaps" ? "this gap" : visible(pieces[chosen!].text)}</b>:
            </p>
            <Ranked options={current.alternatives} testId="alternatives" />
          </>
        ) : (
          <p class="quiet">{form === "gaps" ? "Choose a gap" : "Choose a word"} to list its alternatives.</p>
        )}
      </div>
    </>
  );
}

function InputTexts({ texts }: { texts: string[] }) {
  return (
    <>
      {texts.map((text, index) => (
        <p class="lines given" data-testid={`given-${index}`} key={index}>
          {text}
        </p>
      ))}
    </>
  );
}

function AnswerForm({ answer, texts }: { answer: Form; texts: string[] }) {
  switch (answer.form) {
    case "tags":
    case "gaps":
      return <Pieces pieces={answer.pieces} form={answer.form} />;
    case "number":
      return (
        <>
          <InputTexts texts={texts} />
          <p class="translation figures" data-testid="number">
            {answer.value}
          </p>
        </>
      );
    case "next":
      return (
        <>
          <InputTexts texts={texts} />
          <p>Next:</p>
          <Ranked options={answer.options} />
        </>
      );
    case "ranked":
      return (
        <>
          {answer.about === null ? <InputTexts texts={texts} /> : <p data-testid="about">{answer.about}</p>}
          <Ranked options={answer.options} />
        </>
      );
  }
}

/** The label of each node: the predicted one, otherwise the label in the data. */
export function nodeLabels({ surfaces, predictions, facts }: Inspection): (string | null)[] {
  const predicted = new Map(predictions.filter(({ at }) => at.kind === "node").map(({ at, label }) => [at.pieces[0], label]));
  return surfaces[0].pieces.map((_, node) => predicted.get(node) ?? (facts.node_labels?.[node] || null));
}

/** The graph of the input. Nodes with a prediction can be chosen. */
function Graph({ of }: { of: Inspection }) {
  const [surface] = of.surfaces;
  const predicted = new Map(of.predictions.filter(({ at }) => at.kind === "node").map((each) => [each.at.pieces[0], each]));
  const describe = (node: number) => {
    const prediction = predicted.get(node);
    const dataLabel = of.facts.node_labels?.[node];
    const label = prediction ? `: ${prediction.label}, ${chance(prediction.log_probability)}` : "";
    return `${surface.pieces[node]}${label}${dataLabel ? ` (label in the data: ${dataLabel})` : ""}`;
  };
  const chosen = place.value === null ? undefined : predicted.get(place.value);
  return (
    <>
      <GraphDrawing surface={surface} labels={nodeLabels(of)} describe={describe} answered={new Set(predicted.keys())} testId="graph" />
      {chosen && (
        <>
          <p>
            Most probable at <b>{surface.pieces[place.value!]}</b>:
          </p>
          <Ranked options={chosen.alternatives} testId="alternatives" />
        </>
      )}
    </>
  );
}

/** A text whose next tokens are predicted. */
function Continued() {
  return (
    <>
      <NextBars />
      <StepText />
    </>
  );
}

/** Surfaces of numbers: a spectrogram, an image, or a series with its forecast, whose numbers are listed below. */
function Numbers({ of }: { of: Inspection }) {
  return (
    <>
      {of.surfaces.map((surface, index) => isNumeric(surface) && !forecastOf(of.surfaces, index - 1) && <NumbersDrawing key={index} of={of} index={index} testId={`numbers-${index}`} />)}
      <Forecast of={of} />
    </>
  );
}

/** The text that the model has written. */
function Written({ of }: { of: Inspection }) {
  const text = writtenText(of);
  return (
    <div class="controls">
      <p class="translation" data-testid="written">
        {text || "(no text)"}
      </p>
      <Copy text={text} of="the text" testId="written-copy" />
    </div>
  );
}

/** The input and the answer of the model. */
export function Answer() {
  const current = inspection.value!;
  const { name, checkpoint } = current.model;
  const { parts, roll, truncated, unknown } = current.facts;
  const notice = unknownNotice(unknown);
  return (
    <>
      {notice && (
        <p class="notice" role="status" data-testid="unknown">
          {notice}
        </p>
      )}
      {truncated && (
        <p class="notice" role="status" data-testid="truncated">
          The input is longer than this model can read. Its end was ignored.
        </p>
      )}
      {isContinued(current) ? <Continued /> : answersOf(current).map((answer, index) => <AnswerForm key={index} answer={answer} texts={inputsOf(current)} />)}
      {!current.search && isWritten(current) && <Written of={current} />}
      <Numbers of={current} />
      {current.surfaces[0]?.kind === "graph" && <Graph of={current} />}
      {roll && <PianoRoll roll={roll} />}
      <p class="quiet figures">
        {name}, checkpoint {checkpoint}
        {parts &&
          ` · parts of the answer: ${Object.entries(parts)
            .map(([part, value]) => `${part} ${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`)
            .join(", ")}`}
      </p>
    </>
  );
}
