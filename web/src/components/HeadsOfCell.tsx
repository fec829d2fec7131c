import type { Floats } from "../document";
import { exact } from "../format";
import { plane } from "../matrix";
import { choice } from "../state";
import { Bar } from "./Bar";

/** The weight of each head, if the mean of the heads is shown. */
export function HeadsOfCell({ attention, weights, query, at }: { attention: string; weights: Floats; query: number; at: number }) {
  const heads = Array.from({ length: weights.shape[0] }, (_, head) => head);
  return (
    <>
      <p>This weight is the mean of the heads. Choose a head to see how its weight is computed.</p>
      <table>
        <thead>
          <tr>
            <th>Head</th>
            <th>Weight</th>
            <td />
          </tr>
        </thead>
        <tbody>
          {heads.map((head) => {
            const matrix = plane(weights, head);
            const weight = matrix.values[query * matrix.columns + at];
            return (
              <tr key={head}>
                <td>
                  <button type="button" class="plain" onClick={() => (choice.value = { attention, head })}>
                    head {head}
                  </button>
                </td>
                <td class="figures">{exact(weight)}</td>
                <td>
                  <Bar share={weight} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </>
  );
}
