import { set, settableFields } from "../predicting";
import { details, settings } from "../state";

/** Settings of a request. An empty field uses the value of the run. */
export function RequestFields() {
  const fields = settableFields(details.value?.settings);
  if (!fields.length) return null;
  return (
    <div class="controls" role="group" aria-label="Settings of the output" data-testid="request-settings">
      {fields.map(({ name, type, own, description, min, max }) => (
        <label key={name} title={description}>
          {type === "boolean" ? (
            <>
              <input
                type="checkbox"
                data-testid={`set-${name}`}
                checked={Boolean(settings.value[name] ?? own)}
                onChange={(event) => set(name, event.currentTarget.checked === Boolean(own) ? null : event.currentTarget.checked)}
              />{" "}
              {name.replaceAll("_", " ")}
            </>
          ) : (
            <>
              {name.replaceAll("_", " ")}{" "}
              <input
                type="number"
                data-testid={`set-${name}`}
                placeholder={own === null ? "default" : String(own)}
                min={min}
                max={name === "length" ? (details.value?.limits?.length ?? max) : max}
                step={type === "integer" ? 1 : "any"}
                value={(settings.value[name] as number | undefined) ?? ""}
                onInput={(event) => set(name, event.currentTarget.value === "" ? null : Number(event.currentTarget.value))}
              />
            </>
          )}
        </label>
      ))}
    </div>
  );
}
