import { chooseNext } from "../inspecting";
import { set } from "../predicting";
import { details, inspection, offline, settings } from "../state";
import { visible } from "../words";
import { Bar } from "./Bar";
import { Problem } from "./Problem";
import { chance } from "./Ranked";

interface Slider {
  name: string;
  label: string;
  min: number;
  max: number;
  step: number;
  /** The value without effect. */
  off: number;
}

const SLIDERS: Slider[] = [
  { name: "temperature", label: "temperature", min: 0, max: 2, step: 0.05, off: 1 },
  { name: "top_k", label: "top-k", min: 1, max: 50, step: 1, off: 50 },
  { name: "top_p", label: "top-p", min: 0.05, max: 1, step: 0.05, off: 1 },
];

function Controls() {
  const own = details.value?.settings?.values ?? {};
  return (
    <div class="controls" role="group" aria-label="Sampling">
      {SLIDERS.map(({ name, label, min, max, step, off }) => {
        const value = Number(settings.value[name] ?? own[name] ?? off);
        return (
          <label key={name}>
            {label} <span class="figures">{value === off && own[name] == null && settings.value[name] === undefined ? "off" : value}</span>{" "}
            <input
              type="range"
              data-testid={`slider-${name}`}
              min={min}
              max={max}
              step={step}
              value={Math.min(value, max)}
              onInput={(event) => {
                const chosen = Number(event.currentTarget.value);
                set(name, chosen === off && own[name] == null ? null : chosen);
              }}
            />
          </label>
        );
      })}
    </div>
  );
}

/** The distribution that the next token is sampled from. A click appends a token. */
export function NextBars() {
  const { next } = inspection.value!;
  if (!next) return null;
  return (
    <div data-testid="next-bars">
      <h3>Sampling distribution of the next token</h3>
      {!offline && <Controls />}
      <Problem place="next" doing="" testId="status-next" />
      <ul class="candidates ranked">
        {next.map((each, order) => (
          <li key={order}>
            {offline ? (
              <span>{visible(each.label)}</span>
            ) : (
              <button type="button" class="plain" data-testid={`next-${order}`} title="Append this token" onClick={() => void chooseNext(each.label)}>
                {visible(each.label)}
              </button>
            )}
            <Bar share={Math.exp(each.log_probability ?? -Infinity)} />
            <span class="figures">{chance(each.log_probability)}</span>
          </li>
        ))}
      </ul>
      {!offline && <p class="quiet">Choose a token to append it to the text.</p>}
    </div>
  );
}
