/** A character that can be seen, with its number where its shape may be missing from the screen's fonts. */
export function spelledOut(character: string): string {
  const number = `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
  return /^[\p{L}\p{N}\p{P}\p{S}]/u.test(character) ? `${character} (${number})` : number;
}

const MOST = 12;

/** What is said of characters that a model has never seen; "" where there are none. */
export function unknownNotice(unknown: string[] | undefined): string {
  if (!unknown?.length) return "";
  const listed = unknown.slice(0, MOST).map(spelledOut).join(", ");
  const more = unknown.length > MOST ? ` and ${unknown.length - MOST} more` : "";
  const one = unknown.length === 1;
  return (
    `${one ? "1 character is" : `${unknown.length} characters are`} unknown to this model: ${listed}${more}. ` +
    `It never saw ${one ? "it" : "them"} in training and reads <unk> instead, so what the output says there is a guess.`
  );
}
