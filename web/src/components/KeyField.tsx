import { useSignal } from "@preact/signals";
import { useKey } from "../actions";

export function KeyField() {
  const key = useSignal("");
  const submit = (event: Event) => {
    event.preventDefault();
    void useKey(key.value.trim());
  };
  return (
    <form class="controls" onSubmit={submit}>
      <label>
        API key{" "}
        <input
          id="api-key"
          data-testid="api-key"
          type="password"
          autocomplete="off"
          value={key.value}
          onInput={(event) => (key.value = event.currentTarget.value)}
        />
      </label>
      <button type="submit">Use this key</button>
      <span class="quiet">The key is stored until you close this tab.</span>
    </form>
  );
}
