import type { Inspection } from "../document";
import { download } from "../exporting";
import { fileName } from "../format";
import { brief, channelNames, csvOf, forecastOf, valueAt, type Numeric } from "../numbers";
import { Copy } from "./Copy";

/** The numbers of a forecast as a table, and as CSV. */
export function Forecast({ of: { surfaces, predictions, text } }: { of: Inspection }) {
  const index = surfaces.findIndex((_, at) => forecastOf(surfaces, at) !== null);
  const forecast = index < 0 ? null : forecastOf(surfaces, index);
  if (!forecast) return null;
  const names = channelNames(forecast);
  const csv = csvOf(forecast);
  const series = predictions.filter(({ kind }) => kind === "series");
  return (
    <>
      <p class="quiet figures" data-testid="forecast-labels">
        {series.map(({ label }) => label).join(" · ")}
      </p>
      <Table forecast={forecast} names={names} csv={csv} text={text} />
    </>
  );
}

function Table({ forecast, names, csv, text }: { forecast: Numeric; names: string[]; csv: string; text: string }) {
  return (
    <details data-testid="forecast-table">
      <summary>Numbers of the forecast</summary>
      <p class="controls">
        <Copy text={csv} of="the forecast as CSV" testId="forecast-copy" />
        <button type="button" data-testid="forecast-save" onClick={() => download(csv, "text/csv", fileName(text, "csv"))}>
          Save CSV
        </button>
      </p>
      <div class="scroller tall" tabIndex={0} role="region" aria-label="Numbers of the forecast">
        <table>
          <thead>
            <tr>
              <th scope="col">date</th>
              {names.map((name) => (
                <th scope="col" key={name}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {forecast.pieces.map((piece, at) => (
              <tr key={at}>
                <th scope="row">{piece}</th>
                {names.map((_, channel) => (
                  <td key={channel}>{brief(valueAt(forecast, at, channel))}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
