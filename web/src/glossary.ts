/** The terms of a glossary, one per line as "source = target", and a message about the first invalid line. */
export function glossaryOf(text: string): { terms: Record<string, string>; problem: string } {
  const terms: Record<string, string> = {};
  let problem = "";
  text.split("\n").forEach((line, index) => {
    if (!line.trim()) return;
    const [source, ...target] = line.split("=");
    const [phrase, translation] = [source.trim(), target.join("=").trim()];
    if (phrase && translation) terms[phrase] = translation;
    else problem ||= `Line ${index + 1} of the glossary must have the form “source = target”.`;
  });
  return { terms, problem };
}
