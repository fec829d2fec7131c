import { details, offline, replay, translates } from "../state";
import { Curves } from "./Curves";
import { Replay } from "./Replay";

export function Training() {
  const model = details.value;
  return (
    <>
      {model && <h3>{model.name}</h3>}
      {model && (
        <table class="parts" data-testid="model-parts">
          <tbody>
            {model.parts.map(([label, value]) => (
              <tr key={label}>
                <th scope="row">{label}</th>
                <td>{value}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {model && (model.curves.length > 0 ? <Curves model={model} /> : <p class="quiet">This run has no training curves.</p>)}
      {translates.value && (!offline || replay.value.length > 0) && <Replay />}
    </>
  );
}
