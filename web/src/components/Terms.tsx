import { useSignal } from "@preact/signals";
import type { Vectors } from "../document";
import { exact } from "../format";
import type { Worked } from "../worked";
import { Bar } from "./Bar";

/** The energy of one query and key: its terms, their sum, the scale and the bias. */
export function Terms({ worked, vectors }: { worked: Worked; vectors: Vectors }) {
  const byIndex = useSignal(false);
  const { terms, sum, bias, energy } = worked;
  const ordered = byIndex.value ? terms : [...terms].sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  const max = Math.max(...terms.map((term) => Math.abs(term.value))) || 1;
  const additive = vectors.kind === "additive";
  return (
    <>
      <div class="controls">
        <label>
          <input type="checkbox" checked={!byIndex.value} onChange={(event) => (byIndex.value = !event.currentTarget.checked)} /> largest
          first
        </label>
      </div>
      <div class="scroller tall" tabIndex={0} role="region" aria-label="Terms of the energy">
        <table class="terms">
          <thead>
            <tr>
              <th>i</th>
              <th>qᵢ</th>
              <th>kᵢ</th>
              {additive && <th>vᵢ</th>}
              <th>{additive ? "vᵢ·tanh(qᵢ + kᵢ)" : "qᵢ·kᵢ"}</th>
              <td />
            </tr>
          </thead>
          <tbody>
            {ordered.map((term) => (
              <tr key={term.index}>
                <td>{term.index}</td>
                <td>{exact(term.query)}</td>
                <td>{exact(term.key)}</td>
                {additive && <td>{exact(term.factor ?? 0)}</td>}
                <td>{exact(term.value)}</td>
                <td>
                  <Bar share={term.value / max} signed />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="figures" data-testid="energy">
        Σ {exact(sum)} × scale {Number(vectors.scale.toPrecision(5))}
        {bias !== null && ` + bias ${exact(bias)}`} = energy <b>{exact(energy)}</b>
      </p>
    </>
  );
}
