import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { loadOther } from "../inspecting";
import { fetchDetails } from "../api";
import { identityOf, labelOf, others } from "../checkpoints";
import { firstDifference } from "../difference";
import type { Inspection, ModelDetails } from "../document";
import { outputOf, siteName } from "../reading";
import { details, inspection, models, offline, other, task } from "../state";
import { visible } from "../words";
import { Chosen } from "./Chosen";
import { NumbersDrawing } from "./NumbersDrawing";
import { Scores } from "./Output";
import { Problem } from "./Problem";
import { chance } from "./Ranked";

/** Select a model and one of its checkpoints. Checkpoints with the same weights as the page are omitted. */
function Picker() {
  const [shown, main] = [inspection.value!.model, details.value];
  const model = useSignal(shown.name);
  const loaded = useSignal<ModelDetails | null>(main);
  const chosenCheckpoint = useSignal("");
  useEffect(() => {
    const name = model.value;
    fetchDetails(name).then(
      (response) => name === model.value && (loaded.value = response),
      () => name === model.value && (loaded.value = null),
    );
  }, [model.value]);
  const sameTask = models.value.filter((each) => (each.task ?? "translation") === task.value);
  const identity = main?.name === shown.name ? identityOf(main, shown.checkpoint) : "";
  const modelDetails = loaded.value?.name === model.value ? loaded.value : null;
  const choices = modelDetails ? others(modelDetails, identity) : [];
  const checkpoint = choices.includes(chosenCheckpoint.value) ? chosenCheckpoint.value : (choices[0] ?? "");
  return (
    <div class="controls">
      {sameTask.length > 1 && (
        <label>
          Model{" "}
          <select data-testid="compare-model" value={model.value} onChange={(event) => (model.value = event.currentTarget.value)}>
            {sameTask.map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      )}
      {modelDetails && choices.length === 0 && (
        <span data-testid="compare-none">
          {model.value} has no checkpoint with different weights
          {sameTask.length > 1 ? "." : ". To compare, serve a second run."}
        </span>
      )}
      {choices.length > 0 && (
        <>
          <label>
            Checkpoint{" "}
            <select data-testid="compare-checkpoint" value={checkpoint} onChange={(event) => (chosenCheckpoint.value = event.currentTarget.value)}>
              {choices.map((name) => (
                <option key={name} value={name}>
                  {labelOf(modelDetails!, name)}
                </option>
              ))}
            </select>
          </label>
          <button type="button" data-testid="compare-load" onClick={() => void loadOther(model.value, checkpoint)}>
            Compare
          </button>
        </>
      )}
      <Problem place="compare" doing="Inspecting with the second model …" />
    </div>
  );
}

/** The pieces of a translation, or the most probable label at each site; the first difference is marked. */
function Outputs({ of: side, differs }: { of: Inspection; differs: number | null }) {
  const labels = outputOf(side);
  const marked = (index: number) => (index === differs ? <mark>{visible(labels[index])}</mark> : visible(labels[index]));
  if (side.search)
    return (
      <>
        <p class="pieces" lang={side.model.target_language ?? undefined}>
          {labels.map((_, index) => (
            <span key={index}>{marked(index)} </span>
          ))}
        </p>
        <p>
          <Scores of={side.search} />
        </p>
      </>
    );
  return (
    <div class="scroller tall" tabIndex={0} role="region" aria-label={`Predictions of ${side.model.name}`}>
      <table>
        <tbody>
          {side.predictions.map((prediction, index) => (
            <tr key={index}>
              <th scope="row">{siteName(side, prediction)}</th>
              <td>{marked(index)}</td>
              <td>{prediction.kind === "number" || prediction.kind === "series" ? "" : chance((prediction.alternatives[0] ?? prediction).log_probability)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Column({ of: side, differs, testId }: { of: Inspection; differs: number | null; testId: string }) {
  return (
    <div class="column" data-testid={testId}>
      <h3>
        {side.model.name}, {side.model.checkpoint}
      </h3>
      {side.surfaces[1]?.kind === "series" && <NumbersDrawing of={side} index={0} testId={`${testId}-numbers`} />}
      <Outputs of={side} differs={differs} />
      <Chosen of={side} testId={`${testId}-heatmap`} />
    </div>
  );
}

/** A sentence about the first difference of two outputs. */
function difference(left: Inspection, right: Inspection, differs: number | null): string {
  if (differs === null) return "Both outputs are the same.";
  const named = (side: Inspection) => (differs < outputOf(side).length ? `“${visible(outputOf(side)[differs])}”` : "the end of the output");
  const at = left.search ? `piece ${differs + 1}` : left.predictions[differs] ? siteName(left, left.predictions[differs]) : `prediction ${differs + 1}`;
  return `The outputs differ first at ${at}: ${named(left)} and ${named(right)}.`;
}

export function Compare() {
  const [left, right] = [inspection.value!, other.value];
  const differs = right && firstDifference(outputOf(left), outputOf(right));
  const forced = left.search?.forced ?? 0;
  return (
    <>
      {!offline && <Picker />}
      {right && (
        <>
          <p data-testid="difference">
            {forced > 0 && `The first ${forced === 1 ? "piece" : `${forced} pieces`} of the left output ${forced === 1 ? "was" : "were"} forced. `}
            {difference(left, right, differs)}
          </p>
          <div class="columns">
            <Column of={left} differs={differs} testId="compare-left" />
            <Column of={right} differs={differs} testId="compare-right" />
          </div>
        </>
      )}
    </>
  );
}
