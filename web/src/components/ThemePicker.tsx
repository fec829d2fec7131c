import { setTheme, theme, type Theme } from "../state";

export function ThemePicker() {
  return (
    <label class="theme">
      Colors{" "}
      <select id="theme" value={theme.value} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
        <option value="auto">system</option>
        <option value="light">light</option>
        <option value="dark">dark</option>
      </select>
    </label>
  );
}
