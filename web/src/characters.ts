/** A character that can be seen, with its number where its shape may be missing from the screen's fonts. */
export function spelledOut(character: string): string {
  if ([...character].length > 1) return `“${character}”`;
  const number = `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
  return /^[\p{L}\p{N}\p{P}\p{S}]/u.test(character) ? `${character} (${number})` : number;
}

const MOST = 12;

/** The notice about words, items or characters that a model does not know; "" without any. */
export function unknownNotice(unknown: string[] | undefined): string {
  if (!unknown?.length) return "";
  const listed = unknown.slice(0, MOST).map(spelledOut).join(", ");
  const more = unknown.length > MOST ? ` and ${unknown.length - MOST} more` : "";
  const one = unknown.length === 1;
  const thing = unknown.some((each) => [...each].length > 1) ? "word" : "character";
  return (
    `${one ? `1 ${thing} is` : `${unknown.length} ${thing}s are`} unknown to this model: ${listed}${more}. ` +
    `${one ? "It was" : "They were"} not in the training data, and the model cannot read ${one ? "it" : "them"}.`
  );
}
