/** A number with `digits` decimals. Its minus sign is U+2212, which is as wide as a digit. */
export function fixed(value: number, digits = 2): string {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

/** A value with enough digits for comparisons. */
export function exact(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return (size < 0.001 || size >= 100000 ? value.toExponential(3) : value.toPrecision(5)).replaceAll("-", "−");
}

export function percent(logProbability: number): string {
  return `${(100 * Math.exp(logProbability)).toFixed(1)} %`;
}

/** A file name from the first words of a text. */
export function fileName(text: string, ending: string): string {
  const words = text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 40);
  return `regard-${words || "page"}.${ending}`;
}
