import { Fragment } from "preact";
import { fixed, percent } from "../format";
import { MOST_SURPRISE, step, surprise } from "../observing";
import { observation } from "../state";
import { visible } from "../words";
import { Ranked } from "./Answer";

const chance = (value: number | null) => percent(value ?? -Infinity);

/** A scale of the shades. */
function Scale() {
  return (
    <span class="legend figures">
      0 <span class="ramp" aria-hidden="true" /> {MOST_SURPRISE} nats and more
    </span>
  );
}

/** The input piece by piece, each shaded by how little the model expected it. */
export function StepText() {
  const { steps, following, parts, text, model } = observation.value!;
  if (!steps.length && !following.length)
    return (
      <p class="quiet" data-testid="no-steps">
        {text}
      </p>
    );
  const chosen = step.value === null || step.value > steps.length ? null : step.value;
  const current = chosen === null ? null : (steps[chosen] ?? null);
  const total = steps.reduce((sum, each) => sum + (each.log_probability ?? -Infinity), 0);
  const pick = (index: number) => (step.value = chosen === index ? null : index);
  return (
    <>
      <p class="lines tokens" data-testid="tokens">
        {steps.map((each, index) => (
          <Fragment key={index}>
            <button
              type="button"
              class="token"
              data-testid={`token-${index}`}
              title={`${chance(each.log_probability)}`}
              aria-label={`${visible(each.label)}, ${chance(each.log_probability)}`}
              aria-pressed={index === chosen}
              style={{ "--surprise": `${Math.round(60 * surprise(each.log_probability))}%` }}
              onClick={() => pick(index)}
            >
              {/[\n\t]/.test(each.label) ? visible(each.label) : each.label}
            </button>
            {each.label.includes("\n") && "\n"}
          </Fragment>
        ))}
        {following.length > 0 && (
          <button
            type="button"
            class="token"
            data-testid="token-next"
            aria-label="What may follow"
            aria-pressed={chosen === steps.length}
            onClick={() => pick(steps.length)}
          >
            …
          </button>
        )}
      </p>
      <div class="controls">
        <span class="quiet figures" data-testid="total">
          {model.name}, checkpoint {model.checkpoint} · {steps.length} steps · log P {fixed(total, 3)}
          {steps.length > 0 && ` · perplexity ${fixed(Math.exp(-total / steps.length), 2)}`}
        </span>
        <Scale />
      </div>
      {parts && (
        <p class="quiet figures" data-testid="parts">
          Parts of the output:{" "}
          {Object.entries(parts)
            .map(([name, value]) => `${name} ${value < 0 ? "−" : "+"}${fixed(Math.abs(value), 2)}`)
            .join(", ")}
        </p>
      )}
      <div aria-live="polite">
        {chosen === null ? (
          <p class="quiet">Choose a piece for what was likeliest in its place.</p>
        ) : (
          <>
            <p data-testid="step">
              {current ? (
                <>
                  <b>{visible(current.label)}</b>, step {chosen + 1}: {chance(current.log_probability)}, log p{" "}
                  {current.log_probability === null ? "−∞" : fixed(current.log_probability, 3)}
                </>
              ) : (
                "What may follow:"
              )}
            </p>
            <Ranked options={current ? current.alternatives : following} testId="alternatives" />
          </>
        )}
      </div>
    </>
  );
}
