import { explain, influence, strongestInfluences } from "../observing";
import { fixed } from "../format";
import { offline, status } from "../state";
import { isSpecial, visible } from "../words";
import { Problem } from "./Problem";

/** Signed and in nats, as all influences are. */
const nats = (value: number | null) => (value === null ? "+∞" : `${value < 0 ? "−" : "+"}${fixed(Math.abs(value), 2)}`);

/** The input, each piece shaded by how much hiding it changes the answer. */
export function Why() {
  const shown = influence.value;
  if (!shown) {
    if (offline) return <p class="quiet">This was not computed before the page was saved.</p>;
    return (
      <>
        <p>
          <button type="button" data-testid="explain" disabled={status.extras.value.busy} onClick={() => void explain()}>
            Hide each piece in turn
          </button>
        </p>
        <Problem place="extras" doing="Hiding each piece …" />
      </>
    );
  }
  const { pieces, values, hidden, label, least, most } = shown;
  const size = Math.max(Math.abs(least), Math.abs(most), 1e-9);
  return (
    <>
      <p>
        What counts for <b data-testid="influence-of">{visible(label)}</b>:
      </p>
      <p class="lines answered" data-testid="influences">
        {pieces.map((piece, index) => {
          const value = values[index];
          const share = value === null ? 1 : value / size;
          const name = `${visible(piece)}: ${nats(value)} nats`;
          if (isSpecial(piece)) return null;
          return (
            <span key={index}>
              <span
                class={`influenced${share < 0 ? " against" : ""}`}
                style={{ "--share": `${Math.round(70 * Math.min(1, Math.abs(share)))}%` }}
                title={name}
                data-testid={`influence-${index}`}
              >
                {visible(piece)}
              </span>{" "}
            </span>
          );
        })}
      </p>
      <span class="legend figures">
        against {nats(-size)} <span class="ramp against" aria-hidden="true" /> 0 <span class="ramp" aria-hidden="true" /> for {nats(size)} nats
      </span>
      <ol class="figures" data-testid="strongest">
        {strongestInfluences(shown).map(({ piece, value }, order) => (
          <li key={order}>
            <b>{visible(piece)}</b> {nats(value)} nats
          </li>
        ))}
      </ol>
      <p class="quiet">Hidden: {hidden}</p>
    </>
  );
}
