/** The first index at which two sequences differ; null if they are equal. */
export function firstDifference(left: string[], right: string[]): number | null {
  const length = Math.max(left.length, right.length);
  for (let index = 0; index < length; index++) if (left[index] !== right[index]) return index;
  return null;
}
