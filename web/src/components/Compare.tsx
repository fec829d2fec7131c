import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { loadOther } from "../inspecting";
import { fetchDetails } from "../api";
import { identityOf, labelOf, others } from "../checkpoints";
import { firstDifference } from "../difference";
import type { Inspection, ModelDetails } from "../document";
import { targetOf } from "../reading";
import { details, inspection, models, offline, other } from "../state";
import { visible } from "../words";
import { Chosen } from "./Chosen";
import { Scores } from "./Output";
import { Problem } from "./Problem";

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
  const identity = main?.name === shown.name ? identityOf(main, shown.checkpoint) : "";
  const modelDetails = loaded.value?.name === model.value ? loaded.value : null;
  const choices = modelDetails ? others(modelDetails, identity) : [];
  const checkpoint = choices.includes(chosenCheckpoint.value) ? chosenCheckpoint.value : (choices[0] ?? "");
  return (
    <div class="controls">
      {models.value.length > 1 && (
        <label>
          Model{" "}
          <select data-testid="compare-model" value={model.value} onChange={(event) => (model.value = event.currentTarget.value)}>
            {models.value.map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      )}
      {modelDetails && choices.length === 0 && (
        <span data-testid="compare-none">
          {model.value} has no checkpoint with different weights
          {models.value.length > 1 ? "." : ". To compare, serve a second run."}
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
      <Problem place="compare" doing="Translating with the second model …" />
    </div>
  );
}

function Column({ of: side, differs, testId }: { of: Inspection; differs: number | null; testId: string }) {
  return (
    <div class="column" data-testid={testId}>
      <h3>
        {side.model.name}, {side.model.checkpoint}
      </h3>
      <p class="pieces" lang={side.model.target_language ?? undefined}>
        {targetOf(side).pieces.map((piece, index) => (
          <span key={index}>{index === differs ? <mark>{visible(piece)}</mark> : visible(piece)} </span>
        ))}
      </p>
      <p>
        <Scores of={side.search!} />
      </p>
      <Chosen of={side} testId={`${testId}-heatmap`} />
    </div>
  );
}

export function Compare() {
  const [left, right] = [inspection.value!, other.value];
  const differs = right && firstDifference(targetOf(left).pieces, targetOf(right).pieces);
  const named = (side: Inspection, index: number) => (index < targetOf(side).pieces.length ? `“${visible(targetOf(side).pieces[index])}”` : "the end of the output");
  return (
    <>
      {!offline && <Picker />}
      {right && (
        <>
          <p data-testid="difference">
            {left.search!.forced > 0 && `The first ${left.search!.forced === 1 ? "piece" : `${left.search!.forced} pieces`} of the left output ${left.search!.forced === 1 ? "was" : "were"} forced. `}
            {differs === null
              ? "Both outputs are the same."
              : `The outputs differ first at piece ${differs + 1}: ${named(left, differs)} and ${named(right, differs)}.`}
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
