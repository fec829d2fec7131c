import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { loadOther } from "../actions";
import { fetchDetails } from "../api";
import { firstDifference } from "../difference";
import type { Inspection } from "../document";
import { asking, details, inspection, models, offline, other } from "../state";
import { visible } from "../words";
import { Chosen } from "./Chosen";
import { Scores } from "./Output";
import { Problem } from "./Problem";

function Picker() {
  const model = useSignal(asking.model.value);
  const checkpoint = useSignal("");
  const checkpoints = useSignal<string[]>(details.value?.checkpoints ?? []);
  useEffect(() => {
    const name = model.value;
    fetchDetails(name).then(
      (found) => name === model.value && (checkpoints.value = found.checkpoints),
      () => (checkpoints.value = []),
    );
  }, [model.value]);
  return (
    <div class="controls">
      <label>
        Model{" "}
        <select
          data-testid="compare-model"
          value={model.value}
          onChange={(event) => {
            model.value = event.currentTarget.value;
            checkpoint.value = "";
          }}
        >
          {models.value.map(({ name }) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <label>
        Checkpoint{" "}
        <select data-testid="compare-checkpoint" value={checkpoint.value} onChange={(event) => (checkpoint.value = event.currentTarget.value)}>
          <option value="">its own choice</option>
          {checkpoints.value.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <button type="button" data-testid="compare-load" onClick={() => void loadOther(model.value, checkpoint.value)}>
        Compare
      </button>
      <Problem place="compare" doing="Translating with the other …" />
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
        {side.target.pieces.map((piece, index) => (
          <span key={index}>{index === differs ? <mark>{visible(piece)}</mark> : visible(piece)} </span>
        ))}
      </p>
      <p>
        <Scores of={side} />
      </p>
      <Chosen of={side} testId={`${testId}-heatmap`} />
    </div>
  );
}

export function Compare() {
  const [left, right] = [inspection.value!, other.value];
  const differs = right && firstDifference(left.target.pieces, right.target.pieces);
  const named = (side: Inspection, index: number) => (index < side.target.pieces.length ? `“${visible(side.target.pieces[index])}”` : "nothing more");
  return (
    <>
      {!offline && <Picker />}
      {right && (
        <>
          <p data-testid="difference">
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
