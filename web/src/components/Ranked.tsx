import type { Alternative } from "../document";
import { percent } from "../format";
import { visible } from "../words";
import { Bar } from "./Bar";

export const chance = (value: number | null) => percent(value ?? -Infinity);

/** Labels with their probabilities, in the given order. In an answer, the first label is bold. */
export function Ranked({ options, testId = "options" }: { options: Alternative[]; testId?: string }) {
  return (
    <ul class={`candidates${testId === "options" ? " ranked" : ""}`} data-testid={testId}>
      {options.map((each, order) => (
        <li key={order}>
          <span>{visible(each.label)}</span>
          <Bar share={Math.exp(each.log_probability ?? -Infinity)} />
          <span class="figures">{chance(each.log_probability)}</span>
        </li>
      ))}
    </ul>
  );
}
