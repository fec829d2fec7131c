import { pickModel } from "../actions";
import { labelOf } from "../checkpoints";
import { modelLabel } from "../languages";
import { form, details, models } from "../state";

export function ModelPicker() {
  if (models.value.length < 2) return null;
  return (
    <label>
      Model{" "}
      <select id="model" data-testid="model" value={form.model.value} onChange={(event) => void pickModel(event.currentTarget.value)}>
        {models.value.map((model) => (
          <option key={model.name} value={model.name}>
            {modelLabel(model)}
          </option>
        ))}
      </select>
    </label>
  );
}

export function CheckpointPicker() {
  const model = details.value;
  if (!model || model.checkpoints.length < 2) return null;
  const { checkpoint } = form;
  return (
    <label>
      Checkpoint{" "}
      <select
        id="checkpoint"
        data-testid="checkpoint"
        value={checkpoint.value}
        onChange={(event) => (checkpoint.value = event.currentTarget.value)}
      >
        {model.checkpoints.map((name) => (
          <option key={name} value={name}>
            {labelOf(model, name)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The settings of a beam search. */
export function SearchFields() {
  const { beam, lengthPenalty } = form;
  const numeric = (text: string) => (text === "" ? null : Number(text));
  return (
    <>
      <label>
        Beam{" "}
        <input
          id="beam-size"
          data-testid="beam-size"
          type="number"
          min="1"
          max={details.value?.limits?.beam ?? 64}
          value={beam.value ?? ""}
          onInput={(event) => (beam.value = numeric(event.currentTarget.value))}
        />
      </label>
      <label>
        Length penalty{" "}
        <input
          id="length-penalty"
          data-testid="length-penalty"
          type="number"
          step="0.1"
          min="0"
          max="10"
          value={lengthPenalty.value ?? ""}
          onInput={(event) => (lengthPenalty.value = numeric(event.currentTarget.value))}
        />
      </label>
    </>
  );
}
