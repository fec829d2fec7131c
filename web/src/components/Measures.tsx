import { useSignal } from "@preact/signals";
import { fixed } from "../format";
import { describe, measureOf, measuresOf, orderHeads } from "../measures";
import { sameChoice } from "../shown";
import { choice, inspection, settled } from "../state";

/** The measures of all heads. A column heading sorts by its column. */
export function Measures() {
  const current = inspection.value!;
  const sortBy = useSignal<string | null>(null);
  const measures = measuresOf(current);
  const heads = orderHeads(current, Object.keys(current.attention), sortBy.value);
  return (
    <>
      <dl class="explained">
        {measures.map((name) => (
          <div key={name}>
            <dt>
              {describe(name).label}
              {describe(name).unit && ` (${describe(name).unit})`}
            </dt>
            <dd>{describe(name).text}</dd>
          </div>
        ))}
      </dl>
      <div class="scroller tall" tabIndex={0} role="region" aria-label="Measures of the heads">
        <table data-testid="measures">
          <thead>
            <tr>
              <th>
                <button type="button" class="plain" onClick={() => (sortBy.value = null)}>
                  Head
                </button>
              </th>
              {measures.map((name) => (
                <th key={name} aria-sort={sortBy.value === name ? "descending" : undefined}>
                  <button type="button" class="plain" onClick={() => (sortBy.value = name)}>
                    {describe(name).label}
                    {sortBy.value === name && " ↓"}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {heads.map(({ attention, head }) => (
              <tr key={`${attention} ${head}`} class={sameChoice(settled.value, { attention, head }) ? "current" : ""}>
                <th scope="row">
                  <button type="button" class="plain" onClick={() => (choice.value = { attention, head })}>
                    {attention}, {head}
                  </button>
                </th>
                {measures.map((name) => {
                  const value = measureOf(current, attention, head, name);
                  return <td key={name}>{value === undefined ? "–" : fixed(value, 3)}</td>;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
