import { pickModel } from "../actions";
import { languageName } from "../languages";
import { inspection, form, details, models } from "../state";

interface Direction {
  source: string;
  target: string;
}

/** A model for a pair of languages: the current model if it translates this pair. */
function modelFor({ source, target }: Direction): string | undefined {
  const fits = models.value.filter((model) => model.source === source && model.target === target);
  return (fits.find((model) => model.name === form.model.value) ?? fits[0])?.name;
}

/** Selectors for the source and target languages of the served models. */
export function Languages() {
  const model = details.value;
  const pairs = models.value.filter((each): each is typeof each & Direction => !!each.source && !!each.target);
  if (!model?.source || !model.target || pairs.length < 2) return null;
  const { source, target } = model as unknown as Direction;
  const sources = [...new Set(pairs.map((each) => each.source))];
  const targets = [...new Set(pairs.filter((each) => each.source === source).map((each) => each.target))];
  const change = (direction: Direction) => {
    const name = modelFor(direction) ?? modelFor({ source: direction.source, target: pairs.find((each) => each.source === direction.source)!.target });
    if (name) void pickModel(name);
  };
  const back = modelFor({ source: target, target: source });
  const swap = () => {
    const output = inspection.value?.search?.output;
    if (output) form.text.value = output;
    if (back) void pickModel(back);
  };
  const options = (codes: string[]) =>
    codes.map((code) => (
      <option key={code} value={code}>
        {languageName(code)}
      </option>
    ));
  return (
    <span class="languages" data-testid="languages">
      <select data-testid="source-language" aria-label="Source language" value={source} onChange={(event) => change({ source: event.currentTarget.value, target })}>
        {options(sources)}
      </select>{" "}
      <button type="button" data-testid="swap" aria-label="Swap languages" title={back ? "Swap languages" : "No served model translates back"} disabled={!back} onClick={swap}>
        ⇄
      </button>{" "}
      <select data-testid="target-language" aria-label="Target language" value={target} onChange={(event) => change({ source, target: event.currentTarget.value })}>
        {options(targets)}
      </select>
    </span>
  );
}
