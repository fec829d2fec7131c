/** A word in quotes, or a character with its code point, because fonts may lack the character. */
export function spelledOut(character: string): string {
  if ([...character].length > 1) return `“${character}”`;
  const number = `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
  return /^[\p{L}\p{N}\p{P}\p{S}]/u.test(character) ? `${character} (${number})` : number;
}

const MAX_LISTED = 12;

/** The notice about words, items or characters that are unknown to the model; "" if there are none. */
export function unknownNotice(unknown: string[] | undefined): string {
  if (!unknown?.length) return "";
  const listed = unknown.slice(0, MAX_LISTED).map(spelledOut).join(", ");
  const more = unknown.length > MAX_LISTED ? ` and ${unknown.length - MAX_LISTED} more` : "";
  const one = unknown.length === 1;
  const thing = unknown.some((each) => [...each].length > 1) ? "word" : "character";
  return (
    `${one ? `1 ${thing} is` : `${unknown.length} ${thing}s are`} unknown to this model: ${listed}${more}. ` +
    `${one ? "It was" : "They were"} not in the training data, and the model cannot read ${one ? "it" : "them"}.`
  );
}
