/** Copies a text to the clipboard. Without HTTPS, browsers allow only the older method. Returns true on success. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
}

function copySelected(text: string): boolean {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "hidden";
  const focused = document.activeElement;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return done;
}
