import { Fragment } from "preact";
import { fixed } from "../format";
import { moveFocus } from "../hooks";
import { MAX_SURPRISE, surprise } from "../predicting";
import { stepsOf } from "../reading";
import { inspection, place } from "../state";
import { visible } from "../words";
import { chance, Ranked } from "./Ranked";

/** The color scale of the surprise. */
function Scale() {
  return (
    <span class="legend figures">
      0 <span class="ramp" aria-hidden="true" /> {MAX_SURPRISE} nats or more of surprise (−log p)
    </span>
  );
}

/** The tokens of a text, each shaded by its surprise (−log p), and the alternatives of the chosen token. */
export function StepText() {
  const steps = stepsOf(inspection.value!);
  // `NextBars` already lists the next token.
  const listed = inspection.value!.next !== undefined && place.value === null;
  const tokens = steps.filter((step) => step.label !== null);
  // The site of a prediction is the index of the piece before it.
  const chosen = place.value === null ? steps.length - 1 : place.value + 1;
  const current = steps[chosen] ?? steps[steps.length - 1];
  const total = tokens.reduce((sum, each) => sum + (each.log_probability ?? -Infinity), 0);
  const pick = (index: number) => (place.value = index === chosen && place.value !== null ? null : index - 1);
  return (
    <>
      <p class="lines tokens" data-testid="tokens" role="group" aria-label="Tokens; arrow keys move" onKeyDown={moveFocus}>
        {tokens.map(({ label, log_probability }, index) => (
          <Fragment key={index}>
            <button
              type="button"
              class="token"
              data-testid={`token-${index}`}
              title={chance(log_probability)}
              aria-label={`${visible(label!)}, ${chance(log_probability)}`}
              aria-pressed={index === chosen}
              tabIndex={index === Math.min(chosen, tokens.length - 1) ? 0 : -1}
              style={{ "--surprise": `${Math.round(45 * surprise(log_probability))}%` }}
              onClick={() => pick(index)}
            >
              {/[\n\t]/.test(label!) ? visible(label!) : label}
            </button>
            {label!.includes("\n") && "\n"}
          </Fragment>
        ))}
        {steps.length > tokens.length && (
          <button type="button" class="token" data-testid="token-next" aria-label="The next token" aria-pressed={chosen === tokens.length} onClick={() => pick(tokens.length)}>
            …
          </button>
        )}
      </p>
      <div class="controls">
        <span class="quiet figures" data-testid="total">
          {tokens.length} tokens · log P {fixed(total, 3)}
          {tokens.length > 0 && ` · perplexity ${fixed(Math.exp(-total / tokens.length), 2)}`}
        </span>
        <Scale />
      </div>
      <div aria-live="polite">
        {current && !listed && (
          <>
            <p data-testid="step">
              {current.label === null ? (
                "Most probable next tokens:"
              ) : (
                <>
                  <b>{visible(current.label)}</b>, token {chosen + 1}: {chance(current.log_probability)}, log p{" "}
                  {current.log_probability === null ? "−∞" : fixed(current.log_probability, 3)}
                </>
              )}
            </p>
            <Ranked options={current.alternatives} testId="alternatives" />
          </>
        )}
      </div>
    </>
  );
}
