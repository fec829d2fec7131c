import type { Bundle } from "./document";

/** JSON that may stand in a script element. */
export function scriptJson(value: unknown): string {
  return JSON.stringify(value).replaceAll("<", "\\u003c");
}

/** The template of the page that works offline, with `bundle` in it. */
export function fillTemplate(template: string, bundle: object): string {
  const empty = /(<script[^>]*\bid="bundle"[^>]*>)\s*(<\/script>)/;
  if (!empty.test(template)) throw new Error("The page for offline use has no place for the data.");
  return template.replace(empty, (_, open: string, close: string) => open + scriptJson(bundle) + close);
}

export function readBundle(): Bundle | null {
  const text = document.getElementById("bundle")?.textContent?.trim();
  if (!text) return null;
  return JSON.parse(text) as Bundle;
}
