import { useSignal } from "@preact/signals";
import type { Vectors } from "../document";
import { exact, fixed } from "../format";
import { visible } from "../words";
import { weightedValues } from "../worked";

const FIRST = { keys: 5, components: 6 };

/** The weighted values and their sum. A button shows all keys and components. */
export function ValueTable({ vectors, head, weights, keys }: { vectors: Vectors; head: number; weights: Float32Array; keys: string[] }) {
  const all = useSignal(false);
  const { parts, total } = weightedValues(vectors, head, weights);
  const heaviest = keys.map((_, key) => key).sort((a, b) => weights[b] - weights[a]);
  const shownKeys = all.value ? keys.map((_, key) => key) : heaviest.slice(0, FIRST.keys);
  const components = total.slice(0, all.value ? total.length : FIRST.components);
  const left = keys.length - shownKeys.length;
  return (
    <>
      <div class="scroller tall" tabIndex={0} role="region" aria-label="Weighted values">
        <table data-testid="values">
          <thead>
            <tr>
              <th>Key</th>
              <th>α</th>
              {components.map((_, index) => (
                <th key={index}>αv[{index}]</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shownKeys.map((key) => (
              <tr key={key}>
                <th scope="row">{visible(keys[key])}</th>
                <td>{exact(weights[key])}</td>
                {components.map((_, index) => (
                  <td key={index}>{fixed(parts[key][index], 4)}</td>
                ))}
              </tr>
            ))}
            {left > 0 && (
              <tr>
                <td colSpan={components.length + 2}>and {left} keys with smaller weights</td>
              </tr>
            )}
            <tr class="current">
              <th scope="row">Σ over all keys</th>
              <td />
              {components.map((value, index) => (
                <td key={index}>{fixed(value, 4)}</td>
              ))}
            </tr>
          </tbody>
        </table>
      </div>
      <button type="button" aria-expanded={all.value} onClick={() => (all.value = !all.value)}>
        {all.value ? "Show fewer" : `Show all ${keys.length} keys and ${total.length} components`}
      </button>
    </>
  );
}
