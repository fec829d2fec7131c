import { siteName } from "../reading";
import { inspection } from "../state";
import { visible } from "../words";
import { chance } from "./Ranked";

const MAX_SITES = 16;

/** The prediction of the output layer from the state after each layer (logit lens). */
export function LensTable() {
  const { lens, predictions } = inspection.value!;
  if (!lens) return <p class="quiet">The logit lens is not available for this network.</p>;
  const sites = lens.sites.slice(-MAX_SITES);
  const from = lens.sites.length - sites.length;
  return (
    <div class="scroller tall" tabIndex={0} role="region" aria-label="Predictions after each layer">
      <table data-testid="lens">
        <thead>
          <tr>
            <th>State</th>
            {sites.map((number) => (
              <th key={number}>{siteName(inspection.value!, predictions[number])}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {lens.layers.map((layer, index) => (
            <tr key={layer}>
              <th scope="row">{layer}</th>
              {lens.rows[index].slice(from).map(({ label, log_probability }, site) => (
                <td key={site}>
                  {visible(label)} {!["number", "series"].includes(predictions[sites[site]].kind) && <span class="quiet figures">{chance(log_probability)}</span>}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
