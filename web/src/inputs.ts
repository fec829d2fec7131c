// Names in an input line, separated by spaces. If a name has a space, the line is a JSON list.

/** The names in a line that a user wrote. */
export function namesOf(line: string): string[] {
  const text = line.trim();
  if (text.startsWith("[")) {
    try {
      const names: unknown = JSON.parse(text);
      if (Array.isArray(names)) return names.map(String);
    } catch {
      // Not JSON: the first name starts with a bracket.
    }
  }
  return text.split(/\s+/).filter(Boolean);
}

/** The line that contains these names. */
export function joinNames(names: string[]): string {
  const plain = names.every((name) => !/\s/.test(name)) && !names[0]?.startsWith("[");
  return plain ? names.join(" ") : JSON.stringify(names);
}
