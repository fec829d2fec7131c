import { exact } from "../format";
import { visible } from "../words";
import type { RowEntry } from "../worked";
import { Bar } from "./Bar";

interface Properties {
  row: RowEntry[];
  keys: string[];
  current: number;
  /** The last key that a causal attention may attend to; null if it is not causal. */
  lastSeen: number | null;
}

function maskedAs(entry: RowEntry, lastSeen: number | null): string {
  return lastSeen !== null && entry.key > lastSeen ? "masked: later position" : "masked";
}

/** The energies of a row, their exponentials and weights, next to the recorded weights. */
export function SoftmaxTable({ row, keys, current, lastSeen }: Properties) {
  const worst = Math.max(...row.map((entry) => Math.abs(entry.weight - entry.recorded)));
  return (
    <>
      <div class="scroller tall" tabIndex={0} role="region" aria-label="Softmax over the row">
        <table data-testid="softmax">
          <thead>
            <tr>
              <th>Key</th>
              <th>Energy</th>
              <th>exp</th>
              <th>Weight</th>
              <th>Recorded</th>
              <td />
            </tr>
          </thead>
          <tbody>
            {row.map((entry) => (
              <tr key={entry.key} class={`${entry.key === current ? "current" : ""}${entry.masked ? " masked" : ""}`}>
                <th scope="row" aria-current={entry.key === current || undefined}>
                  {visible(keys[entry.key])}
                </th>
                {entry.masked ? (
                  <td colSpan={3}>{maskedAs(entry, lastSeen)}</td>
                ) : (
                  <>
                    <td>{exact(entry.energy)}</td>
                    <td>{exact(entry.exponential)}</td>
                    <td>{exact(entry.weight)}</td>
                  </>
                )}
                <td>{exact(entry.recorded)}</td>
                <td>
                  <Bar share={entry.recorded} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="quiet figures">
        exp = exp(energy − largest energy). Weight = exp / sum of exp. Largest difference from the recorded weights:{" "}
        {exact(worst)}.
      </p>
    </>
  );
}
