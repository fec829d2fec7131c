import { useSignal } from "@preact/signals";
import { Fragment } from "preact";
import { force } from "../inspecting";
import type { Prediction } from "../document";
import { fixed, percent } from "../format";
import { targetOf } from "../reading";
import { inspection, offline } from "../state";
import { visible } from "../words";
import { Bar } from "./Bar";
import { Release } from "./Release";

function Candidates({ step, index, chosen }: { step: Prediction; index: number; chosen: number }) {
  return (
    <ul class="candidates" aria-label={`Candidates of piece ${index + 1}`}>
      {step.alternatives.map((candidate, order) => {
        const name = visible(candidate.label) + (candidate.id === chosen ? " (chosen)" : "");
        return (
          <li key={candidate.id}>
            {offline ? (
              <span>{name}</span>
            ) : (
              <button
                type="button"
                data-testid={`candidate-${index}-${order}`}
                title="Force this piece and decode the rest again"
                onClick={() => void force(index, candidate.id!)}
              >
                {name}
              </button>
            )}
            <Bar share={Math.exp(candidate.log_probability ?? -Infinity)} />
            <span class="figures">{percent(candidate.log_probability ?? -Infinity)}</span>
          </li>
        );
      })}
    </ul>
  );
}

/** Each piece of the output with its probability and its alternatives. */
export function NextTokens() {
  const { predictions: steps, search } = inspection.value!;
  const target = targetOf(inspection.value!);
  const forced = search!.forced;
  const open = useSignal<number | null>(null);
  return (
    <>
      <p class="quiet">
        Open a piece to see the ten most probable pieces at its position.{!offline && " Choose one to force it; the rest is decoded again."}
      </p>
      <Release testId="release-steps" />
      <div class="scroller tall" tabIndex={0} role="region" aria-label="Next tokens">
        <table class="steps" data-testid="steps">
          <thead>
            <tr>
              <th>Piece</th>
              <th>p</th>
              <td />
              <th>Entropy (nats)</th>
              <th>Rank</th>
            </tr>
          </thead>
          <tbody>
            {steps.map((step, index) => (
              <Fragment key={index}>
                <tr class={index < forced ? "forced" : ""}>
                  <th scope="row">
                    <button
                      type="button"
                      class="plain"
                      data-testid={`step-${index}`}
                      aria-expanded={open.value === index}
                      onClick={() => (open.value = open.value === index ? null : index)}
                    >
                      {open.value === index ? "▾" : "▸"} {visible(target.pieces[index])}
                    </button>
                    {index < forced && <span class="badge">forced</span>}
                  </th>
                  <td>{percent(step.log_probability ?? -Infinity)}</td>
                  <td>
                    <Bar share={Math.exp(step.log_probability ?? -Infinity)} />
                  </td>
                  <td>{fixed(step.entropy!)}</td>
                  <td>{step.rank! + 1}</td>
                </tr>
                {open.value === index && (
                  <tr>
                    <td colSpan={5}>
                      <Candidates step={step} index={index} chosen={target.ids[index]} />
                    </td>
                  </tr>
                )}
              </Fragment>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
