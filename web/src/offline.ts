import type { Bundle } from "./document";

/** JSON that is safe inside a script element. */
export function scriptJson(value: unknown): string {
  return JSON.stringify(value).replaceAll("<", "\\u003c");
}

/** Inserts `bundle` into the template of the offline page. */
export function fillTemplate(template: string, bundle: object): string {
  const empty = /(<script[^>]*\bid="bundle"[^>]*>)\s*(<\/script>)/;
  if (!empty.test(template)) throw new Error("The template of the offline page has no element for the data. Build the page again.");
  return template.replace(empty, (_, open: string, close: string) => open + scriptJson(bundle) + close);
}

export function readBundle(): Bundle | null {
  const text = document.getElementById("bundle")?.textContent?.trim();
  if (!text) return null;
  return JSON.parse(text) as Bundle;
}
