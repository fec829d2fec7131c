import { contentsOf } from "../inputs";
import { inspectOutput, output, textOf } from "../predicting";
import { details, inspection, inspects, status } from "../state";
import { Copy } from "./Copy";
import { HeardWords, wordsOf } from "./HeardWords";
import { Ranked } from "./Ranked";

interface Entry {
  label: string;
  log_probability: number | null;
}

/** The labels of an output with their probabilities, most probable first; null without probabilities. */
function ranked(result: object): Entry[] | null {
  const { probabilities } = result as { probabilities?: unknown };
  if (typeof probabilities !== "object" || probabilities === null || Array.isArray(probabilities)) return null;
  return Object.entries(probabilities)
    .map(([label, value]) => ({ label, log_probability: Math.log(Number(value)) }))
    .sort((one, other) => other.log_probability - one.log_probability);
}

/** The values of an output without a text, one per line. */
function Values({ result }: { result: object }) {
  const options = ranked(result);
  const rest = Object.entries(result).filter(([name, value]) => (options === null || name !== "probabilities") && value !== null);
  const written = (value: unknown): string => (Array.isArray(value) ? value.map(written).join(", ") : typeof value === "object" && value ? Object.values(value).map(written).join(" ") : String(value));
  return (
    <div data-testid="output">
      <table class="parts">
        <tbody>
          {rest.map(([name, value]) => (
            <tr key={name}>
              <th scope="row">{name.replaceAll("_", " ")}</th>
              <td>{written(value)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {options && <Ranked options={options} />}
    </div>
  );
}

/** The output of a model for the input in the form. */
export function Predicted() {
  const current = output.value;
  const own = inspection.value?.output;
  if (!current)
    return own ? (
      <p class="translation lines" data-testid="output">
        {own}
      </p>
    ) : null;
  const text = textOf(current.result);
  if (text === null) return <Values result={current.result as object} />;
  const continues = text.startsWith(current.input);
  const grows = status.predict.value.busy;
  return (
    <div class="output" aria-busy={grows}>
      <h3>{details.value?.gives ?? "Output"}</h3>
      <p class="lines continued" data-testid="output" aria-live="polite">
        {continues && <span class="given">{current.input}</span>}
        {continues ? text.slice(current.input.length) : text}
      </p>
      <HeardWords words={wordsOf(current.result)} sound={contentsOf(current.input, "audio")} />
      {!grows && (
        <p>
          <Copy text={text} of="the output" testId="copy" />{" "}
          {inspects.value && (
            <button type="button" data-testid="inspect-output" onClick={() => void inspectOutput(text)}>
              Inspect this text
            </button>
          )}
        </p>
      )}
    </div>
  );
}
