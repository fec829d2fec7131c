/** The terms of a glossary, one a line as "source = target", and the first line that is not a term. */
export function glossaryOf(text: string): { terms: Record<string, string>; problem: string } {
  const terms: Record<string, string> = {};
  let problem = "";
  text.split("\n").forEach((line, index) => {
    if (!line.trim()) return;
    const [source, ...target] = line.split("=");
    const [phrase, translation] = [source.trim(), target.join("=").trim()];
    if (phrase && translation) terms[phrase] = translation;
    else problem ||= `Line ${index + 1} of the glossary is not “source = target”.`;
  });
  return { terms, problem };
}
